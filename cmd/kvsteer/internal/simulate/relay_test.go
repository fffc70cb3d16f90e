package simulate

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
)

// split is a fleet whose workers have separate roles: 0 and 1 compute prompts, 2 and
// 3 decode.
func split() Config {
	cfg := small()
	p, d := cfg.Workers[0], cfg.Workers[0]
	p.Count, p.Role = 2, fleet.RolePrefill
	d.Count, d.Role = 2, fleet.RoleDecode
	cfg.Workers, cfg.TransferRate = []WorkerSpec{p, d}, 50_000
	return cfg
}

// run lets a rule serve a workload, and checks that nothing is left of it.
func run(t *testing.T, cfg Config, w *Workload, r Rule) *cluster {
	t.Helper()
	c, err := newCluster(cfg, w, r)
	require.NoError(t, err)
	require.NoError(t, c.run(context.Background()))
	settled(t, c)
	return c
}

// settled checks that every call has ended once and nothing is left of any.
func settled(t *testing.T, c *cluster) {
	t.Helper()
	require.Zero(t, c.live)
	require.Empty(t, c.routers[0].waiting)
	require.Equal(t, c.out.calls, len(c.out.samples)+c.out.failed)
	for i := range c.workers {
		w, v := &c.workers[i], &c.routers[0].views[i]
		require.True(t, w.engine.Idle())
		require.Zero(t, w.engine.UsedBlocks()+w.engine.Kept()+w.engine.Fetching(), "worker %d", i)
		require.Zero(t, v.InFlight+v.Prefilling+v.Decoding+v.PrefillTokens+v.Tails, "worker %d", i)
		require.Zero(t, v.PrefillPairs)
		require.Empty(t, v.Live)
		require.Empty(t, w.legs)
		require.Empty(t, w.prefilling)
		require.Zero(t, w.context)
	}
}

// rule makes one for a fleet with roles.
func rule(t *testing.T, name string) Rule {
	t.Helper()
	r, err := NewApart(name, 1)
	require.NoError(t, err)
	return r
}

// Whatever fails, every call ends once, and no blocks stay held on either side.
func TestConservationOfTwoLegs(t *testing.T) {
	outages := split()
	outages.Workers = slices.Insert(outages.Workers, 1, outages.Workers[0], outages.Workers[1])
	for i := range outages.Workers {
		outages.Workers[i].Count = 1
	}
	outages.Workers[0].Outages = []Outage{{At: 3 * time.Second, For: 4 * time.Second}, {At: 10 * time.Second}}
	outages.Workers[2].Outages = []Outage{{At: 5 * time.Second, For: 3 * time.Second}}
	failures := split()
	failures.Faults = Faults{Failures: 0.2, EventLoss: 0.05, EventDelay: 20 * time.Millisecond, Stale: 500 * time.Millisecond}
	mixed := split()
	mixed.Workers = append(mixed.Workers, small().Workers[0])
	for name, cfg := range map[string]Config{"well": split(), "outages": outages, "failures": failures, "mixed": mixed} {
		for _, of := range []string{"round-robin", "dynamo", "kvsteer", "kvsteer-queue", "kvsteer:queue=1+hold=0.5+aging=1"} {
			for _, kind := range []string{"long-prompts", "multi-turn"} {
				cfg.Duration, cfg.Rate, cfg.Concurrency = 12*time.Second, 3, 0
				if kind == "multi-turn" {
					cfg.Rate, cfg.Concurrency = 0, 12
				}
				c := run(t, cfg, workloads(t, 1)[kind], rule(t, of))
				require.NotEmpty(t, c.out.samples, "%s, %s, %s", name, of, kind)
				if name == "well" {
					require.Zero(t, c.out.failed)
				}
			}
		}
	}
}

// What was computed for others is known to be where it was computed, and what was
// fetched is known to be there as well.
func TestIndexAgreesWithBothLegs(t *testing.T) {
	cfg := split()
	cfg.Rate = 8
	c := run(t, cfg, workloads(t, 1)["multi-turn"], rule(t, "kvsteer"))
	c.now += 2 * bookTTL
	for i := range c.workers {
		require.Positive(t, c.workers[i].engine.CachedBlocks())
		require.Equal(t, c.workers[i].engine.CachedBlocks(), c.routers[0].index.OwnerStats(c.routers[0].owners[i]).Pairs, "worker %d", i)
	}
}

