package main

import (
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// known says how many of the ranks' caches are known exactly, and why the others are not.
type known struct {
	exact  int
	silent int // the engine announces nothing: no router could know
	gap    int // events of this life were damaged or never sent, which no replay makes good
	rest   int // for no such reason: they must heal
}

func (k *known) add(o known) {
	k.exact, k.silent, k.gap, k.rest = k.exact+o.exact, k.silent+o.silent, k.gap+o.gap, k.rest+o.rest
}

func (k *known) ranks() int { return k.exact + k.silent + k.gap + k.rest }

// share is how many of those that can be known exactly are.
func (k *known) share() float64 { return float64(k.exact) / float64(max(1, k.exact+k.rest)) }

func (k *known) String() string {
	const format = "of the ranks %.0f%% are known exactly; %.0f%% announce nothing, of %.0f%% events were spoilt for good, " +
		"and %.0f%% are on their way"
	part := func(n int) float64 { return 100 * float64(n) / float64(max(1, k.ranks())) }
	return fmt.Sprintf(format, part(k.exact), part(k.silent), part(k.gap), part(k.rest))
}

// unsure are the ranks that are not known exactly and should be, and since when.
type unsure map[string]time.Duration

// reason says of a worker that it announces nothing, or what was done to its events for good.
type reason func(worker string) (silent bool, gap string)

// sort tells which ranks are known exactly and why the others are not, and names those of
// which that is not so for longer than it takes to heal.
func (u unsure) sort(caches []kvsteer.CacheStats, why reason, now, heal time.Duration) (known, []string) {
	var k known
	var late []string
	seen := map[string]bool{}
	for i := range caches {
		c := &caches[i]
		silent, gap := why(c.Worker)
		for rank := range c.Ranks {
			o := &c.Ranks[rank]
			switch {
			case o.Trust == kvcache.Exact:
				k.exact++
				continue
			case silent:
				k.silent++
				continue
			case gap != "":
				k.gap++
				continue
			}
			k.rest++
			name := fmt.Sprintf("%s, rank %d", c.Worker, rank)
			seen[name] = true
			since, before := u[name]
			if !before {
				since = now
				u[name] = now
			}
			if now-since > heal {
				late = append(late, fmt.Sprintf("the cache of %s is not known exactly, from %v to %v, and nothing was done to its events: %v, %s",
					name, since.Round(time.Second), now.Round(time.Second), o.Trust, o.TrustReason))
			}
		}
	}
	for name := range u {
		if !seen[name] {
			delete(u, name)
		}
	}
	return k, late
}

// why says what is the matter with a worker's events.
func (w *workers) why(name string) (silent bool, gap string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.running {
		if e.Name() == name {
			return e.kind == kindSilent, e.gap
		}
	}
	return false, ""
}
