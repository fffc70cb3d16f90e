package simulate

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// together makes so many routers of a rule.
func together(t *testing.T, name string, routers int, seed uint64) []Rule {
	t.Helper()
	rules := make([]Rule, routers)
	for n := range rules {
		r, err := NewRule(name, seed+uint64(n)*1000)
		require.NoError(t, err)
		rules[n] = r
	}
	return rules
}

// herding is how 100 requests come.
type herding struct {
	gap    time.Duration
	p      kvsteer.Predictor // the routers' own if nil
	params string
	random bool // to any of the routers
	uneven bool // for a reason that counts
}

// herd sends so many requests at once to several routers of an idle fleet of 8, and
// returns how many the worker with the most and with the fewest got.
func herd(t *testing.T, c *herding, seed uint64) (most, fewest int) {
	t.Helper()
	var list []*Call
	const calls, routers = 100, 4
	for n := range calls {
		list = append(list, &Call{
			// By then the routers know of each other.
			At: 2*time.Second + time.Duration(n)*c.gap, Prompt: 2000, Output: 10, Blocks: extend(nil, 64, 2000, kindUnique, uint64(n)),
		})
	}
	rules := together(t, "kvsteer:gather=0"+c.params, routers, seed)
	counts := make([]int, 8)
	for n, r := range rules {
		s, ok := r.(*Steer)
		require.True(t, ok)
		if c.p != nil {
			s.Predictor = c.p
		}
		rules[n] = &counting{s, counts}
	}
	cfg := Config{
		Workers: []WorkerSpec{{Count: 8, PrefillRate: 20_000, CacheTokens: 400_000, BlockSize: 64}}, Seed: seed,
		Exchange: Exchange{On: true, Delay: 2 * time.Millisecond}, Faults: Faults{Stale: time.Second}, InTurn: !c.random,
	}
	_, err := Run(context.Background(), cfg, Trace("herd", list), rules[0], rules[1:]...)
	require.NoError(t, err)
	most, fewest = 0, calls
	sum := 0
	for _, n := range counts {
		most, fewest, sum = max(most, n), min(fewest, n), sum+n
	}
	require.Equal(t, calls, sum)
	return most, fewest
}

// counting counts the calls of each worker.
type counting struct {
	*Steer

	counts []int
}

func (c *counting) Pick(s *State) int {
	i := c.Steer.Pick(s)
	c.counts[s.Workers[i].index]++
	return i
}

// biased finds each worker by some percent faster or slower than the next, as all
// routers may have learned.
type biased struct {
	pace

	factor map[string]float64
}

func (b biased) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	b.pace.Predict(in, out)
	for i := range in {
		f, ok := b.factor[in[i].Worker]
		if !ok {
			f = 1
		}
		for _, d := range []*time.Duration{&out[i].TTFT, &out[i].Prefill, &out[i].Externality} {
			*d = time.Duration(f * float64(*d))
		}
	}
}

// hundreds are the ways in which 100 requests come to four routers.
func hundreds() map[string]herding {
	percents := biased{factor: map[string]float64{"worker-1": 0.98, "worker-2": 1.02, "worker-5": 0.97, "worker-6": 1.03}}
	best := biased{factor: map[string]float64{"worker-3": 0.96}}
	const soon, slowly = 100 * time.Microsecond, 500 * time.Microsecond
	return map[string]herding{
		"at once": {}, "within 10 ms": {gap: soon}, "within 50 ms": {gap: slowly},
		"biased by percents":               {p: percents},
		"biased by percents, within 50 ms": {p: percents, gap: slowly, uneven: true},
		"one is slightly best":             {p: best},
		"one is slightly best, in 50 ms":   {p: best, gap: slowly},
	}
}

// Requests that come at once to four routers don't meet on the same workers, whatever
// the routers have learned, and whether or not some news have come meanwhile. A worker
// that is 6% faster than another should have one more of those 13 that each gets.
func TestRoutersDoNotHerd(t *testing.T) {
	for name, c := range hundreds() {
		t.Run(name, func(t *testing.T) {
			bound := 3
			if c.uneven {
				bound = 5
			}
			for seed := range uint64(20) {
				most, fewest := herd(t, &c, seed+1)
				require.LessOrEqual(t, most-fewest, bound, "seed %d: %d and %d", seed+1, most, fewest)
			}
		})
	}
}

