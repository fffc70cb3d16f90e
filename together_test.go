package kvsteer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
)

// newTogether is a lane without a queue, in which requests wait for each other for as
// long as a test may take.
func newTogether(t *testing.T, workers int, o ...kvsteer.Option) *lane {
	t.Helper()
	o = append([]kvsteer.Option{kvsteer.WithGather(time.Hour), kvsteer.WithPredictor(slow{})}, o...)
	return &lane{t: t, router: plainWorkers(t, workers, o...), got: make(chan result, 100)}
}

// gather selects in the background and returns when the request waits for others.
func (l *lane) gather(ctx context.Context, name string, req *kvsteer.Request) {
	l.t.Helper()
	before := l.router.Gathered()
	l.send(ctx, name, req)
	require.Eventually(l.t, func() bool { return l.router.Gathered() == before+1 }, wait, tick)
}

// served takes n results, which must be good, by name.
func (l *lane) served(n int) map[string]*kvsteer.Selection {
	l.t.Helper()
	all := map[string]*kvsteer.Selection{}
	for range n {
		r := l.next()
		require.NoError(l.t, r.err)
		all[r.name] = r.sel
		l.t.Cleanup(func() { r.sel.Done(kvsteer.Usage{}) })
	}
	return all
}

// Of two that are in Select at once the short one is chosen for first, though it came
// later.
func TestThoseOfAMomentAreLookedAtTogether(t *testing.T) {
	t.Parallel()
	l := newTogether(t, 1)
	l.router.Come()
	l.gather(t.Context(), "long", l.prompt(2*long))
	l.gather(t.Context(), "short", l.prompt(long))
	require.Empty(t, l.got)
	l.router.Go() // nobody else is coming
	all := l.served(2)
	require.Less(t, all["short"].Decision().ID, all["long"].Decision().ID)
	require.Equal(t, long, all["long"].Decision().Winner().PrefillAhead)
	require.Zero(t, all["short"].Decision().Winner().PrefillAhead)
	require.Positive(t, all["long"].Decision().Waited)
}

// The last that comes does not wait, nor does one that is there alone.
func TestNobodyWaitsForNobody(t *testing.T) {
	t.Parallel()
	l := newTogether(t, 1)
	s := l.now(l.prompt(long))
	require.Zero(t, s.Decision().Waited)
	s.Done(kvsteer.Usage{})
	l.router.Come()
	l.gather(t.Context(), "first", l.prompt(long))
	l.router.Come()
	l.router.Go()
	require.Empty(t, l.got, "one is still coming")
	l.router.Go()
	l.served(1)
	s = l.now(l.prompt(long))
	require.Zero(t, s.Decision().Waited)
	s.Done(kvsteer.Usage{})
}

// Who is in Select for long keeps others for a hundredth of their prefill only, and who
// has next to none not at all.
func TestAMomentIsShort(t *testing.T) {
	t.Parallel()
	waits := func(l *lane, tokens int, moment time.Duration) {
		t.Helper()
		// It begins when somebody comes, and a machine that stands still meanwhile uses it up.
		require.Eventually(t, func() bool {
			l.router.Come()
			defer l.router.Go()
			s := l.now(l.prompt(tokens))
			defer s.Done(kvsteer.Usage{})
			return s.Decision().Waited >= moment
		}, wait, tick)
	}
	waits(newTogether(t, 1), 2, 20*time.Millisecond)
	waits(&lane{t: t, router: plainWorkers(t, 1, kvsteer.WithGather(time.Millisecond), kvsteer.WithPredictor(slow{}))}, long, time.Millisecond)
}

func TestWithGatherNone(t *testing.T) {
	t.Parallel()
	for _, o := range []kvsteer.Option{kvsteer.WithGather(0), kvsteer.WithGather(-1)} {
		l := newTogether(t, 1, o)
		l.router.Come()
		s := l.now(l.prompt(long))
		require.Zero(t, s.Decision().Waited)
		s.Done(kvsteer.Usage{})
	}
}

