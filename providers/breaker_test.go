package providers

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func clocked(c *fakeClock) func(*Provider, *Options) {
	return func(_ *Provider, o *Options) { o.Now = c.now }
}

func TestBreaker(t *testing.T) {
	clock := newClock()
	var told []StateChange
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", clocked(clock), func(_ *Provider, o *Options) {
		o.OnState = func(c StateChange) { told = append(told, c) }
	})
	fails := func() {
		b := o.Begin(1, 1)
		_, change := o.state.bad(b, ClassServer, 0, false, clock.now())
		o.tell(change)
		b.End()
	}
	for range failuresInRow - 1 {
		fails()
	}
	require.True(t, o.Standing(clock.now()).Ready)
	o.state.good(nil, clock.now())
	for range failuresInRow - 1 {
		fails()
	}
	require.True(t, o.Standing(clock.now()).Ready, "not in a row")
	fails()
	st := o.Standing(clock.now())
	require.Equal(t, Standing{Reason: whyBreaker, RetryAfter: st.RetryAfter, Remaining: 1, Breaker: BreakerOpen}, st)
	assert.GreaterOrEqual(t, st.RetryAfter, firstPause)
	assert.LessOrEqual(t, st.RetryAfter, firstPause*6/5)
	assert.Len(t, told, 1)

	// One probe; when it fails, the pause is longer, up to a minute.
	pause := firstPause
	for range 6 {
		clock.add(o.Standing(clock.now()).RetryAfter)
		st = o.Standing(clock.now())
		require.True(t, st.Ready)
		require.Equal(t, BreakerHalfOpen, st.Breaker)
		probe := o.Begin(1, 1)
		require.Equal(t, whyProbe, o.Standing(clock.now()).Reason)
		o.state.bad(probe, ClassConnect, 0, false, clock.now())
		probe.End()
		pause = min(2*pause, maxPause)
		st = o.Standing(clock.now())
		assert.GreaterOrEqual(t, st.RetryAfter, pause)
		assert.LessOrEqual(t, st.RetryAfter, pause*6/5)
	}

	// A probe that comes to nothing gives its permission back.
	clock.add(2 * maxPause)
	require.True(t, o.Standing(clock.now()).Ready)
	late := o.Begin(1, 1)
	late.End()
	require.True(t, o.Standing(clock.now()).Ready)

	// One that is served closes it; what was sent before then counts no more.
	probe := o.Begin(1, 1)
	clock.add(time.Second)
	o.tell(o.state.good(probe, clock.now()))
	probe.End()
	require.Equal(t, BreakerClosed, o.Standing(clock.now()).Breaker)
	for range 2 * failuresInRow {
		o.state.bad(late, ClassTimeout, 0, false, clock.now())
	}
	assert.True(t, o.Standing(clock.now()).Ready)
	assert.Equal(t, whyServes, told[len(told)-1].Reason)
	assert.Zero(t, told[len(told)-1].RetryAfter)
}

func TestBreakerOpensAtHalfOfTheLast20(t *testing.T) {
	clock := newClock()
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", clocked(clock))
	for i := range 2 * failuresOfAll {
		require.True(t, o.Standing(clock.now()).Ready, i)
		if i%2 == 0 {
			o.state.good(nil, clock.now())
		} else {
			o.state.bad(nil, ClassServer, 0, false, clock.now())
		}
	}
	assert.Equal(t, BreakerOpen, o.Standing(clock.now()).Breaker)
}

// What is the request's own fault says that the service works.
func TestRequestsAtFaultOpenNothing(t *testing.T) {
	clock := newClock()
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", clocked(clock))
	for _, c := range []Class{ClassRequest, ClassContent, ClassContext, ClassModel, ClassUnsupported} {
		for range 3 * window {
			o.state.bad(nil, c, 0, false, clock.now())
		}
	}
	assert.True(t, o.Standing(clock.now()).Ready)
}

