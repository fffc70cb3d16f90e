package kvsteer_test

import (
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// auditRig is one quick engine. The clock stands still, so that what is booked counts.
func auditRig(t *testing.T, c rigConfig) (*rig, *syncBuffer) {
	t.Helper()
	clock, log := newClock(), new(syncBuffer)
	engine := c.engine
	c.engines = 1
	c.engine = func(i int, cfg *fleettest.Config) {
		cfg.Speed = math.Inf(1)
		if engine != nil {
			engine(i, cfg)
		}
	}
	c.options = append(c.options, kvsteer.WithClock(clock.now), kvsteer.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	return newRig(t, c), log
}

// prompt posts a prompt.
func (r *rig) prompt(text string) {
	r.t.Helper()
	require.Equal(r.t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, false)).status)
}

// doubted asks again and again until the worker is Suspect, for at most 30 requests
// whose reports disagree, and returns the change.
func (r *rig) doubted(ask func(i int)) kvsteer.TrustChange {
	r.t.Helper()
	before, disagreed := r.observed.became(kvcache.Suspect), 0
	for i := 0; r.observed.became(kvcache.Suspect) == before; i++ {
		require.LessOrEqual(r.t, disagreed, 30)
		require.Less(r.t, i, 200)
		n := r.observed.outcomeCount()
		ask(i)
		o := r.observed.nextOutcome(r.t, n)
		if diff := o.Usage.CacheRead - o.CachedPredicted; o.Usage.CachedKnown && (diff >= 16 || -diff >= 16) {
			disagreed++
		}
	}
	r.observed.mu.Lock()
	defer r.observed.mu.Unlock()
	for i := len(r.observed.trust) - 1; ; i-- {
		if c := r.observed.trust[i]; c.To == kvcache.Suspect {
			return c
		}
	}
}

// fault is something wrong with an engine, and what is to be said of it.
type fault struct {
	engine func(i int, c *fleettest.Config)
	worker func(i int, w *fleet.Worker)
	// set and unset it, nil if it can't be.
	set, unset func(f *fleettest.Faults)
	// ask is request i, by default one of many conversations that begin alike.
	ask func(r *rig, i int)
	// restart: it goes with the process.
	restart bool
	was     kvcache.Trust
	says    string
	numbers string
}

func faultsOfCaches() map[string]fault {
	return map[string]fault{
		"template": {
			set:   func(f *fleettest.Faults) { f.OtherTemplate(40) },
			unset: func(f *fleettest.Faults) { f.OtherTemplate(0) },
			says:  "looks like another chat template", numbers: "the engine counts +40 prompt tokens against ours",
		},
		"tokenizer": {
			set:   func(f *fleettest.Faults) { f.OtherTokenizer(true) },
			unset: func(f *fleettest.Faults) { f.OtherTokenizer(false) },
			says:  "looks like another tokenizer", numbers: "prompt tokens against ours in",
		},
		"block size": {
			engine:  func(_ int, c *fleettest.Config) { c.BlockSize = 128 },
			set:     func(f *fleettest.Faults) { f.EventBlockSize(16) },
			unset:   func(f *fleettest.Faults) { f.EventBlockSize(0) },
			restart: true,
			says:    "looks like another block size",
			numbers: "multiples of 128 tokens, which is the block size that the engine states, what is expected of 16",
		},
		"evictions": {
			engine: func(_ int, c *fleettest.Config) { c.Blocks = 200 },
			set:    func(f *fleettest.Faults) { f.MuteRemoved(true) },
			unset:  func(f *fleettest.Faults) { f.MuteRemoved(false) },
			ask: func(r *rig, i int) { // five of 100 blocks each in a cache of 200
				if i >= 0 {
					r.prompt(fleettest.Text(uint64(i*i%5), 1600))
				} else { // one of them
					r.prompt(fleettest.Text(1, 1600))
				}
			},
			says: "looks like evictions that were not heard of (lost events)", numbers: "less reported than expected in",
		},
		"all evicted": {
			engine: func(_ int, c *fleettest.Config) { c.Blocks = 200 },
			set:    func(f *fleettest.Faults) { f.MuteRemoved(true) },
			unset:  func(f *fleettest.Faults) { f.MuteRemoved(false) },
			ask: func(r *rig, i int) { // in turn
				if i >= 0 {
					r.prompt(fleettest.Text(uint64(i%4), 1600))
				} else {
					r.prompt(fleettest.Text(1, 1600))
				}
			},
			says: "evictions that were not heard of (lost events), or like prompts", numbers: "0 tokens reported in all of",
		},
		"no prefix caching": {
			engine: func(_ int, c *fleettest.Config) { c.NoPrefixCache = true },
			says:   "looks like prefix caching is off", numbers: "0 tokens reported in all of",
		},
		"no prefix caching, no events": {
			engine: func(_ int, c *fleettest.Config) { c.NoPrefixCache, c.Hub = true, nil },
			was:    kvcache.Approximate,
			says:   "looks like prefix caching is off", numbers: "0 tokens reported in all of 29 requests",
		},
		"speculative decoding": {
			engine: func(_ int, c *fleettest.Config) { c.Speculative = true },
			worker: func(_ int, w *fleet.Worker) { w.Speculative = false },
			says:   "looks like speculative decoding", numbers: "one block less than expected",
		},
	}
}

