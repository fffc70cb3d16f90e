package kvsteer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

const replicaBeat = 50 * time.Millisecond

// gateways are several routers over the same engines, each with a fleet of its own, as
// replicas of a gateway are.
type gateways struct {
	t       *testing.T
	engines []*fleettest.Engine
	routers []*kvsteer.Router
	fleets  []*fleet.Fleet
	ends    []*replicatest.Peer
	bus     *replicatest.Bus
}

type gatewaysConfig struct {
	engines, routers int
	bus              replicatest.BusOptions
	beat             time.Duration
	engine           func(c *fleettest.Config)
	worker           func(w *fleet.Worker)
	fleet            func(router int, o *fleet.Options)
	options          []kvsteer.Option
}

func newGateways(t *testing.T, c gatewaysConfig) *gateways {
	t.Helper()
	g := &gateways{t: t, bus: replicatest.NewBus(c.bus)}
	hub := follow.NewHub()
	var workers []fleet.Worker
	for i := range c.engines {
		cfg := fleettest.Config{Name: fmt.Sprintf("w%d", i), Model: testModel, Speed: 1000, Hub: hub, OutputTokens: 4}
		if c.engine != nil {
			c.engine(&cfg)
		}
		e := fleettest.New(t, cfg)
		g.engines = append(g.engines, e)
		w := e.Worker()
		if c.worker != nil {
			c.worker(&w)
		}
		workers = append(workers, w)
	}
	if c.beat == 0 {
		c.beat = replicaBeat
	}
	for i := range c.routers {
		o := fleet.Options{
			Discoverer: fleet.Static(workers...), ProbeInterval: 50 * time.Millisecond, ScrapeInterval: time.Hour,
			ProbeTimeout: wait, UnhealthyAfter: 50,
		}
		if c.fleet != nil {
			c.fleet(i, &o)
		}
		f, err := fleet.New(o)
		require.NoError(t, err)
		encoder := prompt.NewEncoder(prompt.Options{Deadline: wait})
		end := g.bus.Join()
		router, err := kvsteer.New(append([]kvsteer.Option{
			kvsteer.WithFleet(f), kvsteer.WithEncoder(encoder), kvsteer.WithEvents(hub), kvsteer.WithSeed(uint64(i + 1)),
			kvsteer.WithPredictor(steady{kvsteer.NewPredictor(kvsteer.PredictorOptions{})}),
			kvsteer.WithReplicas(end, kvsteer.ReplicaOptions{Name: fmt.Sprintf("gateway-%d", i), Beat: c.beat}),
		}, c.options...)...)
		require.NoError(t, err)
		g.routers, g.fleets, g.ends = append(g.routers, router), append(g.fleets, f), append(g.ends, end)
		t.Cleanup(func() {
			require.NoError(t, router.Close())
			require.NoError(t, encoder.Close())
			require.NoError(t, f.Close())
			require.Zero(t, router.InFlight(), "selections left")
		})
		require.Eventually(t, func() bool { return f.Snapshot().Routable() == c.engines }, wait, time.Millisecond)
	}
	for _, r := range g.routers {
		g.eventually(func() bool {
			st := r.Stats()
			joined := !slices.ContainsFunc(st.Caches, func(c kvsteer.CacheStats) bool {
				return len(c.Ranks) == 0 || c.Ranks[0].Trust == kvcache.Resyncing || c.Ranks[0].Trust == kvcache.Blind
			})
			return joined && st.Replicas.Up && len(st.Replicas.Peers) == c.routers-1
		}, "all routers know each other")
	}
	return g
}

func (g *gateways) eventually(f func() bool, what string) {
	g.t.Helper()
	require.Eventually(g.t, f, wait, time.Millisecond, what)
}

func (g *gateways) pick(router int, tokens []uint32) *kvsteer.Selection {
	g.t.Helper()
	s, err := g.routers[router].Select(g.t.Context(), &kvsteer.Request{
		API: kvsteer.Completions, Model: testModel, TokenIDs: tokens, Body: []byte(`{"model":"m","stream":true}`),
	})
	require.NoError(g.t, err)
	return s
}

// peers is what a router believes others have in flight, by worker.
func (g *gateways) peers(router int) map[string]int {
	all := map[string]int{}
	for _, m := range g.fleets[router].Snapshot().Members() {
		if n := m.Peers(0).Requests; n > 0 {
			all[m.Name()] = n
		}
	}
	return all
}