// However requests are interleaved, at most one is a probe, and when all have ended, the
// breaker asks for the next one: a permission can't leak. The reference knows only what
// the rules say.
func TestProbesCantLeak(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		clock := newClock()
		s := newState(&Model{}, 1<<10)
		set := &Set{opts: Options{Now: clock.now}}
		o := &Offer{set: set, state: s}
		var live []*Booking
		probes := map[*Booking]bool{}
		begin := func() {
			st := s.standing(clock.now())
			if !st.Ready && rnd.IntN(4) > 0 { // somebody who didn't ask
				return
			}
			b := o.Begin(1, 1)
			live = append(live, b)
			if st.Ready && st.Breaker == BreakerHalfOpen {
				require.Empty(t, probes, "seed %d: two at a time", seed)
				probes[b] = true
			}
		}
		for range 300 {
			switch n := rnd.IntN(10); {
			case n < 4:
				begin()
			case n == 4:
				clock.add(time.Duration(rnd.IntN(20)) * time.Second)
			case len(live) == 0:
			default:
				i := rnd.IntN(len(live))
				b := live[i]
				switch n {
				case 5:
					s.good(b, clock.now())
				case 6:
					s.bad(b, Class(1+rnd.IntN(int(ClassUnsupported))), 0, false, clock.now())
				case 7:
					b.FirstToken()
				default:
					b.End()
					delete(probes, b)
					live = append(live[:i], live[i+1:]...)
				}
			}
			if s.breaker.state != BreakerHalfOpen {
				clear(probes) // decided: it is one no longer
			}
		}
		for _, b := range live {
			b.End()
			b.End()
		}
		clock.add(2 * maxRetry)
		st := s.standing(clock.now())
		require.True(t, st.Ready, "seed %d: %+v", seed, st)
		require.Zero(t, st.InFlight)
		require.Zero(t, st.Prefilling)
		require.Nil(t, s.breaker.probe)
	}
}

// The same with goroutines, for the race detector.
func TestBookingsAreSafeForConcurrentUse(t *testing.T) {
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1")
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			for range 50 {
				b := o.Begin(10, 10)
				var inner sync.WaitGroup
				inner.Go(b.FirstToken)
				inner.Go(func() { b.Answered(10) })
				inner.Go(b.End)
				if i%2 == 0 {
					o.state.bad(b, ClassServer, 0, false, o.set.clock())
				} else {
					o.state.good(b, o.set.clock())
				}
				o.Standing(time.Now())
				o.Expect(10, 10)
				inner.Wait()
			}
		})
	}
	wg.Wait()
	st := o.Standing(time.Now())
	assert.Zero(t, st.InFlight)
	assert.Zero(t, st.Prefilling)
	var none *Booking
	none.FirstToken()
	none.Answered(1)
	none.End()
}

func TestRetryAfterIsClamped(t *testing.T) {
	for said, want := range map[string]time.Duration{
		"0": minRetry, "0.2": minRetry, "-5": 0, "3": 3 * time.Second, "599": 599 * time.Second, "86400": maxRetry, "1e300": maxRetry,
	} {
		t.Run(said, func(t *testing.T) {
			clock := newClock()
			svc := serve(t, says(http.StatusTooManyRequests, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, "retry-after", said))
			o := oneOffer(t, OpenAI{}, svc.URL, clocked(clock))
			resp, _ := send(t, o, Exchange{API: chat}, `{"model":"ours"}`)
			f := failureOf(t, resp)
			st := o.Standing(clock.now())
			assert.False(t, st.Ready)
			assert.Equal(t, whyRate, st.Reason)
			assert.Equal(t, f.RetryAfter, st.RetryAfter)
			if want == 0 { // as if nothing had been said
				assert.GreaterOrEqual(t, f.RetryAfter, firstCool)
				assert.LessOrEqual(t, f.RetryAfter, firstCool*6/5)
			} else {
				assert.Equal(t, want, f.RetryAfter)
			}
			assert.True(t, o.Standing(clock.add(f.RetryAfter)).Ready)
		})
	}
}

// Nobody says how long: it is longer each time, until something was served.
func TestCoolDownGrows(t *testing.T) {
	clock := newClock()
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", clocked(clock))
	want := firstCool
	for i := range 9 {
		b := o.Begin(1, 1)
		again := o.Begin(1, 1)
		d, _ := o.state.bad(b, ClassRateLimited, 0, false, clock.add(time.Millisecond))
		assert.GreaterOrEqual(t, d, want, i)
		assert.LessOrEqual(t, d, want*6/5, i)
		left, _ := o.state.bad(again, ClassRateLimited, 0, false, clock.now())
		assert.Equal(t, d, left, "sent at the same time: it is one refusal")
		b.End()
		again.End()
		clock.add(2 * maxCool)
		want = min(2*want, maxCool)
	}
	old := &Booking{offer: o, begun: clock.now().Add(-3 * maxCool)}
	require.Nil(t, o.state.good(old, clock.now()), "sent before it refused others, it says nothing of now")
	require.NotZero(t, o.state.refusals)
	b := o.Begin(1, 1)
	require.NotNil(t, o.state.good(b, clock.now()))
	b.End()
	require.Nil(t, o.state.good(nil, clock.now()), "told once")
	d, _ := o.state.bad(o.Begin(1, 1), ClassRateLimited, 0, false, clock.add(time.Millisecond))
	assert.LessOrEqual(t, d, firstCool*6/5)
}
