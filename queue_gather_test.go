package kvsteer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// slow predicts a second for each token, so that a long prompt hesitates for as long
// as a test may take, and one of a token for ten milliseconds.
type slow struct{ pace }

func (slow) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		own := time.Duration(in[i].Uncached) * time.Second
		out[i] = kvsteer.Prediction{TTFT: own + time.Duration(in[i].AheadTokens)*time.Second, Prefill: own, Externality: own}
	}
}

const long = 100_000 // tokens

func newMoment(t *testing.T, workers int, q kvsteer.QueueOptions) *lane {
	t.Helper()
	q.Gather = time.Hour
	return newLane(t, workers, q, kvsteer.WithPredictor(slow{}))
}

// A long prompt lets a short one pass that comes a moment later, though its worker is
// free.
func TestTheShortOfAMomentGoFirst(t *testing.T) {
	t.Parallel()
	l := newMoment(t, 1, kvsteer.QueueOptions{})
	ctx, leave := context.WithCancel(t.Context())
	l.wait(ctx, "long", l.prompt(long))
	short := l.now(l.prompt(1))
	require.GreaterOrEqual(t, short.Decision().Waited, 10*time.Millisecond, "a hundredth of its own time")
	require.Equal(t, 1, l.router.Waiting())
	require.Empty(t, l.got)
	short.Done(kvsteer.Usage{})
	leave()
	require.Equal(t, kvsteer.CodeCanceled, kvsteer.CodeOf(l.next().err))
	require.Zero(t, l.router.InFlight())
}

// Nobody has to come: the moment ends.
func TestAMomentEnds(t *testing.T) {
	t.Parallel()
	l := newLane(t, 1, kvsteer.QueueOptions{Gather: 20 * time.Millisecond})
	s := l.now(l.prompt(long))
	require.GreaterOrEqual(t, s.Decision().Waited, 20*time.Millisecond)
	l.wait(t.Context(), "next", l.prompt(1))
	s.Done(kvsteer.Usage{})
	r := l.next()
	require.NoError(t, r.err)
	r.sel.Done(kvsteer.Usage{})
	require.Zero(t, l.router.Waiting())
}

// A prompt that is first by its priority does not hesitate when one behind it would
// have its turn.
func TestPrioritiesHoldInAMoment(t *testing.T) {
	t.Parallel()
	l := newMoment(t, 1, kvsteer.QueueOptions{})
	urgent := l.prompt(long)
	urgent.Priority = -1
	l.wait(t.Context(), "urgent", urgent)
	l.send(t.Context(), "short", l.prompt(1)) // they may be together for too short a time to see it
	first := l.next()
	require.NoError(t, first.err)
	require.Equal(t, "urgent", first.name)
	require.Equal(t, []string{"short"}, l.drain(first.sel, 1))
}

// Where no more may wait, who can have a worker gets it at once.
func TestAFullLineDoesNotHesitate(t *testing.T) {
	t.Parallel()
	l := newMoment(t, 2, kvsteer.QueueOptions{MaxWaiting: 1})
	ctx, leave := context.WithCancel(t.Context())
	l.wait(ctx, "long", l.prompt(long))
	s := l.now(l.prompt(long))
	require.Zero(t, s.Decision().Waited)
	leave()
	require.Equal(t, kvsteer.CodeCanceled, kvsteer.CodeOf(l.next().err))
	s.Done(kvsteer.Usage{})
	require.Zero(t, l.router.InFlight())
}