// As many as are looked at together wait for nobody else.
func TestAMomentIsFull(t *testing.T) {
	t.Parallel()
	l := newTogether(t, 3)
	l.router.Come()
	defer l.router.Go()
	for i := range kvsteer.MostTogether(3) - 1 {
		l.gather(t.Context(), fmt.Sprint(i), l.prompt(long+i))
	}
	l.send(t.Context(), "last", l.prompt(long))
	l.served(kvsteer.MostTogether(3))
}

func TestPriorityInAMoment(t *testing.T) {
	t.Parallel()
	l := newTogether(t, 1)
	l.router.Come()
	l.gather(t.Context(), "short", l.prompt(long))
	urgent := l.prompt(2 * long)
	urgent.Priority = -1
	l.gather(t.Context(), "urgent", urgent)
	l.router.Go()
	all := l.served(2)
	require.Less(t, all["urgent"].Decision().ID, all["short"].Decision().ID)
}

// Nothing is left of who goes away, or of a router that is closed.
func TestLeavingAMoment(t *testing.T) {
	t.Parallel()
	l := newTogether(t, 1)
	l.router.Come()
	ctx, leave := context.WithCancel(t.Context())
	l.gather(ctx, "leaves", l.prompt(long))
	leave()
	require.Equal(t, kvsteer.CodeCanceled, kvsteer.CodeOf(l.next().err))
	require.Zero(t, l.router.Gathered())
	l.gather(t.Context(), "closed", l.prompt(long))
	require.NoError(t, l.router.Close())
	require.Equal(t, kvsteer.CodeClosed, kvsteer.CodeOf(l.next().err))
	require.Zero(t, l.router.Gathered())
	require.Zero(t, l.router.InFlight())
}

// A request that is refused was coming, too.
func TestWhoIsRefusedKeepsNobody(t *testing.T) {
	t.Parallel()
	l := newTogether(t, 1)
	l.router.Come()
	l.gather(t.Context(), "waits", l.prompt(long))
	l.router.Go()
	l.served(1)
	for range 2 {
		_, err := l.router.Select(t.Context(), &kvsteer.Request{API: kvsteer.Completions, Body: []byte("{")})
		require.Error(t, err)
	}
	require.Zero(t, l.router.Coming())
}

// What user code panics with is the request's own affair.
func TestAPanicInAMoment(t *testing.T) {
	t.Parallel()
	var later sync.Map
	l := newTogether(t, 1, kvsteer.WithPolicy(sometimes{&later}))
	l.router.Come()
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = l.router.Select(t.Context(), l.prompt(long+1))
	}()
	require.Eventually(t, func() bool { return l.router.Gathered() == 1 }, wait, tick)
	l.gather(t.Context(), "good", l.prompt(long))
	later.Store(long+1, true)
	l.router.Go()
	require.Equal(t, "angry", <-panicked)
	l.served(1)
	require.Zero(t, l.router.Gathered())
	require.Zero(t, l.router.Coming())
}

// sometimes panics when it is asked about prompts whose length is among the keys.
type sometimes struct{ lengths *sync.Map }

func (p sometimes) Evaluate(req *policy.Request, c []policy.Candidate, plan *policy.Plan) {
	if _, ok := p.lengths.Load(req.PromptTokens); ok {
		panic("angry")
	}
	policy.Default{}.Evaluate(req, c, plan)
}

// A policy may change its mind between the question and the choice.
func TestAPolicyThatChangesItsMindInAMoment(t *testing.T) {
	t.Parallel()
	l := newTogether(t, 1, kvsteer.WithPolicy(once{}))
	l.router.Come()
	l.gather(t.Context(), "refused", l.prompt(long))
	l.router.Go()
	require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(l.next().err))
	require.Zero(t, l.router.InFlight())
}

// Many at once, of all lengths, all get a worker, and nothing is left.
func TestManyMoments(t *testing.T) {
	t.Parallel()
	r := plainWorkers(t, 4)
	l := &lane{t: t, router: r}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			s, err := r.Select(t.Context(), l.prompt(1+i*37))
			if err == nil {
				s.FirstToken()
				s.Done(kvsteer.Usage{})
			}
			require.NoError(t, err)
		})
	}
	wg.Wait()
	require.Zero(t, r.Coming())
	require.Zero(t, r.Gathered())
	require.Zero(t, r.InFlight())
}
