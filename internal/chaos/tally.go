package chaos

import (
	"slices"
	"sync"

	"github.com/kvsteer/kvsteer"
)

// Tally counts what has come about in worlds. What never does no check has looked at: many
// seeds without it show nothing. The zero value is ready, and safe for concurrent use.
type Tally struct {
	mu    sync.Mutex
	times map[string]int
}

// outcomes are what must come about where many seeds run.
func outcomes() []string {
	return []string{
		"429 by a limit", "retry", "resync", "replay", "a gap", "an undecodable message", "a restart of a publisher",
		"rejected by the policy", "unavailable limits", "nobody is well", "a request that nothing excused",
		"a choice while somebody is drained", "served by the provider", "exact caches",
		"a prompt computed for another worker", "left while one computed for another",
	}
}

func (t *Tally) add(what string) { t.more(what, 1) }

func (t *Tally) more(what string, n int) {
	if t == nil || n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.times == nil {
		t.times = make(map[string]int)
	}
	t.times[what] += n
}

// Counts are how often everything has come about that must.
func (t *Tally) Counts() map[string]int {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := make(map[string]int)
	for _, what := range outcomes() {
		counts[what] = t.times[what]
	}
	return counts
}

// Missing lists what has never come about.
func (t *Tally) Missing() []string {
	var missing []string
	for what, n := range t.Counts() {
		if n == 0 {
			missing = append(missing, what)
		}
	}
	slices.Sort(missing)
	return missing
}

// refused counts a request that was turned down.
func (t *Tally) refused(c kvsteer.Code) {
	switch c {
	case kvsteer.CodeLimited:
		t.add("429 by a limit")
	case kvsteer.CodeRejectedByPolicy:
		t.add("rejected by the policy")
	case kvsteer.CodeUnavailable:
		t.add("unavailable limits")
	case kvsteer.CodeNoCandidates:
		t.add("nobody is well")
	default:
	}
}

// streams counts what has happened to the streams of events, as far as their followers are
// still there.
func (t *Tally) streams(s *kvsteer.Stats) {
	for i := range s.Caches {
		for _, f := range s.Caches[i].Streams {
			t.more("replay", int(f.Replayed))
			t.more("a gap", int(f.Gaps))
			t.more("an undecodable message", int(f.Undecodable))
			t.more("a restart of a publisher", int(f.Restarts))
		}
	}
}
