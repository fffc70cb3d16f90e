package providers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

const chat = prompt.Chat

// fill begins as many requests as Standing lets through.
func fill(o *Offer, now time.Time) (all []*Booking) {
	for o.Standing(now).Ready {
		all = append(all, o.Begin(1, 1))
	}
	return all
}

func TestConcurrencyIsLearned(t *testing.T) {
	clock := newClock()
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", func(_ *Provider, o *Options) { o.Now = clock.now })
	under := fill(o, clock.now())
	assert.Len(t, under, 16)
	assert.Equal(t, "at its limit of 16 at once", o.Standing(clock.now()).Reason)

	// Each that is taken while it is full lets one more through: a round doubles it.
	for range 16 {
		o.state.taken()
		under = append(under, fill(o, clock.now())...)
	}
	assert.Len(t, under, 32)

	// All that are under way are refused: that is one refusal, not 32.
	for _, b := range under {
		o.state.bad(b, ClassRateLimited, 2*time.Second, true, clock.add(time.Millisecond))
		b.End()
	}
	assert.Equal(t, 16, o.state.gate.limit)
	assert.Equal(t, whyRate, o.Standing(clock.now()).Reason)
	under = fill(o, clock.add(3*time.Second))
	assert.Len(t, under, 16)

	// From there on it grows by one a round.
	for i := range 16 {
		require.Equal(t, 16, o.state.gate.limit, i)
		o.state.taken()
		under = append(under, fill(o, clock.now())...)
	}
	require.Len(t, under, 17)
	for i := range 17 {
		require.Equal(t, 17, o.state.gate.limit, i)
		o.state.taken()
	}
	require.Equal(t, 18, o.state.gate.limit)
	for _, b := range under {
		b.End()
		b.End()
	}
	st := o.Standing(clock.now())
	assert.Zero(t, st.InFlight)
	assert.Zero(t, st.Prefilling)

	// What is not full learns nothing.
	o.state.taken()
	assert.Equal(t, 18, o.state.gate.limit)
}

func TestConcurrencyThatIsGivenIsTheMost(t *testing.T) {
	clock := newClock()
	o := oneOffer(t, OpenAI{}, "http://127.0.0.1:1", func(p *Provider, o *Options) { o.Now, p.MaxConcurrent = clock.now, 3 })
	under := fill(o, clock.now())
	require.Len(t, under, 3)
	assert.Equal(t, "at its limit of 3 at once", o.Standing(clock.now()).Reason)
	o.state.taken()
	assert.Equal(t, 3, o.state.gate.limit)
	o.state.bad(under[0], ClassRateLimited, 0, false, clock.add(time.Millisecond))
	assert.Equal(t, 1, o.state.gate.limit, "it is still halved by refusals")
	for _, b := range under {
		b.End()
	}
}

func TestGateNeverCloses(t *testing.T) {
	g := newGate(0)
	now := newClock().now()
	for i := range 100 {
		g.refused(now.Add(time.Duration(i)*time.Second), now.Add(time.Duration(i)*time.Second), 0)
	}
	assert.Equal(t, 1, g.limit)
	g = newGate(0)
	for range 1 << 14 {
		g.taken(1 << 20)
	}
	assert.Equal(t, mostLimit, g.limit)
	g.bound(7)
	assert.Equal(t, 7, g.limit)
	g.bound(9)
	assert.Equal(t, 9, g.limit)
	g.bound(0)
	g.taken(9)
	assert.Equal(t, 10, g.limit)
}