// serve sends calls one after the other, each when there is nothing left of those
// before, and returns the cluster.
func serve(t *testing.T, cfg Config, r Rule, calls ...*Call) *cluster {
	t.Helper()
	for i := range calls {
		calls[i].At = time.Duration(i) * time.Minute
	}
	cfg.Duration = 0
	return run(t, cfg, Trace("calls", calls), r)
}

func long(id uint64, tokens int) *Call {
	return &Call{Prompt: tokens, Output: 3, Blocks: extend(nil, 64, tokens, kindUnique, id)}
}

// always has prompts computed by worker 0 and answered by worker 2, as long as both
// are there.
type always struct{ relays int }

func (a *always) Pick(s *State) int {
	a.relays = -1
	at := 0
	for i := range s.Workers {
		switch s.Workers[i].index {
		case 0:
			if s.Relays() {
				a.relays = 0
			}
		case 2:
			return i
		case 3:
			at = i
		}
	}
	return at
}

func (a *always) Relay() int { return a.relays }

// On an idle fleet the first token comes when the prompt is computed, what is not
// there yet has been handed over, and the last token is computed.
func TestHandingOverTakesTime(t *testing.T) {
	const prompt, have = 6400, 1280
	first := func(rate float64) []time.Duration {
		cfg := split()
		cfg.TransferRate = rate
		c := serve(t, cfg, &always{}, long(1, have), long(1, prompt))
		require.Equal(t, uint64(have-1+prompt-1-have), c.workers[2].engine.Stats().RemoteTokens)
		var out []time.Duration
		for i := range c.out.samples {
			require.True(t, c.out.samples[i].relayed)
			out = append(out, c.out.samples[i].ttft)
		}
		return out
	}
	at, slow := first(0), first(10_000)
	require.InDelta(t, (have-1)/10_000.0, (slow[0] - at[0]).Seconds(), 1e-6)
	// The last block of the shorter prompt was not cached with it: its last token is
	// computed where the answer is, and makes it whole there.
	require.InDelta(t, (prompt-1-have)/10_000.0, (slow[1] - at[1]).Seconds(), 1e-6)

	// A step for each side.
	specs, err := expand(split().Workers)
	require.NoError(t, err)
	timing := specs[0].timing()
	require.Greater(t, at[1].Seconds(), 2*timing.Base+(prompt-have)*timing.PrefillToken)
}

// The cached tokens of a prompt are those of the worker that computes it: there the
// product expects them, and there they count.
func TestCreditGoesToWhoComputes(t *testing.T) {
	r := NewSteer(1)
	r.Predictor = pace{}
	call := long(1, 6400)
	c := serve(t, split(), &busy{Steer: r}, call, long(1, 6400+640), long(2, 640))
	require.Len(t, c.out.samples, 3)
	require.Zero(t, c.out.samples[0].hit)
	require.Equal(t, 6400, c.out.samples[1].hit, "of the prompt before, which was computed there")
	require.Zero(t, c.out.samples[2].hit)
	for i, s := range c.out.samples {
		require.True(t, s.relayed, "call %d", i)
	}
	computed := []uint64{c.workers[0].engine.Stats().HitTokens, c.workers[1].engine.Stats().HitTokens}
	require.ElementsMatch(t, []uint64{6400, 0}, computed)
	require.NotEmpty(t, r.audits, "what it reports was compared")

	// To those that answer all looks cached, which nobody had expected.
	var calls []*Call
	for i := range 30 {
		calls = append(calls, long(uint64(100+i), 3200))
	}
	r = NewSteer(1)
	r.Predictor = pace{}
	c = serve(t, split(), &busy{Steer: r}, calls...)
	for i := range c.routers[0].views {
		require.Equal(t, kvcache.Exact, c.routers[0].index.Trust(c.routers[0].views[i].Owner), "worker %d", i)
	}
}

// What is held for a call that finds its whole prompt where it is answered is given
// back, although nobody fetches it.
func TestNothingToFetch(t *testing.T) {
	c := serve(t, split(), &always{}, long(1, 6410), long(1, 6410))
	require.Equal(t, uint64(6400), c.workers[2].engine.Stats().RemoteTokens, "of the first")
	require.Equal(t, uint64(6400), c.workers[2].engine.Stats().HitTokens, "of the second")
}

