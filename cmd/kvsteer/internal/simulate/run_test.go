package simulate

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// small is a fleet on which caches fill and queues form within a minute.
func small() Config {
	return Config{
		Workers:  []WorkerSpec{{Count: 3, PrefillRate: 20_000, CacheTokens: 100_000, BlockSize: 64}},
		Duration: 40 * time.Second, Seed: 3,
	}
}

func workloads(t *testing.T, seed uint64) map[string]*Workload {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "trace.jsonl"))
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	calls, err := ReadTrace(f, 64, 0)
	require.NoError(t, err)
	out := map[string]*Workload{
		"shared-prefix": SharedPrefix(64, nil), "multi-turn": MultiTurn(64, nil),
		"control": Control(64, nil), "hot-prefix": HotPrefix(64, nil), "agents": Agents(64, nil), "long-prompts": LongPrompts(64, nil), "trace": Trace("trace", calls),
	}
	for _, w := range out {
		w.Reseed(seed)
	}
	return out
}

func runSmall(t *testing.T, cfg Config, w *Workload, rule string) *Result {
	t.Helper()
	r, err := NewRule(rule, cfg.Seed)
	require.NoError(t, err)
	res, err := Run(context.Background(), cfg, w, r)
	require.NoError(t, err)
	res.Router = rule
	return res
}

// every is all rules and the variants that a user can name.
func every() []string {
	return append(RuleNames(), "bound-fifo", "kvsteer-queue", "kvsteer:constant=2+running=1+most=3+waiting=1+progress=0+oracle=1",
		"kvsteer:queue=1+hold=0.05", "kvsteer:queue=1+hold=0.5+aging=1")
}