// What is wrong is named, from the numbers alone, wherever it can be seen: in the
// change of trust, in decisions, in Stats and in the log. It ends with what was wrong.
func TestAuditNamesTheFault(t *testing.T) {
	t.Parallel()
	for name, c := range faultsOfCaches() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, log := auditRig(t, rigConfig{engine: c.engine, worker: c.worker})
			if c.was == kvcache.Blind {
				c.was = kvcache.Exact
			}
			r.waitTrust(c.was)
			if c.set != nil {
				c.set(r.engines[0].Faults())
			}
			if c.ask == nil {
				c.ask = func(r *rig, i int) {
					r.prompt(fleettest.Text(7, 400) + " " + fleettest.Text(uint64(1000+i), 37+23*max(i, -i)%200))
				}
			}
			change := r.doubted(func(i int) { c.ask(r, i) })
			require.Equal(t, c.was, change.From)
			require.True(t, strings.HasPrefix(change.Reason, "reported cached tokens disagree with the index: "), change.Reason)
			require.Contains(t, change.Reason, c.says)
			require.Contains(t, change.Evidence, c.numbers)
			require.Contains(t, log.String(), change.Evidence)
			t.Log(change.Reason, "|", change.Evidence)
			// The first doubts have the events read anew, which ends them for a moment.
			if c.was == kvcache.Exact {
				r.waitTrustNot(kvcache.Suspect)
				r.doubted(func(i int) { c.ask(r, i) })
			}
			r.isSuspect(c.says)
			if c.unset == nil {
				return
			}
			c.unset(r.engines[0].Faults())
			if c.restart {
				before := r.fleet.Snapshot().Members()[0].ID()
				// The fleet has to see that it is another process. One that is back before anybody looked,
				// and whose counters were never seen above 0, could be the same.
				require.NoError(t, r.engines[0].Kill())
				require.Eventually(t, func() bool { return r.fleet.Snapshot().Routable() == 0 }, wait, time.Millisecond)
				require.Eventually(t, func() bool { return r.engines[0].Revive() == nil }, wait, tick)
				require.Eventually(t, func() bool {
					all := r.fleet.Snapshot()
					return len(all.Members()) == 1 && all.Members()[0].ID() != before && all.Routable() == 1
				}, wait, time.Millisecond)
			}
			for i := 1; ; i++ {
				require.Less(t, i, 300)
				if _, suspect := r.suspect(); !suspect {
					break
				}
				c.ask(r, -i)
			}
			r.waitTrust(c.was)
		})
	}
}

// suspect is the decision about a request, and whether its worker is Suspect.
func (r *rig) suspect() (*kvsteer.Decision, bool) {
	r.t.Helper()
	var d *kvsteer.Decision
	require.Eventually(r.t, func() bool { // a restarted engine needs a moment
		var err error
		d, err = r.router.Explain(r.t.Context(), chatRequest("are we there", false))
		return err == nil
	}, wait, tick)
	return d, d.Winner().Trust == kvcache.Suspect
}