func unique(rng *rand.Rand, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = rng.Uint32N(1 << 17)
	}
	return ids
}

func TestRoutersKnowOfEachOthersRequests(t *testing.T) {
	g := newGateways(t, gatewaysConfig{engines: 2, routers: 2})
	rng := rand.New(rand.NewPCG(1, 1))
	first := g.pick(0, unique(rng, 2000))
	at := first.Target().Worker
	g.eventually(func() bool { return g.peers(1)[at] == 1 }, "the other router knows")
	m, _ := memberOf(g.fleets[1], at)
	has := m.Peers(0)
	assert.Equal(t, 1, has.PrefillRequests)
	assert.Equal(t, 2000, has.PrefillTokens)
	assert.Positive(t, has.PrefillPairs)
	assert.GreaterOrEqual(t, has.ContextTokens, 2000)
	assert.False(t, has.PrefillSince.IsZero())
	assert.Zero(t, m.InFlight(0).Requests, "it is not its own")

	second := g.pick(1, unique(rng, 2000))
	assert.NotEqual(t, at, second.Target().Worker, "the other worker is free")
	d := second.Decision()
	for _, c := range d.Candidates {
		if c.Name == at {
			assert.Equal(t, 2000, c.PrefillAhead)
			assert.Equal(t, 1, c.InFlight)
		}
	}

	first.FirstToken()
	g.eventually(func() bool { return m.Peers(0).DecodeRequests == 1 && m.Peers(0).PrefillTokens == 0 }, "the first token")
	first.Done(kvsteer.Usage{})
	g.eventually(func() bool { return len(g.peers(1)) == 0 }, "the end")
	second.Abort(errors.New("enough"))
	g.eventually(func() bool { return len(g.peers(0)) == 0 }, "an abort")
}

func memberOf(f *fleet.Fleet, name string) (*fleet.Member, bool) {
	for _, m := range f.Snapshot().Members() {
		if m.Name() == name {
			return m, true
		}
	}
	return nil, false
}

// A prompt that one router has just sent draws its siblings from the other router to the
// same worker before any event tells of it; and where there are no events at all.
func TestRoutersKnowOfEachOthersPrompts(t *testing.T) {
	for _, events := range []bool{true, false} {
		t.Run(fmt.Sprintf("events=%v", events), func(t *testing.T) {
			g := newGateways(t, gatewaysConfig{
				engines: 4, routers: 2,
				worker: func(w *fleet.Worker) {
					if !events {
						w.Events = nil
					}
				},
			})
			ids := unique(rand.New(rand.NewPCG(2, 2)), 1600)
			s := g.pick(0, ids)
			defer s.Abort(errors.New("enough"))
			at := s.Target().Worker
			g.eventually(func() bool {
				d, err := g.routers[1].Explain(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids})
				if err != nil {
					return false
				}
				for _, c := range d.Candidates {
					if (c.CachedTokens > 0) != (c.Name == at) {
						return false
					}
				}
				return true
			}, "the other router expects the prompt there, and only there")
			assert.Positive(t, g.routers[1].Stats().Replicas.Booked)
		})
	}
}

// A twentieth of the messages is lost, others are doubled, late and out of order, and one
// of three routers dies with fifty requests in flight.
func TestNoPhantomLoadIsLeft(t *testing.T) {
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	g := newGateways(t, gatewaysConfig{
		engines: 3, routers: 3, options: []kvsteer.Option{kvsteer.WithClock(func() time.Time { return time.Unix(0, clock.Load()) })},
		bus: replicatest.BusOptions{
			Seed: 4, Drop: 0.05, Duplicate: 0.05, Reorder: 0.05,
			Delay: func(r *rand.Rand) time.Duration { return time.Duration(r.IntN(int(5 * time.Millisecond))) },
		},
	})
	rng := rand.New(rand.NewPCG(4, 4))
	var doomed []*kvsteer.Selection
	for range 50 {
		doomed = append(doomed, g.pick(0, unique(rng, 100)))
	}
	for range 200 { // others come and go
		s := g.pick(1+rng.IntN(2), unique(rng, 100))
		s.FirstToken()
		s.Done(kvsteer.Usage{})
	}
	g.eventually(func() bool {
		n := 0
		for _, has := range g.peers(1) {
			n += has
		}
		return n == 50
	}, "the others know what it has")
	g.ends[0].Silence(true) // it is gone: nothing more is heard of it, not even a good-bye
	// The routers' own clock stands, so that nothing but the four beats decides.
	time.Sleep(10 * replicaBeat)
	require.NotEmpty(t, g.peers(1), "none of the stated time has passed")
	clock.Add(int64(4 * replicaBeat))
	g.eventually(func() bool { return len(g.peers(1)) == 0 && len(g.peers(2)) == 0 }, "its share is gone after four beats")
	for _, i := range []int{1, 2} { // it is counted when the table is swept, which may be after it was read
		g.eventually(func() bool { st := g.routers[i].Stats().Replicas; return st.Expired > 0 && st.Up }, "that is counted, and nothing else is wrong")
	}
	for _, s := range doomed {
		s.Abort(errors.New("the gateway died"))
	}
}