func TestGolden(t *testing.T) {
	var got []Row
	for _, name := range RuleNames() {
		cfg := small()
		cfg.Rate = 4
		r := runSmall(t, cfg, workloads(t, cfg.Seed)["multi-turn"], name)
		got = append(got, r.Row)
	}
	data, err := json.MarshalIndent(got, "", "  ")
	require.NoError(t, err)
	path := filepath.Join("testdata", "golden.json")
	if *update {
		require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	var rows []Row
	require.NoError(t, json.Unmarshal(want, &rows))
	require.Len(t, got, len(rows))
	for i, w := range rows {
		g := got[i]
		require.Equal(t, w.Router, g.Router)
		// Processors that fuse multiply and add round differently; a changed choice
		// shows in much more than that.
		for _, pair := range [][2]float64{
			{w.Mean, g.Mean},
			{w.P50, g.P50},
			{w.P90, g.P90},
			{w.P99, g.P99},
			{w.ITL, g.ITL},
			{w.E2E, g.E2E},
			{w.HitRate, g.HitRate},
			{w.Goodput, g.Goodput},
		} {
			require.InEpsilon(t, pair[0], pair[1], 1e-3, "%s: %+v instead of %+v", w.Router, g, w)
		}
	}
}

func TestRunsAreDeterministic(t *testing.T) {
	for _, name := range every() {
		run := func(seed uint64) *Result {
			cfg := small()
			cfg.Rate, cfg.Seed, cfg.Duration = 3, seed, 20*time.Second
			cfg.Faults = Faults{EventLoss: 0.1, EventDelay: 50 * time.Millisecond, Stale: time.Second}
			r := runSmall(t, cfg, workloads(t, seed)["shared-prefix"], name)
			r.Hits = nil // NaN, where nothing arrived, is never equal
			return r
		}
		once, again, other := run(1), run(1), run(2)
		require.Equal(t, once, again, name)
		require.NotEqual(t, once.Row, other.Row, name)
	}
}

// Every request finishes once, and nothing stays booked.
func TestConservation(t *testing.T) {
	for _, name := range every() {
		for kind := range workloads(t, 1) {
			for _, load := range []Config{{Rate: 3}, {Concurrency: 20}} {
				cfg := small()
				cfg.Rate, cfg.Concurrency, cfg.Duration = load.Rate, load.Concurrency, 12*time.Second
				cfg.Faults = Faults{EventLoss: 0.05, EventDelay: 20 * time.Millisecond, Stale: 500 * time.Millisecond}
				w := workloads(t, 1)[kind]
				made := 0
				session := w.Session
				w.Session = func() []*Call {
					calls := session()
					made += len(calls)
					return calls
				}
				r, err := NewRule(name, 1)
				require.NoError(t, err)
				c, err := newCluster(cfg, w, r)
				require.NoError(t, err)
				require.NoError(t, c.run(context.Background()))
				require.Zero(t, c.live)
				require.Empty(t, c.routers[0].waiting)
				finished := 0
				for i := range c.workers {
					e, v := c.workers[i].engine, c.routers[0].views[i]
					require.True(t, e.Idle())
					require.Zero(t, e.UsedBlocks())
					require.Zero(t, v.InFlight+v.Prefilling+v.Decoding+v.PrefillTokens+v.Tails, "%s, %s", name, kind)
					require.Zero(t, v.PrefillPairs)
					require.Empty(t, v.Live)
					require.Empty(t, c.workers[i].prefilling)
					require.Zero(t, c.workers[i].context)
					finished += int(e.Stats().Finished)
				}
				require.Len(t, c.out.samples, finished, "each finished request is one sample")
				require.Positive(t, finished)
				require.LessOrEqual(t, finished, made)
			}
		}
	}
}

// With events in time and none lost, the index knows what the engines hold.
func TestIndexAgreesWithEngines(t *testing.T) {
	cfg := small()
	cfg.Rate = 4
	w := workloads(t, 1)["multi-turn"]
	r, err := NewRule("kvsteer", 1)
	require.NoError(t, err)
	c, err := newCluster(cfg, w, r)
	require.NoError(t, err)
	require.NoError(t, c.run(context.Background()))
	c.now += 2 * bookTTL // bookings that no event confirmed are over
	for i := range c.workers {
		require.Equal(t, c.workers[i].engine.CachedBlocks(), c.routers[0].index.OwnerStats(c.routers[0].owners[i]).Pairs, "worker %d", i)
	}
	require.Zero(t, c.routers[0].index.Stats().Orphans)
}

// Not to the last percent: where a step ends differs.
func TestBoundIsABound(t *testing.T) {
	for _, kind := range []string{"shared-prefix", "control", "trace"} {
		cfg := small()
		if kind != "trace" {
			cfg.Rate = 3
		}
		bound := runSmall(t, cfg, workloads(t, cfg.Seed)[kind], "bound")
		for _, name := range RuleNames() {
			r := runSmall(t, cfg, workloads(t, cfg.Seed)[kind], name)
			require.Equal(t, bound.Requests, r.Requests, "an open loop is the same for all")
			require.GreaterOrEqual(t, r.Mean, 0.97*bound.Mean, "%s on %s", name, kind)
		}
	}
}

func TestASlowWorkerGetsLess(t *testing.T) {
	cfg := small()
	cfg.Rate = 3
	lame := cfg.Workers[0]
	lame.Count, lame.Speed = 1, 1.0/3
	cfg.Workers[0].Count = 2
	cfg.Workers = append([]WorkerSpec{lame}, cfg.Workers...)
	for _, name := range []string{"kvsteer", "lowest-ttft"} {
		r, err := NewRule(name, 1)
		require.NoError(t, err)
		c, err := newCluster(cfg, workloads(t, 1)["control"], r)
		require.NoError(t, err)
		require.NoError(t, c.run(context.Background()))
		slow, fast := c.workers[0].engine.Stats().Finished, c.workers[1].engine.Stats().Finished
		require.Less(t, 2*slow, fast+slow, "%s: %d on the slow one, %d on a fast one", name, slow, fast)
	}
}

func TestRefusals(t *testing.T) {
	shared := func() *Workload { return workloads(t, 1)["shared-prefix"] }
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no arrivals":   {func(*Config) {}, "a rate or a concurrency is needed"},
		"both arrivals": {func(c *Config) { c.Rate, c.Concurrency = 1, 1 }, "either"},
		"no rate": {
			func(c *Config) { c.Concurrency, c.Processes = 1, 2 }, "at a rate: give -rate",
		},
		"no rate to seed": {
			func(c *Config) { c.Concurrency, c.ArrivalSeed = 1, 2 }, "at a rate: give -rate",
		},
		"fewer than no processes": {
			func(c *Config) { c.Rate, c.Processes = 1, -1 }, "give 1 or more",
		},
		"no end":     {func(c *Config) { c.Rate, c.Duration = 1, 0 }, "a duration is needed"},
		"no workers": {func(c *Config) { c.Rate, c.Workers = 1, nil }, "no workers"},
		"too small a cache": {
			func(c *Config) { c.Rate, c.Workers[0].CacheTokens = 1, 8_000 }, "16256 tokens",
		},
		"two block sizes": {
			func(c *Config) { c.Rate, c.Workers = 1, append(c.Workers, WorkerSpec{BlockSize: 32}) }, "same block size",
		},
	} {
		cfg := small()
		c.change(&cfg)
		_, err := Run(context.Background(), cfg, shared(), &RoundRobin{})
		require.ErrorContains(t, err, c.want, name)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cfg := small()
	cfg.Rate = 1
	_, err := Run(ctx, cfg, shared(), &RoundRobin{})
	require.ErrorIs(t, err, context.Canceled)

	for _, name := range []string{"", "best", "random:x=1", "kvsteer:x=1", "kvsteer:hold", "kvsteer:hold=-1", "kvsteer-queue:hold=1"} {
		_, err := NewRule(name, 1)
		require.Error(t, err, name)
	}
}
