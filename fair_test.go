package kvsteer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// hours is a clock that a test sets; the timers of the router go by the real one.
type hours struct{ t atomic.Int64 }

func (h *hours) now() time.Time      { return time.Unix(1_000_000, h.t.Load()) }
func (h *hours) add(d time.Duration) { h.t.Add(int64(d)) }

func tenant(req *kvsteer.Request, name string, priority int) *kvsteer.Request {
	req.Tenant, req.Priority = name, priority
	return req
}

// Weights are asked for by the tenant's whole name, and may be anything.
func TestWeightsOfTenants(t *testing.T) {
	t.Parallel()
	long := "a tenant whose name is far longer than what the line keeps of it, which is a number"
	l := newLane(t, 1, kvsteer.QueueOptions{Aging: -1, Fair: kvsteer.FairOptions{Weight: func(name string) float64 {
		return map[string]float64{long: 3, "zero": 0}[name]
	}}})
	first := l.now(l.prompt(10))
	for _, e := range []struct {
		name, tenant string
		tokens       int
	}{
		{"a1", long, 100},
		{"a2", long, 101},
		{"a3", long, 102},
		{"a4", long, 103},
		{"b1", "zero", 110},
		{"b2", "zero", 111},
	} {
		l.wait(t.Context(), e.name, tenant(l.prompt(e.tokens), e.tenant, 0))
	}
	require.Equal(t, []string{"a1", "b1", "a2", "a3", "a4", "b2"}, l.drain(first, 6))
}

// With a half-life, what a tenant has had without waiting counts too, and fades.
func TestHalfLifeOfShares(t *testing.T) {
	t.Parallel()
	for pause, want := range map[time.Duration][]string{
		time.Minute:    {"light", "heavy"}, // which asks for less now
		30 * time.Hour: {"heavy", "light"},
	} {
		clock := &hours{}
		l := newLane(t, 1, kvsteer.QueueOptions{Fair: kvsteer.FairOptions{HalfLife: time.Hour}}, kvsteer.WithClock(clock.now))
		l.now(tenant(l.prompt(300), "heavy", 0)).Done(kvsteer.Usage{})
		clock.add(pause)
		l.now(tenant(l.prompt(10), "light", 0)).Done(kvsteer.Usage{})
		first := l.now(l.prompt(10))
		l.wait(t.Context(), "heavy", tenant(l.prompt(50), "heavy", 0))
		l.wait(t.Context(), "light", tenant(l.prompt(60), "light", 0))
		require.Equal(t, want, l.drain(first, 2), "after %v", pause)
	}
}

// What the engine reports at the end replaces what was expected: cached tokens cost
// nothing, answers cost the time that they took, cut off or not.
func TestSharesAreSettled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(s *kvsteer.Selection, clock *hours)
		want []string
	}{
		"as expected": {func(s *kvsteer.Selection, _ *hours) {
			s.Done(kvsteer.Usage{})
		}, []string{"other", "settled"}},
		"cached": {func(s *kvsteer.Selection, _ *hours) {
			s.Done(kvsteer.Usage{Uncached: 10, CacheRead: 90, Known: true, CachedKnown: true})
		}, []string{"settled", "other"}},
		"cached, but long": {func(s *kvsteer.Selection, clock *hours) {
			s.FirstToken()
			clock.add(2 * time.Hour)
			s.Done(kvsteer.Usage{Uncached: 10, CacheRead: 90, Output: 100, Known: true, CachedKnown: true})
		}, []string{"other", "settled"}},
		"cut off": {func(s *kvsteer.Selection, clock *hours) {
			s.FirstToken()
			clock.add(2 * time.Hour)
			s.Abort(errors.New("the client went away"))
		}, []string{"other", "settled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &hours{}
			l := newLane(t, 1, kvsteer.QueueOptions{Fair: kvsteer.FairOptions{HalfLife: 1000 * time.Hour}}, kvsteer.WithClock(clock.now))
			c.end(l.now(tenant(l.prompt(100), "settled", 0)), clock)
			l.now(tenant(l.prompt(50), "other", 0)).Done(kvsteer.Usage{})
			first := l.now(l.prompt(10))
			l.wait(t.Context(), "settled", tenant(l.prompt(50), "settled", 0))
			l.wait(t.Context(), "other", tenant(l.prompt(50), "other", 0))
			require.Equal(t, c.want, l.drain(first, 2))
		})
	}
}