// What that is worth: without it they do. Here some routers get more of the requests
// than others.
func TestRoutersWouldHerd(t *testing.T) {
	const seeds = 10
	with, without := 0, 0
	for name, c := range hundreds() {
		before, beforeWithout := with, without
		for seed := range uint64(seeds) {
			c.random, c.params = true, ""
			most, fewest := herd(t, &c, seed+1)
			with += most - fewest
			c.params = "+near=0"
			most, fewest = herd(t, &c, seed+1)
			without += most - fewest
		}
		t.Logf("%s: mean spread %.1f, without near equals %.1f", name,
			float64(with-before)/seeds, float64(without-beforeWithout)/seeds)
	}
	require.Less(t, 2*with, without)
}

// apart are small fleets with four routers, with all that can go wrong.
func apart() map[string]Config {
	on := small()
	on.Rate, on.Duration = 6, 20*time.Second
	on.Exchange, on.Faults.Stale = Exchange{On: true, Delay: 2 * time.Millisecond}, time.Second
	off, lossy, broken, deaf := on, on, on, on
	off.Exchange = Exchange{}
	lossy.Exchange.Loss = 0.3
	lossy.Faults = Faults{EventLoss: 0.1, EventDelay: 50 * time.Millisecond, Stale: time.Second, Failures: 0.1}
	deaf.Exchange.Loss = 1
	worker := small().Workers[0]
	worker.Count = 1
	broken.Workers = []WorkerSpec{worker, worker, worker}
	broken.Workers[1].Outages = []Outage{{At: 4 * time.Second, For: 3 * time.Second}, {At: 12 * time.Second}}
	return map[string]Config{"on": on, "off": off, "lossy": lossy, "deaf": deaf, "broken": broken}
}

// Every call ends once, whichever router it came to, and no router has anything left of
// its own, nor of others once they have told of it.
func TestConservationOfSeveralRouters(t *testing.T) {
	for name, cfg := range apart() {
		for _, rule := range []string{"kvsteer", "kvsteer-queue", "kvsteer:turn=0.003", "dynamo", "session-hash"} {
			for _, kind := range []string{"multi-turn", "shared-prefix"} {
				rules := together(t, rule, 4, 1)
				c, err := newCluster(cfg, workloads(t, 1)[kind], rules[0], rules[1:]...)
				require.NoError(t, err)
				require.NoError(t, c.run(context.Background()))
				require.Zero(t, c.live)
				require.Equal(t, c.out.calls, len(c.out.samples)+c.out.failed, "%s, %s", name, rule)
				require.NotEmpty(t, c.out.samples)
				for _, r := range c.routers {
					require.Empty(t, r.waiting)
					for i := range r.own {
						own, v := r.own[i], &r.views[i]
						require.Zero(t, own.prefilling+own.decoding+own.tokens, "%s, %s: worker %d", name, rule, i)
						require.Zero(t, own.pairs)
						require.Empty(t, v.Live)
						require.Zero(t, v.Tails)
						if name == "on" {
							require.Zero(t, v.InFlight+v.PrefillTokens, "%s, %s: worker %d", name, rule, i)
						}
					}
					if name == "deaf" || name == "off" {
						require.Zero(t, r.peers())
					} else {
						require.Equal(t, 3, r.peers())
						require.Zero(t, r.table.Counts().Refused)
					}
				}
			}
		}
	}
}

// What happens is a function of the seed.
func TestSeveralRoutersAreDeterministic(t *testing.T) {
	for _, name := range []string{"kvsteer", "kvsteer-queue", "least-requests"} {
		once := func(seed uint64) *Result {
			cfg := apart()["lossy"]
			cfg.Seed = seed
			rules := together(t, name, 3, seed)
			r, err := Run(context.Background(), cfg, workloads(t, seed)["shared-prefix"], rules[0], rules[1:]...)
			require.NoError(t, err)
			r.Hits = nil // NaN is never equal
			return r
		}
		first, again, other := once(1), once(1), once(2)
		require.Equal(t, first, again, name)
		require.NotEqual(t, first.Row, other.Row, name)
	}
}

