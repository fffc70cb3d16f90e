package simulate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// apiece is the split fleet with a spec for each worker.
func apiece() Config {
	cfg := split()
	p, d := cfg.Workers[0], cfg.Workers[1]
	p.Count, d.Count = 1, 1
	cfg.Workers, cfg.Duration = []WorkerSpec{p, p, d, d}, 0
	return cfg
}

// A worker that crashes takes its answers with it; what had no token yet goes
// elsewhere, and it comes back with nothing.
func TestCrash(t *testing.T) {
	cfg := small()
	cfg.Duration = 0
	cfg.Workers[0].Count = 1
	cfg.Workers = append(cfg.Workers, cfg.Workers[0])
	cfg.Workers[0].Outages = []Outage{{At: 1100 * time.Millisecond, For: 58 * time.Second}}
	calls := []*Call{long(1, 640), long(2, 640), long(3, 6400), long(1, 640), long(1, 640)}
	calls[0].Output, calls[1].Output = 2000, 2000
	for i, at := range []time.Duration{0, 0, time.Second, 2 * time.Second, time.Minute} {
		calls[i].At = at
	}
	c := run(t, cfg, Trace("crash", calls), &RoundRobin{})
	require.Equal(t, 1, c.out.failed, "an answer that had begun")
	require.Len(t, c.out.samples, 4)
	require.False(t, c.workers[0].down)
	require.Equal(t, 1, c.workers[0].life)
	require.Equal(t, uint64(1), c.workers[0].engine.Stats().Finished, "the last; nothing is left of before")
	require.Zero(t, c.workers[0].engine.Stats().HitTokens)
	require.Equal(t, uint64(3), c.workers[1].engine.Stats().Finished)
	require.True(t, c.routers[0].views[0].Up)
}

// The router learns of a crash by the next connection that is refused.
func TestARefusedConnectionTells(t *testing.T) {
	cfg := small()
	cfg.Workers[0].Count = 2
	cfg.Workers = append(cfg.Workers, cfg.Workers[0])
	cfg.Workers[0].Count, cfg.Workers[1].Count = 1, 1
	cfg.Workers[0].Outages = []Outage{{At: time.Millisecond}}
	w := &noting{}
	calls := []*Call{long(1, 640), long(2, 640), long(3, 640), long(4, 640)}
	for i := range calls {
		calls[i].At = time.Duration(i+1) * time.Second
	}
	c := run(t, cfg, Trace("refused", calls), w)
	require.Zero(t, c.out.failed)
	require.Equal(t, []int{2, 1, 1, 1, 1}, w.saw, "only the first is refused, and goes elsewhere")
}

// noting takes the first worker and notes how many there were.
type noting struct{ saw []int }

func (n *noting) Pick(s *State) int {
	n.saw = append(n.saw, len(s.Workers))
	return 0
}

// Where all fail a request fails after three workers, and the session is over.
func TestThreeAttempts(t *testing.T) {
	cfg := small()
	cfg.Workers[0].Count, cfg.Faults.Failures = 5, 1
	n := &noting{}
	c := run(t, cfg, Trace("fail", []*Call{long(1, 640)}), n)
	require.Equal(t, 1, c.out.failed)
	require.Equal(t, []int{5, 4, 3}, n.saw)
	cfg.Workers[0].Count = 2
	n = &noting{}
	c = run(t, cfg, Trace("fail", []*Call{long(1, 640)}), n)
	require.Equal(t, 1, c.out.failed)
	require.Equal(t, []int{2, 1}, n.saw, "nobody is left")
	cfg.Rate, cfg.Concurrency = 0, 3
	c = run(t, cfg, workloads(t, 1)["multi-turn"], &noting{})
	require.Greater(t, c.out.failed, 30, "users try again")
}

// Each way in which a call served by two workers can fail, and what is made of it.
func TestFailuresOfEitherLeg(t *testing.T) {
	const prompt = 12_800
	specs, err := expand(apiece().Workers)
	require.NoError(t, err)
	timing := specs[0].timing()
	computed := time.Duration((timing.Base*7 + timing.PrefillToken*prompt) * float64(time.Second)) // at least
	for name, c := range map[string]struct {
		worker  int
		at      time.Duration
		failed  int
		relayed bool
	}{
		"while it is computed": {0, computed / 2, 0, false},
		// The blame is on who fetches; who does not answer any more is asked once more.
		"while it is handed over":          {0, computed * 3, 0, false},
		"who would answer, meanwhile":      {2, computed / 2, 0, true},
		"who fetches":                      {2, computed * 3, 0, true},
		"who answers":                      {2, computed*3/2 + 14*time.Second, 1, false},
		"who has computed it, later":       {0, computed*3/2 + 14*time.Second, 0, true},
		"somebody else":                    {1, computed / 2, 0, true},
		"somebody else who would answer":   {3, computed * 3, 0, true},
		"who would compute it, beforehand": {0, -1, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := apiece()
			cfg.TransferRate = 1000 // 13 s
			call := long(1, prompt)
			call.Output, call.At = 500, time.Second
			cfg.Workers[c.worker].Outages = []Outage{{At: time.Second + c.at}}
			r := run(t, cfg, Trace("legs", []*Call{call}), &always{})
			require.Equal(t, c.failed, r.out.failed)
			if c.failed == 0 {
				require.Len(t, r.out.samples, 1)
				require.Equal(t, c.relayed, r.out.samples[0].relayed)
			}
			for i := range r.routers[0].views {
				require.Equal(t, i == c.worker, r.workers[i].down)
			}
		})
	}
}

// KV that nobody comes for is held for as long as it is leased, and no longer.
func TestLease(t *testing.T) {
	cfg := apiece()
	cfg.TransferRate = 1000
	cfg.Workers[2].Outages, cfg.Workers[3].Outages = []Outage{{At: 5 * time.Second}}, []Outage{{At: 5 * time.Second}}
	held := map[time.Duration]int{}
	calls := []*Call{long(1, 12_800)}
	for s := range 40 {
		calls = append(calls, &Call{Prompt: 10, Output: 1, At: time.Duration(s+1) * time.Second})
	}
	cfg.Workers = append(cfg.Workers, small().Workers[0])
	cfg.Workers[4].Role = fleet.RoleWhole
	run(t, cfg, Trace("lease", calls), &leased{held: held})
	require.Positive(t, held[4*time.Second], "it is being fetched")
	require.Positive(t, held[34*time.Second])
	require.Zero(t, held[36*time.Second], "it was leased for 30 s when who fetched it went down")
}

// leased serves the first call by two workers, and notes what is held at the others.
type leased struct {
	always

	held map[time.Duration]int
}

func (l *leased) Pick(s *State) int {
	l.held[s.Now.Truncate(time.Second)] = s.cluster.workers[0].engine.Kept()
	if s.Call.Prompt > 10 && s.Attempt == 1 {
		return l.always.Pick(s)
	}
	l.relays = -1
	return len(s.Workers) - 1
}