// waitTrustNot waits until the worker is not what it was any more.
func (r *rig) waitTrustNot(was kvcache.Trust) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		d, _ := r.suspect()
		return d.Winner().Trust != was
	}, wait, tick)
}

// isSuspect checks that the worker is, and that it is said why wherever one may look.
func (r *rig) isSuspect(why string) {
	r.t.Helper()
	d, suspect := r.suspect()
	require.True(r.t, suspect, d)
	require.Contains(r.t, d.Winner().TrustReason, why)
	require.Zero(r.t, d.Winner().CachedTokens)
	require.Contains(r.t, strings.Join(d.Degradations, "\n"), "cache not counted on: "+d.Winner().TrustReason)
	c := r.router.Stats().Caches[0].Ranks[0]
	require.Equal(r.t, kvcache.Suspect, c.Trust)
	require.Equal(r.t, d.Winner().TrustReason, c.TrustReason)
	require.Equal(r.t, c.TrustReason, r.router.Outlook()[0].TrustReason)
}

// dropping is a publisher of which some messages never exist: no number is missing.
type dropping struct {
	*follow.Pipe

	drops atomic.Bool
}

func (p *dropping) Publish(payload []byte) uint64 {
	if p.drops.Load() {
		return 0
	}
	return p.Pipe.Publish(payload)
}

// Blocks of which no event ever told are found by the engine's reports alone.
func TestAuditNamesLostEvents(t *testing.T) {
	t.Parallel()
	hub, clock, p := follow.NewHub(), newClock(), new(dropping)
	r := newRig(t, rigConfig{
		engines: 1,
		engine: func(_ int, c *fleettest.Config) {
			c.Hub, c.Speed = nil, math.Inf(1)
			c.OpenPublisher = func(int) (fleettest.Publisher, follow.Endpoint, error) {
				pipe, err := hub.Open("lossy", follow.PipeOptions{})
				p.Pipe = pipe
				return p, pipe.Endpoint(0), err
			}
		},
		options: []kvsteer.Option{kvsteer.WithEvents(hub), kvsteer.WithClock(clock.now)},
	})
	r.waitTrust(kvcache.Exact)
	text := func(i int) string { return fleettest.Text(uint64(i), 300+20*i) }
	p.drops.Store(true)
	for i := range 30 {
		require.Equal(t, http.StatusOK, postTo(t, r.engines[0].URL(), chatBody(text(i), false)))
	}
	p.drops.Store(false)
	change := r.doubted(func(i int) { r.prompt(text(i % 30)) })
	require.Contains(t, change.Reason, "looks like events that were lost or are another worker's, or like other token ids")
	require.Contains(t, change.Evidence, "tokens reported where none were expected in 12 of 12 disagreements")
	require.Contains(t, change.Evidence, "the prompts' token counts agree")
}

// Usage that is not there says nothing, whatever happens to the cache.
func TestAuditWithoutUsage(t *testing.T) {
	t.Parallel()
	for name, hide := range map[string]func(*fleettest.Config){
		"no usage":         nil,
		"no cached tokens": func(c *fleettest.Config) { c.NoCachedTokens = true },
		"sglang, nothing":  func(c *fleettest.Config) { c.Dialect, c.NoPrefixCache = fleettest.SGLang, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := auditRig(t, rigConfig{engine: func(_ int, c *fleettest.Config) {
				if hide != nil {
					hide(c)
				}
			}})
			r.waitTrust(kvcache.Exact)
			r.engines[0].Faults().NoUsage(hide == nil)
			r.engines[0].Faults().MuteCleared(true)
			for range 50 {
				resp, err := http.Post(r.engines[0].URL()+"/reset_prefix_cache", "", nil)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				n := r.observed.outcomeCount()
				r.prompt(fleettest.Text(1, 500))
				o := r.observed.nextOutcome(t, n)
				require.False(t, o.Usage.CachedKnown)
			}
			require.Zero(t, r.observed.became(kvcache.Suspect))
		})
	}
}