// A router hears what others have in flight, and which blocks will be where, after the
// exchange's delay and no sooner.
func TestRoutersHearOfEachOther(t *testing.T) {
	cfg := apart()["on"]
	rules := together(t, "kvsteer:gather=0", 2, 1)
	c, err := newCluster(cfg, workloads(t, 1)["control"], rules[0], rules[1:]...)
	require.NoError(t, err)
	call := &Call{Prompt: 6400, Output: 50, Blocks: extend(nil, 64, 6400, kindUnique, 1)}
	j := &Job{Call: call}
	require.NoError(t, c.admit(j))
	a, b := j.via, c.routers[1-j.via.number]
	until := func(at time.Duration) {
		for len(c.agenda.events) > 0 && c.agenda.events[0].at <= at {
			e, _ := c.agenda.next()
			c.now = e.at
			require.NoError(t, c.happen(&e))
		}
		c.now = at
	}
	seen := func() (inFlight, cached int) {
		s := b.look(&Job{Call: call, keys: j.keys})
		return s.Workers[j.worker].InFlight, s.Workers[j.worker].CachedBlocks
	}
	until(2 * time.Millisecond)
	inFlight, cached := seen()
	require.Zero(t, inFlight+cached, "it is on its way")
	until(3 * time.Millisecond)
	inFlight, cached = seen()
	require.Equal(t, 1, inFlight)
	require.Equal(t, 100, cached)
	require.Equal(t, a.views[j.worker].PrefillTokens, b.views[j.worker].PrefillTokens)
	require.Zero(t, b.own[j.worker])
	require.Zero(t, b.views[j.worker].OwnPrefilling)
	until(20 * time.Second)
	inFlight, _ = seen()
	require.Zero(t, inFlight, "and of its end")
}

// With the exchange, several routers are about as good as one; without, they are not.
func TestSeveralRoutersAreAsGoodAsOne(t *testing.T) {
	mean := func(routers int, on bool) float64 {
		sum := 0.0
		const seeds = 3
		for seed := range uint64(seeds) {
			cfg := Config{
				Workers: []WorkerSpec{{Count: 8, PrefillRate: 12_000, CacheTokens: 1_000_000, BlockSize: 512}}, Rate: 5,
				Duration: 3 * time.Minute, Seed: seed + 1,
				Exchange: Exchange{On: on, Delay: 2 * time.Millisecond, Loss: 0.05}, Faults: Faults{Stale: time.Second},
			}
			rules := together(t, "kvsteer", routers, cfg.Seed)
			w := LongPrompts(512, nil)
			w.Reseed(cfg.Seed)
			r, err := Run(context.Background(), cfg, w, rules[0], rules[1:]...)
			require.NoError(t, err)
			sum += r.Mean / seeds
		}
		return sum
	}
	one, four, alone := mean(1, false), mean(4, true), mean(4, false)
	t.Logf("one %.3f s, four %.3f s, without the exchange %.3f s", one, four, alone)
	require.Less(t, four, 1.05*one)
	require.Greater(t, alone, 1.1*one)
}

// Rules that know everything are not those of several routers.
func TestReplicates(t *testing.T) {
	for _, name := range []string{"bound", "bound-fifo", "lowest-ttft", "kvsteer:oracle=1", "kvsteer:oracle=1+queue=1"} {
		rules := together(t, name, 2, 1)
		require.False(t, Replicates(rules[0]), name)
		_, err := newCluster(apart()["on"], workloads(t, 1)["control"], rules[0], rules[1:]...)
		require.ErrorContains(t, err, "several routers", name)
	}
	for _, name := range []string{"kvsteer", "kvsteer-queue", "random", "dynamo"} {
		require.True(t, Replicates(together(t, name, 1, 1)[0]), name)
	}
}