// What a long answer was charged at its beginning is given back as of then: what its
// tenant has had in the meantime stays.
func TestALateEndForgivesNothing(t *testing.T) {
	t.Parallel()
	for name, waits := range map[string]bool{"booked at once": false, "after it waited": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &hours{}
			l := newLane(t, 1, kvsteer.QueueOptions{Fair: kvsteer.FairOptions{HalfLife: time.Minute}}, kvsteer.WithClock(clock.now))
			var long *kvsteer.Selection
			if waits {
				first := l.now(l.prompt(10))
				l.wait(t.Context(), "long", tenant(l.prompt(1000), "settled", 0))
				first.Done(kvsteer.Usage{})
				long = l.next().sel
			} else {
				long = l.now(tenant(l.prompt(1000), "settled", 0))
			}
			long.FirstToken()
			clock.add(10 * time.Minute) // the charge counts for a thousandth now
			l.now(tenant(l.prompt(500), "settled", 0)).Done(kvsteer.Usage{})
			l.now(tenant(l.prompt(100), "other", 0)).Done(kvsteer.Usage{})
			long.Done(kvsteer.Usage{CacheRead: 1000, Known: true, CachedKnown: true})
			first := l.now(l.prompt(10))
			l.wait(t.Context(), "settled", tenant(l.prompt(50), "settled", 0))
			l.wait(t.Context(), "other", tenant(l.prompt(60), "other", 0))
			require.Equal(t, []string{"other", "settled"}, l.drain(first, 2))
		})
	}
}

// Strict priorities keep nobody waiting for longer than Starve.
func TestPrioritiesStarveNobody(t *testing.T) {
	t.Parallel()
	clock := &hours{}
	l := newLane(t, 1, kvsteer.QueueOptions{Fair: kvsteer.FairOptions{Starve: time.Hour}}, kvsteer.WithClock(clock.now))
	first := l.now(l.prompt(10))
	l.wait(t.Context(), "late 1", tenant(l.prompt(900), "late", 9))
	clock.add(1)
	l.wait(t.Context(), "late 2", tenant(l.prompt(100), "late", 9))
	clock.add(time.Hour - 2)
	l.wait(t.Context(), "soon 1", tenant(l.prompt(100), "soon", 0))
	l.wait(t.Context(), "soon 2", tenant(l.prompt(100), "soon", 0))
	first.FirstToken()
	serve := func() string {
		r := l.next()
		require.NoError(t, r.err)
		clock.add(1)
		r.sel.Done(kvsteer.Usage{})
		return r.name
	}
	require.Equal(t, "soon 1", serve(), "the time is not up")
	require.Equal(t, "late 1", serve(), "the one that has waited longest")
	require.Equal(t, "soon 2", serve(), "late has had something")
	require.Equal(t, "late 2", serve())
	first.Done(kvsteer.Usage{})
}

// Who fills the line makes room for others.
func TestFullLineIsShared(t *testing.T) {
	t.Parallel()
	l := newLane(t, 1, kvsteer.QueueOptions{MaxWaiting: 3})
	first := l.now(l.prompt(10))
	l.wait(t.Context(), "heavy 1", tenant(l.prompt(20), "heavy", 0))
	l.wait(t.Context(), "heavy 2", tenant(l.prompt(40), "heavy", 0))
	l.wait(t.Context(), "heavy 3", tenant(l.prompt(30), "heavy", 0))
	_, err := l.router.Select(t.Context(), tenant(l.prompt(10), "heavy", 0))
	require.Equal(t, kvsteer.CodeSaturated, kvsteer.CodeOf(err))
	got := make(chan result, 1)
	go func() {
		s, err := l.router.Select(t.Context(), tenant(l.prompt(50), "light", 0))
		got <- result{"light", s, err}
	}()
	r := l.next()
	require.Equal(t, "heavy 2", r.name, "the last in line")
	require.Equal(t, kvsteer.CodeSaturated, kvsteer.CodeOf(r.err))
	var e *kvsteer.Error
	require.ErrorAs(t, r.err, &e)
	require.Positive(t, e.RetryAfter)
	require.Eventually(t, func() bool { return l.router.Waiting() == 3 }, wait, tick)
	first.FirstToken()
	served := map[string]bool{}
	for range 3 {
		select {
		case r = <-l.got:
		case r = <-got:
		case <-time.After(wait):
			require.Fail(t, "nobody was served")
		}
		require.NoError(t, r.err)
		served[r.name] = true
		r.sel.Done(kvsteer.Usage{})
	}
	first.Done(kvsteer.Usage{})
	require.Equal(t, map[string]bool{"heavy 1": true, "heavy 3": true, "light": true}, served)
}