// busy makes all decode workers look busy, so that prompts are computed elsewhere.
type busy struct{ *Steer }

func (b *busy) Pick(s *State) int {
	for i := range s.Workers {
		if s.Workers[i].answers() {
			s.Workers[i].Decoding += 30
		}
	}
	at := b.Steer.Pick(s)
	for i := range s.Workers {
		if s.Workers[i].answers() {
			s.Workers[i].Decoding -= 30
		}
	}
	return at
}

// A prompt is computed where it is answered if that is sooner.
func TestShortPromptsStay(t *testing.T) {
	prefill := View{Role: fleet.RolePrefill}
	for name, c := range map[string]struct {
		prompt  int
		p, d    View
		relayed bool
	}{
		"nobody is there":   {100, prefill, View{}, false},
		"less than a block": {10, prefill, View{Decoding: 20}, false},
		"answers run":       {1000, prefill, View{Decoding: 20}, true},
		"it is cached here": {1000, prefill, View{Decoding: 20, CachedBlocks: 99}, false},
		"a queue there":     {1000, View{Role: fleet.RolePrefill, Prefilling: 4, PrefillTokens: 5000}, View{Decoding: 20}, false},
	} {
		c.d.Role = fleet.RoleDecode
		s := state(c.prompt, c.p, c.d)
		s.TransferRate = 10_000
		_, steer := withPace(t, "")
		require.Equal(t, 1, steer.Pick(s), name)
		require.Equal(t, c.relayed, steer.Relay() == 0, name)
	}
}

// The last of several attempts, and all while nobody computes prompts, are on one
// worker.
func TestAloneOnOneWorker(t *testing.T) {
	s := state(1000, View{Role: fleet.RolePrefill}, View{Role: fleet.RoleDecode, Decoding: 20})
	for attempt, relays := range []bool{1: true, 2: true, 3: false} {
		if attempt > 0 {
			s.Attempt = attempt
			_, steer := withPace(t, "")
			require.Equal(t, 1, steer.Pick(s))
			require.Equal(t, relays, steer.Relay() == 0, "attempt %d", attempt)
		}
	}
	cfg := split()
	cfg.Rate = 3
	cfg.Workers[0].Outages = []Outage{{}} // from the beginning, for good
	c := run(t, cfg, workloads(t, 1)["long-prompts"], rule(t, "kvsteer"))
	require.Zero(t, c.out.failed)
	require.Zero(t, c.workers[0].engine.Stats().Finished+c.workers[1].engine.Stats().Finished)
	for i := range c.out.samples {
		require.False(t, c.out.samples[i].relayed)
	}
}

func TestRulesThatKnowNoRoles(t *testing.T) {
	for _, name := range []string{"bound", "bound-fifo", "lowest-ttft", "best"} {
		_, err := NewApart(name, 1)
		require.ErrorContains(t, err, name)
	}
	cfg := split()
	cfg.Rate = 1
	oracle, err := NewRule("kvsteer:oracle=1", 1)
	require.NoError(t, err)
	for _, r := range []Rule{&RoundRobin{}, &Bound{}, oracle} {
		_, err := Run(context.Background(), cfg, workloads(t, 1)["control"], r)
		require.ErrorContains(t, err, "roles")
	}
	cfg = small()
	cfg.Rate, cfg.Faults.Failures = 1, 0.1
	_, err = Run(context.Background(), cfg, workloads(t, 1)["control"], &Bound{})
	require.ErrorContains(t, err, "fail")
}

// Others choose within each role, with one memory for each.
func TestApart(t *testing.T) {
	r := rule(t, "round-robin")
	s := state(100, View{Role: fleet.RolePrefill}, View{Role: fleet.RoleDecode}, View{Role: fleet.RolePrefill},
		View{Role: fleet.RoleDecode}, View{Role: fleet.RoleDecode})
	var got [][2]int
	for range 4 {
		i := r.Pick(s)
		got = append(got, [2]int{i, r.(Relayer).Relay()})
	}
	require.Equal(t, [][2]int{{1, 0}, {3, 2}, {4, 0}, {1, 2}}, got)
	s.Attempt = maxAttempts
	require.Equal(t, 3, r.Pick(s))
	require.Equal(t, -1, r.(Relayer).Relay())
}
