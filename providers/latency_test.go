package providers

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// serveOnce books a streamed request whose first token comes after ttft, and the others
// each after itl.
func serveOnce(o *Offer, clock *fakeClock, promptTokens, outputTokens int, ttft, itl time.Duration) {
	b := o.Begin(promptTokens, outputTokens)
	b.stream()
	clock.add(ttft)
	b.FirstToken()
	clock.add(itl * time.Duration(outputTokens-1))
	b.Answered(outputTokens)
	b.End()
}

func TestExpectationsAreAPriorAtFirst(t *testing.T) {
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1")
	e := o.Expect(0, 101)
	assert.Zero(t, e.Observations)
	assert.InDelta(t, priorTTFT.Seconds(), e.TTFT.Seconds(), 0.25)
	assert.InDelta(t, priorITL.Seconds(), e.ITL.Seconds(), 0.001)
	assert.InDelta(t, (e.TTFT + 100*e.ITL).Seconds(), e.E2E.Seconds(), 0.01)
	assert.Greater(t, e.P90, e.TTFT)
	assert.Greater(t, o.Expect(100_000, 0).TTFT, 5*time.Second)
	assert.Equal(t, o.Expect(0, 0), o.Expect(-5, -5))

	fast := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", func(p *Provider, _ *Options) {
		p.Models[0].Prior = Prior{TTFT: 50 * time.Millisecond, TTFTPerThousand: time.Millisecond, ITL: time.Millisecond}
	})
	assert.Less(t, fast.Expect(1000, 0).P90, e.TTFT)
}

// It learns a + b*tokens, and the spread, and an answer that took a minute moves little.
func TestExpectationsAreLearned(t *testing.T) {
	clock := newClock()
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", clocked(clock))
	rnd := rand.New(rand.NewPCG(1, 2))
	truth := func(tokens int) float64 { return 0.2 + 0.02*float64(tokens)/1000 }
	for i := range 400 {
		tokens := rnd.IntN(30_000)
		ttft := truth(tokens) * (0.8 + 0.4*rnd.Float64())
		if i%50 == 49 {
			ttft = 60
		}
		serveOnce(o, clock, tokens, 200, time.Duration(ttft*float64(time.Second)), 5*time.Millisecond)
	}
	for _, tokens := range []int{500, 5000, 25_000} {
		e := o.Expect(tokens, 200)
		assert.Equal(t, 400, e.Observations)
		assert.InEpsilon(t, truth(tokens), e.TTFT.Seconds(), 0.3, tokens)
		assert.GreaterOrEqual(t, e.P90, e.TTFT)
		assert.Less(t, e.P90.Seconds(), 3*truth(tokens), "nine of ten, not the minute")
		assert.InEpsilon(t, 0.005, e.ITL.Seconds(), 0.1)
	}
	assert.Less(t, o.Expect(500, 0).TTFT, o.Expect(25_000, 0).TTFT)
	assert.InDelta(t, 200, o.state.latency.now.Load().output, 10, "the usual length of an answer")
}

// Of an answer that is not streamed, the first token comes with the last: it says nothing
// of the time to first token, and something of the pace.
func TestAnswersThatAreNotStreamed(t *testing.T) {
	clock := newClock()
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", clocked(clock))
	before := o.Expect(1000, 0)
	for range 50 {
		b := o.Begin(1000, 0)
		clock.add(before.TTFT + 99*50*time.Millisecond)
		b.FirstToken()
		b.Answered(100)
		b.End()
	}
	e := o.Expect(1000, 0)
	assert.Zero(t, e.Observations)
	assert.Equal(t, before.TTFT, e.TTFT)
	assert.InEpsilon(t, 0.05, e.ITL.Seconds(), 0.1)
}

// The booking learns from the answer whether it is a stream.
func TestStreamsAreNoticed(t *testing.T) {
	clock := newClock()
	svc := serve(t, says(http.StatusOK, "data: {}\n\n", "Content-Type", "text/event-stream"))
	o := oneOffer(t, OpenAI{}, svc.URL, clocked(clock))
	b := o.Begin(10, 10)
	assert.Equal(t, 1, o.Standing(clock.now()).Prefilling)
	send(t, o, Exchange{API: chat, Booking: b}, `{"model":"ours"}`)
	clock.add(time.Second)
	b.FirstToken()
	clock.add(time.Hour)
	b.FirstToken()
	assert.Zero(t, o.Standing(clock.now()).Prefilling)
	assert.Equal(t, 1, o.Standing(clock.now()).InFlight)
	assert.Equal(t, 1, o.Expect(10, 10).Observations)
	b.End()
	b.FirstToken()
	b.Answered(10)
	assert.Zero(t, o.Standing(clock.now()).InFlight)
}