// More ends than are kept for later are settled too, while others choose.
func TestManyEndsAreSettled(t *testing.T) {
	t.Parallel()
	clock := &hours{}
	l := newLane(t, 1, kvsteer.QueueOptions{Fair: kvsteer.FairOptions{HalfLife: 1000 * time.Hour}}, kvsteer.WithClock(clock.now))
	for range 1000 {
		s := l.now(tenant(l.prompt(10), "many", 0))
		s.Done(kvsteer.Usage{Uncached: 0, CacheRead: 10, Known: true, CachedKnown: true}) // it costs nothing at all
	}
	l.now(tenant(l.prompt(10), "one", 0)).Done(kvsteer.Usage{})
	first := l.now(l.prompt(10))
	l.wait(t.Context(), "one", tenant(l.prompt(50), "one", 0))
	l.wait(t.Context(), "many", tenant(l.prompt(60), "many", 0))
	require.Equal(t, []string{"many", "one"}, l.drain(first, 2))
}

// While requests of many tenants come, leave, are refused to make room and end, each gets
// one answer and nothing stays behind.
func TestFairLineUnderLoad(t *testing.T) {
	t.Parallel()
	l := newLane(t, 2, kvsteer.QueueOptions{MaxWaiting: 5, Fair: kvsteer.FairOptions{
		HalfLife: time.Second, Starve: time.Millisecond, Weight: func(name string) float64 { return float64(len(name)) },
	}})
	var served, refused, left atomic.Int64
	var wg sync.WaitGroup
	for worker := range 12 {
		wg.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(30_000))*time.Millisecond)
				if i%4 == 0 {
					cancel()
					ctx, cancel = context.WithTimeout(t.Context(), time.Duration(rand.IntN(1000))*time.Microsecond)
				}
				s, err := l.router.Select(ctx, tenant(l.prompt(1+rand.IntN(20)), []string{"a", "bb", "ccc"}[worker%3], worker%2))
				switch {
				case err == nil:
					served.Add(1)
					if i%3 == 0 {
						s.FirstToken()
					}
					s.Done(kvsteer.Usage{Uncached: 1, Output: 2, Known: true, CachedKnown: true})
				case kvsteer.CodeOf(err) == kvsteer.CodeSaturated:
					refused.Add(1)
				case kvsteer.CodeOf(err) == kvsteer.CodeCanceled:
					left.Add(1)
				default:
					t.Errorf("neither served nor refused: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1200, served.Load()+refused.Load()+left.Load())
	require.Positive(t, served.Load())
	require.Zero(t, l.router.Waiting())
	first, second := l.now(l.prompt(1)), l.now(l.prompt(1)) // both workers are free
	require.NotEqual(t, first.Target().Worker, second.Target().Worker)
	first.Done(kvsteer.Usage{})
	second.Done(kvsteer.Usage{})
}

func ExampleFairOptions() {
	fair := kvsteer.FairOptions{
		Weight: func(tenant string) float64 {
			if tenant == "production" {
				return 4
			}
			return 1
		},
		HalfLife: 5 * time.Minute,
		Starve:   10 * time.Second,
	}
	_ = kvsteer.WithQueue(kvsteer.QueueOptions{Fair: fair})
	fmt.Println(fair.Weight("production"))
	// Output: 4
}
