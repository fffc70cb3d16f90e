package fleet_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// member is a worker nobody probes successfully, with ranks to book on.
func member(t testing.TB, ranks int) (*fleet.Fleet, *fleet.Member, *lister) {
	t.Helper()
	l := newLister()
	f, err := fleet.New(fleet.Options{Discoverer: l, HTTPClient: newNetwork().client()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, l.set(fleet.Worker{Name: "w", URL: "http://a", DataParallel: ranks}))
	return f, f.Snapshot().Member("w"), l
}

func TestBookingLifecycle(t *testing.T) {
	f, m, _ := member(t, 2)
	b := m.Begin(1, fleet.Work{PrefillTokens: 100, PromptTokens: 300, OutputTokens: 50})
	assert.Same(t, m, b.Member())
	began := m.InFlight(1)
	assert.WithinDuration(t, time.Now(), began.PrefillSince, time.Minute)
	began.PrefillSince = time.Time{}
	assert.Equal(t, fleet.InFlight{Requests: 1, PrefillRequests: 1, PrefillTokens: 100, ContextTokens: 350, Picks: 1}, began)
	assert.Equal(t, fleet.InFlight{}, m.InFlight(0))
	assert.EqualValues(t, 1, f.InFlight())

	b.FirstToken()
	b.FirstToken()
	assert.Equal(t, fleet.InFlight{Requests: 1, DecodeRequests: 1, OutputTokens: 50, ContextTokens: 350, Picks: 1}, m.InFlight(1))

	assert.True(t, b.End())
	assert.False(t, b.End())
	b.FirstToken()
	assert.Equal(t, fleet.InFlight{Picks: 1}, m.InFlight(1))
	assert.Zero(t, f.InFlight())
}

// Since when the oldest prefill is at work, by what we can see.
func TestPrefillSince(t *testing.T) {
	clock := &stopped{at: time.Unix(1000, 0)}
	l := newLister()
	f, err := fleet.New(fleet.Options{Discoverer: l, HTTPClient: newNetwork().client(), Now: clock.now})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, l.set(fleet.Worker{Name: "w", URL: "http://a"}))
	m := f.Snapshot().Member("w")
	since := func() int64 { return m.InFlight(0).PrefillSince.Unix() }

	require.True(t, m.InFlight(0).PrefillSince.IsZero())
	first := m.Begin(0, fleet.Work{})
	clock.set(1010)
	second, ok := m.TryBegin(0, m.InFlight(0).Picks, fleet.Work{})
	require.True(t, ok)
	third := m.Begin(0, fleet.Work{})
	require.EqualValues(t, 1000, since(), "the others wait behind it")
	clock.set(1020)
	first.FirstToken()
	require.EqualValues(t, 1020, since(), "now it is the second's turn")
	clock.set(1030)
	third.End()
	require.EqualValues(t, 1020, since(), "one that gave up changes nothing")
	second.FirstToken()
	require.True(t, m.InFlight(0).PrefillSince.IsZero())
	clock.set(1040)
	fourth := m.Begin(0, fleet.Work{})
	require.EqualValues(t, 1040, since())
	for _, b := range []*fleet.Booking{first, second, fourth} {
		b.End()
	}
}

// stopped is a clock that is set by hand.
type stopped struct {
	mu sync.Mutex
	at time.Time
}

func (s *stopped) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at
}

func (s *stopped) set(unix int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = time.Unix(unix, 0)
}

func TestBookingEdges(t *testing.T) {
	_, m, _ := member(t, 0)
	require.Equal(t, 1, m.Ranks())
	for _, rank := range []int{-1, 7} {
		b := m.Begin(rank, fleet.Work{PrefillTokens: -5, PromptTokens: -1, OutputTokens: -1})
		assert.Equal(t, 1, m.InFlight(0).Requests, "an unknown rank counts as rank 0")
		assert.Zero(t, m.InFlight(rank).PrefillTokens)
		b.End()
	}
}

func TestTryBeginLosesToAnotherPick(t *testing.T) {
	f, m, l := member(t, 1)
	seen := m.InFlight(0).Picks
	first, ok := m.TryBegin(0, seen, fleet.Work{PrefillTokens: 10})
	require.True(t, ok)
	_, ok = m.TryBegin(0, seen, fleet.Work{PrefillTokens: 10})
	assert.False(t, ok, "somebody picked since the look")
	first.End()
	_, ok = m.TryBegin(0, seen, fleet.Work{})
	assert.False(t, ok, "an ended pick was a pick")
	assert.EqualValues(t, 0, f.InFlight())

	require.NoError(t, f.Drain("w", true))
	_, ok = m.TryBegin(0, m.InFlight(0).Picks, fleet.Work{})
	assert.False(t, ok, "draining")
	require.NoError(t, f.Drain("w", false))
	b, ok := m.TryBegin(0, m.InFlight(0).Picks, fleet.Work{})
	require.True(t, ok)
	b.End()
	require.NoError(t, l.set())
	_, ok = m.TryBegin(0, m.InFlight(0).Picks, fleet.Work{})
	assert.False(t, ok, "gone")
}