// A router that ends takes its share with it at once, and one that comes hears of the
// others within a beat.
func TestRoutersComeAndGo(t *testing.T) {
	g := newGateways(t, gatewaysConfig{engines: 1, routers: 2, beat: time.Hour})
	s := g.pick(0, []uint32{1, 2, 3})
	g.eventually(func() bool { return g.peers(1)["w0"] == 1 }, "told at once, not with the beat")
	late := g.bus.Join()
	third, err := kvsteer.New(kvsteer.WithFleet(g.fleets[1]), kvsteer.WithReplicas(late, kvsteer.ReplicaOptions{Beat: time.Hour}))
	require.NoError(t, err)
	g.eventually(func() bool { return len(third.Stats().Replicas.Peers) == 2 }, "who comes hears of those that are there")
	assert.Len(t, third.Stats().Replicas.Name, 8, "a name of its own")
	require.NoError(t, third.Close())
	require.NoError(t, g.routers[0].Close())
	g.eventually(func() bool { return len(g.peers(1)) == 0 && len(g.routers[1].Stats().Replicas.Peers) == 0 }, "it said good-bye")
	s.Abort(errors.New("enough"))
}

func TestTheExchangeIsDown(t *testing.T) {
	g := newGateways(t, gatewaysConfig{engines: 2, routers: 2})
	s := g.pick(0, []uint32{1, 2, 3})
	assert.Empty(t, s.Decision().Degradations)
	g.eventually(func() bool { return len(g.peers(1)) == 1 }, "all is well")
	g.bus.Cut(true)
	g.eventually(func() bool { return !g.routers[0].Stats().Replicas.Up && !g.routers[1].Stats().Replicas.Up }, "they notice")
	g.eventually(func() bool { return len(g.peers(1)) == 0 }, "and believe no old news")
	st := g.routers[1].Stats().Replicas
	assert.Contains(t, st.Problem, replicatest.ErrCut.Error())
	other := g.pick(1, []uint32{4, 5, 6})
	assert.Contains(t, other.Decision().Degradations,
		"the exchange with other routers is down: what they send is known by workers' metrics and events only")
	g.bus.Cut(false)
	g.eventually(func() bool { return g.routers[0].Stats().Replicas.Up && g.routers[1].Stats().Replicas.Up }, "it works again")
	g.eventually(func() bool { return len(g.peers(1)) == 1 && len(g.peers(0)) == 1 }, "and what is in flight is told again")
	assert.Empty(t, g.routers[1].Stats().Replicas.Problem)
	again := g.pick(1, []uint32{7})
	assert.Empty(t, again.Decision().Degradations)
	for _, s := range []*kvsteer.Selection{s, other, again} {
		s.Abort(errors.New("enough"))
	}
}

// A carrier that hangs, panics not and never connects keeps no request waiting and no
// router from closing.
type deadExchange struct{}

func (deadExchange) Publish(ctx context.Context, _ *replica.Message) error {
	<-ctx.Done()
	return ctx.Err()
}

func (deadExchange) Receive(ctx context.Context, _ func(), _ func(*replica.Message)) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestAnExchangeThatHangs(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithReplicas(deadExchange{}, kvsteer.ReplicaOptions{Beat: replicaBeat}),
	}})
	for range 20 {
		s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: []uint32{1}})
		require.NoError(t, err)
		assert.Contains(t, fmt.Sprint(s.Decision().Degradations), "the exchange with other routers is down")
		s.Done(kvsteer.Usage{})
	}
	assert.False(t, r.router.Stats().Replicas.Up)
}