// TestConcurrentPicksSpread is the burst that must not land on one worker: each
// picker looks, and books only if nobody else did meanwhile.
func TestConcurrentPicksSpread(t *testing.T) {
	const workers, picks = 8, 64
	l := newLister()
	f := start(t, fleet.Options{Discoverer: l, HTTPClient: newNetwork().client()})
	var list []fleet.Worker
	for i := range workers {
		list = append(list, fleet.Worker{Name: string(rune('a' + i)), URL: "http://a"})
	}
	require.NoError(t, l.set(list...))
	var wg sync.WaitGroup
	for range picks {
		wg.Go(func() {
			for {
				var best *fleet.Member
				var look fleet.InFlight
				for _, m := range f.Snapshot().Members() {
					if got := m.InFlight(0); best == nil || got.Requests < look.Requests {
						best, look = m, got
					}
				}
				if _, ok := best.TryBegin(0, look.Picks, fleet.Work{PrefillTokens: 1000}); ok {
					return
				}
			}
		})
	}
	wg.Wait()
	least, most := picks, 0
	for _, m := range f.Snapshot().Members() {
		n := m.InFlight(0).Requests
		least, most = min(least, n), max(most, n)
	}
	assert.LessOrEqual(t, most-least, 2)
}

// TestBookingsAddUp plays requests that end in every way at once, and compares a
// reader's every look with what must hold.
func TestBookingsAddUp(t *testing.T) {
	f, m, l := member(t, 2)
	var wg, reader sync.WaitGroup
	var stop atomic.Bool
	reader.Go(func() {
		for !stop.Load() {
			for rank := range m.Ranks() {
				v := m.InFlight(rank)
				if v.Requests < 0 || v.PrefillTokens != 7*v.PrefillRequests || v.OutputTokens != 3*v.DecodeRequests ||
					v.ContextTokens != 13*v.Requests {
					t.Errorf("torn read: %+v", v)
					return
				}
			}
		}
	})
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for range 2000 {
				b := m.Begin(rng.IntN(2), fleet.Work{PrefillTokens: 7, PromptTokens: 10, OutputTokens: 3})
				var twice sync.WaitGroup
				if rng.IntN(2) == 0 {
					b.FirstToken()
				}
				if rng.IntN(8) == 0 { // the watchdog and the handler end it at once
					twice.Go(func() { b.FirstToken(); b.End() })
				}
				b.End()
				twice.Wait()
			}
		})
	}
	require.NoError(t, l.set()) // the worker leaves meanwhile
	wg.Wait()
	stop.Store(true)
	reader.Wait()
	assert.True(t, m.Gone())
	assert.Zero(t, f.InFlight())
	for rank := range m.Ranks() {
		v := m.InFlight(rank)
		v.Picks = 0
		assert.Equal(t, fleet.InFlight{}, v)
	}
	assert.EqualValues(t, 16000, m.InFlight(0).Picks+m.InFlight(1).Picks)
}

func TestHotPathAllocations(t *testing.T) {
	f, m, _ := member(t, 2)
	now := time.Now()
	assert.LessOrEqual(t, testing.AllocsPerRun(1000, func() {
		b, _ := m.TryBegin(1, m.InFlight(1).Picks, fleet.Work{PrefillTokens: 1})
		b.FirstToken()
		b.End()
	}), 1.0)
	var n int
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		s := f.Snapshot()
		for _, m := range s.Serving("m") {
			n += m.InFlight(0).Requests
		}
		n += len(s.ForModel("m")) + m.Pressure(0, now).Requests + m.MaxModelLen("m") + len(m.Worker().Name) + len(m.ID())
		if m.Routable() {
			n++
		}
		m.ReportSuccess()
	}))
}

func BenchmarkTryBeginEnd(b *testing.B) {
	_, m, _ := member(b, 1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if x, ok := m.TryBegin(0, m.InFlight(0).Picks, fleet.Work{PrefillTokens: 1}); ok {
				x.FirstToken()
				x.End()
			}
		}
	})
}

func BenchmarkPressure(b *testing.B) {
	_, m, _ := member(b, 1)
	now := time.Now()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += m.Pressure(0, now).Requests
	}
}

// A request whose prompt another worker computes is nobody's prefill here.
func TestComing(t *testing.T) {
	l := newLister()
	f, err := fleet.New(fleet.Options{Discoverer: l, HTTPClient: newNetwork().client()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, l.set(fleet.Worker{Name: "w", URL: "http://a"}))
	m := f.Snapshot().Member("w")
	work := fleet.Work{PrefillTokens: 100, PrefillPairs: 5050, PromptTokens: 1000, OutputTokens: 50, Comes: true}
	comes := fleet.InFlight{Requests: 1, DecodeRequests: 1, OutputTokens: 50, ContextTokens: 1050}
	for _, first := range []bool{true, false} {
		b := m.Begin(0, work)
		comes.Picks, comes.Coming = m.InFlight(0).Picks, 1
		require.Equal(t, comes, m.InFlight(0))
		if first {
			b.FirstToken()
			b.FirstToken()
			comes.Coming = 0
			require.Equal(t, comes, m.InFlight(0))
		}
		require.True(t, b.End())
		require.False(t, b.End())
		b.FirstToken()
		require.Equal(t, fleet.InFlight{Picks: comes.Picks}, m.InFlight(0))
	}
}