func TestNamesOfRouters(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1})
	for _, name := range []string{strings.Repeat("x", 257), "\xff"} {
		_, err := kvsteer.New(kvsteer.WithFleet(r.fleet),
			kvsteer.WithReplicas(replicatest.NewBus(replicatest.BusOptions{}).Join(), kvsteer.ReplicaOptions{Name: name}))
		require.ErrorContains(t, err, "WithReplicas: the Name has")
	}
	alone, err := kvsteer.New(kvsteer.WithFleet(r.fleet), kvsteer.WithReplicas(nil, kvsteer.ReplicaOptions{}))
	require.NoError(t, err)
	assert.Nil(t, alone.Stats().Replicas)
	require.NoError(t, alone.Close())
}

// A worker whose address is too long to be named is not told of, and keeps nothing else
// from being told.
func TestWorkersThatCantBeNamed(t *testing.T) {
	g := newGateways(t, gatewaysConfig{engines: 2, routers: 2, worker: func(w *fleet.Worker) {
		if w.Name == "w0" {
			to, err := url.Parse(w.URL)
			require.NoError(t, err)
			long := "/" + strings.Repeat("p", 300)
			front := httptest.NewServer(http.StripPrefix(long, httputil.NewSingleHostReverseProxy(to)))
			t.Cleanup(front.Close)
			w.URL, w.Epoch = front.URL+long, ""
		}
	}})
	rng := rand.New(rand.NewPCG(5, 5))
	var picked []*kvsteer.Selection
	named := 0
	for range 20 {
		s := g.pick(0, unique(rng, 200))
		picked = append(picked, s)
		if s.Target().Worker == "w1" {
			named++
		}
		assert.Empty(t, s.Decision().Degradations)
	}
	require.Positive(t, named)
	require.Less(t, named, 20)
	g.eventually(func() bool { return g.peers(1)["w1"] == named }, "what can be named is told")
	assert.Zero(t, g.peers(1)["w0"])
	assert.True(t, g.routers[0].Stats().Replicas.Up)
	for _, s := range picked {
		s.Abort(errors.New("enough"))
	}
}

// How long a peer's prompt counts is bounded by what this router has to go by.
func TestPeersPromptsAreConfirmedByEvents(t *testing.T) {
	var clock atomic.Int64
	clock.Store(time.Now().UnixNano())
	g := newGateways(t, gatewaysConfig{engines: 1, routers: 1, options: []kvsteer.Option{
		kvsteer.WithClock(func() time.Time { return time.Unix(0, clock.Load()) }),
	}})
	ids := unique(rand.New(rand.NewPCG(6, 6)), 1600)
	m := g.fleets[0].Snapshot().Members()[0]
	h := kvcache.Hasher{BlockSize: 16}
	keys := h.Keys(nil, ids, kvcache.Scope{}, nil)
	other := g.bus.Join()
	require.NoError(t, other.Publish(t.Context(), &replica.Message{
		Version: replica.Version, Router: "blind", Epoch: 7, Seq: 1,
		Bookings: []replica.Booking{{Instance: m.SharedID(), Keys: keys, TTL: 20 * time.Minute}},
	}))
	cached := func() int {
		d, err := g.routers[0].Explain(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: ids})
		require.NoError(t, err)
		return d.Candidates[0].CachedTokens
	}
	g.eventually(func() bool { return cached() > 0 }, "it is booked")
	clock.Add(int64(2 * time.Minute))
	g.eventually(func() bool { return cached() == 0 }, "no event has confirmed it in a minute")
}

// countingExchange refuses everything, and counts how often it was asked.
type countingExchange struct{ asked atomic.Int64 }

func (c *countingExchange) Publish(context.Context, *replica.Message) error {
	c.asked.Add(1)
	return errors.New("no")
}

func (*countingExchange) Receive(ctx context.Context, subscribed func(), _ func(*replica.Message)) error {
	subscribed()
	<-ctx.Done()
	return ctx.Err()
}

func TestAnExchangeThatRefusesIsLeftAlone(t *testing.T) {
	x := &countingExchange{}
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithReplicas(x, kvsteer.ReplicaOptions{Beat: time.Hour}),
	}})
	require.Eventually(t, func() bool { return x.asked.Load() == 1 }, wait, time.Millisecond)
	for range 50 {
		s, err := r.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: testModel, TokenIDs: []uint32{1}})
		require.NoError(t, err)
		s.Done(kvsteer.Usage{})
	}
	time.Sleep(100 * time.Millisecond)
	assert.Equal(t, int64(1), x.asked.Load(), "the next beat tries again")
}
