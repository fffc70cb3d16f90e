package kvsteer_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/policy"
)

// pace predicts a minute for each token, own and ahead: so slow that a test sees no
// progress of it.
type pace struct{}

func (pace) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		own := time.Duration(in[i].Uncached) * time.Minute
		out[i] = kvsteer.Prediction{TTFT: own + time.Duration(in[i].AheadTokens)*time.Minute, Prefill: own, Externality: own}
	}
}

func (pace) Observe(*kvsteer.Features, time.Duration) {}

// lane is a router with a queue and a way to put requests into it one by one.
type lane struct {
	t      *testing.T
	router *kvsteer.Router
	got    chan result
}

type result struct {
	name string
	sel  *kvsteer.Selection
	err  error
}

func newLane(t *testing.T, workers int, q kvsteer.QueueOptions, o ...kvsteer.Option) *lane {
	t.Helper()
	if q.Fair.Starve == 0 {
		q.Fair.Starve = -1 // a slow machine must not change the order
	}
	if q.MaxWait == 0 {
		q.MaxWait = time.Hour // nor who is still waiting
	}
	if q.Gather == 0 {
		q.Gather = -1 // what is tested is who waits for a worker
	}
	o = append([]kvsteer.Option{kvsteer.WithQueue(q), kvsteer.WithPredictor(pace{})}, o...)
	return &lane{t: t, router: plainWorkers(t, workers, o...), got: make(chan result, 100)}
}

// prompt is a request of n tokens that nobody else has. It streams, so that nobody
// assumes that its first token has come.
func (l *lane) prompt(n int) *kvsteer.Request {
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = rand.Uint32()
	}
	body := []byte(`{"model":"m","prompt":"x","stream":true}`)
	return &kvsteer.Request{API: kvsteer.Completions, Body: body, TokenIDs: ids}
}

// now selects for a request that does not have to wait.
func (l *lane) now(req *kvsteer.Request) *kvsteer.Selection {
	l.t.Helper()
	s, err := l.router.Select(l.t.Context(), req)
	require.NoError(l.t, err)
	return s
}

// wait selects in the background and returns when the request is in line.
func (l *lane) wait(ctx context.Context, name string, req *kvsteer.Request) {
	l.t.Helper()
	before := l.router.Waiting()
	l.send(ctx, name, req)
	require.Eventually(l.t, func() bool { return l.router.Waiting() == before+1 }, wait, tick)
}

// send selects in the background.
func (l *lane) send(ctx context.Context, name string, req *kvsteer.Request) {
	go func() {
		s, err := l.router.Select(ctx, req)
		l.got <- result{name, s, err}
	}()
}

func (l *lane) next() result {
	l.t.Helper()
	select {
	case r := <-l.got:
		return r
	case <-time.After(wait):
		require.Fail(l.t, "nobody was served")
		return result{}
	}
}

// drain serves all that wait, one after another, and returns their order.
func (l *lane) drain(first *kvsteer.Selection, n int) (order []string) {
	l.t.Helper()
	first.FirstToken()
	for range n {
		r := l.next()
		require.NoError(l.t, r.err)
		order = append(order, r.name)
		r.sel.Done(kvsteer.Usage{})
	}
	first.Done(kvsteer.Usage{})
	require.Zero(l.t, l.router.Waiting())
	return order
}

func TestWaitsUntilTheWorkerIsFree(t *testing.T) {
	t.Parallel()
	l := newLane(t, 2, kvsteer.QueueOptions{})
	a, b := l.now(l.prompt(50)), l.now(l.prompt(50))
	require.NotEqual(t, a.Target().Worker, b.Target().Worker)
	require.Zero(t, a.Decision().Waited)
	d, err := l.router.Explain(t.Context(), l.prompt(10))
	require.NoError(t, err)
	require.True(t, d.Saturated)
	require.Contains(t, d.String(), "would wait")
	l.wait(t.Context(), "c", l.prompt(10))
	require.Empty(t, l.got)
	b.FirstToken()
	c := l.next()
	require.NoError(t, c.err)
	require.Equal(t, b.Target().Worker, c.sel.Target().Worker)
	require.Positive(t, c.sel.Decision().Waited)
	require.Contains(t, c.sel.Decision().String(), "waited")
	for _, s := range []*kvsteer.Selection{a, b, c.sel} {
		s.Done(kvsteer.Usage{})
	}
	d, err = l.router.Explain(t.Context(), l.prompt(10))
	require.NoError(t, err)
	require.False(t, d.Saturated)
}

func TestWaitsNoLongerThanIsWorthIt(t *testing.T) {
	t.Parallel()
	l := newLane(t, 1, kvsteer.QueueOptions{Hold: 100 * time.Minute})
	a := l.now(l.prompt(60))
	b := l.now(l.prompt(60)) // an hour of work is ahead
	l.wait(t.Context(), "c", l.prompt(10))
	a.FirstToken() // an hour again
	c := l.next()
	require.NoError(t, c.err)
	for _, s := range []*kvsteer.Selection{a, b, c.sel} {
		s.Done(kvsteer.Usage{})
	}
}

func TestOrderOfWaiting(t *testing.T) {
	t.Parallel()
	type entry struct {
		name     string
		tokens   int
		priority int
		tenant   string
	}
	for name, c := range map[string]struct {
		aging   float64
		entries []entry
		want    []string
	}{
		"shortest first": {-1, []entry{{"long", 500, 0, ""}, {"short", 100, 0, ""}, {"middle", 300, 0, ""}}, []string{"short", "middle", "long"}},
		"ageing":         {1e12, []entry{{"long", 500, 0, ""}, {"short", 100, 0, ""}, {"middle", 300, 0, ""}}, []string{"long", "short", "middle"}},
		"priority":       {-1, []entry{{"later", 100, 5, ""}, {"usual", 500, 0, ""}, {"first", 900, -5, ""}}, []string{"first", "usual", "later"}},
		"fair share": {-1, []entry{
			{"a1", 100, 0, "a"}, {"a2", 110, 0, "a"}, {"a3", 120, 0, "a"}, {"b1", 250, 0, "b"}, {"b2", 260, 0, "b"},
		}, []string{"a1", "b1", "a2", "a3", "b2"}},
		"priority before share": {-1, []entry{{"a1", 100, 0, "a"}, {"a2", 100, 0, "a"}, {"b1", 100, 1, "b"}}, []string{"a1", "a2", "b1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLane(t, 1, kvsteer.QueueOptions{Aging: c.aging})
			first := l.now(l.prompt(10))
			for _, e := range c.entries {
				req := l.prompt(e.tokens)
				req.Priority, req.Tenant = e.priority, e.tenant
				l.wait(t.Context(), e.name, req)
			}
			require.Equal(t, c.want, l.drain(first, len(c.entries)))
		})
	}
}

func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	l := newLane(t, 1, kvsteer.QueueOptions{MaxWaiting: 2})
	first := l.now(l.prompt(1))
	l.wait(t.Context(), "a", l.prompt(10))
	cause := errors.New("the client went away")
	ctx, leave := context.WithCancelCause(t.Context())
	l.wait(ctx, "leaves", l.prompt(10))
	_, err := l.router.Select(t.Context(), l.prompt(10))
	var e *kvsteer.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kvsteer.CodeSaturated, e.Code)
	require.InDelta(t, 60, e.RetryAfter.Seconds(), 30, "a minute is ahead")

	leave(cause)
	r := l.next()
	require.Equal(t, "leaves", r.name)
	require.Equal(t, kvsteer.CodeCanceled, kvsteer.CodeOf(r.err))
	require.ErrorIs(t, r.err, cause)
	l.wait(t.Context(), "b", l.prompt(20)) // there is room again
	require.Equal(t, []string{"a", "b"}, l.drain(first, 2))
}

func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	l := newLane(t, 1, kvsteer.QueueOptions{MaxWait: 10 * time.Millisecond})
	first := l.now(l.prompt(1))
	_, err := l.router.Select(t.Context(), l.prompt(10))
	var e *kvsteer.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, kvsteer.CodeSaturated, e.Code)
	require.Equal(t, http.StatusServiceUnavailable, e.Code.HTTPStatus())
	require.InDelta(t, 60, e.RetryAfter.Seconds(), 30)
	require.Zero(t, l.router.Waiting())
	first.Done(kvsteer.Usage{})
	l.now(l.prompt(10)).Done(kvsteer.Usage{})
}

func TestClosingEndsTheWaiting(t *testing.T) {
	t.Parallel()
	l := newLane(t, 1, kvsteer.QueueOptions{})
	first := l.now(l.prompt(10))
	l.wait(t.Context(), "a", l.prompt(10))
	require.NoError(t, l.router.Close())
	require.Equal(t, kvsteer.CodeClosed, kvsteer.CodeOf(l.next().err))
	first.Done(kvsteer.Usage{})
}

// A request that waited goes where its prompt is by then.
func TestBindsLate(t *testing.T) {
	t.Parallel()
	l := newLane(t, 2, kvsteer.QueueOptions{})
	shared := l.prompt(400)
	a := l.now(l.prompt(800))
	b := l.now(shared) // its sibling is not known to anybody when it comes
	l.wait(t.Context(), "sibling", shared)
	b.FirstToken()
	r := l.next()
	require.NoError(t, r.err)
	require.Equal(t, b.Target().Worker, r.sel.Target().Worker)
	require.Positive(t, r.sel.Decision().Winner().CachedTokens)
	for _, s := range []*kvsteer.Selection{a, b, r.sel} {
		s.Done(kvsteer.Usage{})
	}
}

// However many wait for one worker, another that is free is not kept from who wants
// that.
func TestManyThatWaitForOneWorker(t *testing.T) {
	t.Parallel()
	l := newLane(t, 2, kvsteer.QueueOptions{Aging: -1})
	hot := l.prompt(4000)
	more := func(n int) *kvsteer.Request {
		req := l.prompt(n)
		req.TokenIDs = append(append([]uint32(nil), hot.TokenIDs...), req.TokenIDs...)
		return req
	}
	first := l.now(hot)
	first.FirstToken()
	sels := []*kvsteer.Selection{first, l.now(more(10)), l.now(l.prompt(300))}
	require.Equal(t, first.Target().Worker, sels[1].Target().Worker)
	require.NotEqual(t, first.Target().Worker, sels[2].Target().Worker)
	for range 3 * 16 {
		l.wait(t.Context(), "hot", more(10))
	}
	l.wait(t.Context(), "other", l.prompt(900)) // last in line
	sels[2].FirstToken()
	r := l.next()
	require.Equal(t, "other", r.name)
	require.NoError(t, r.err)
	require.Equal(t, sels[2].Target().Worker, r.sel.Target().Worker)
	sels = append(sels, r.sel)
	sels[1].FirstToken()
	for range 3 * 16 {
		r := l.next()
		require.Equal(t, "hot", r.name)
		require.NoError(t, r.err)
		require.Equal(t, first.Target().Worker, r.sel.Target().Worker)
		r.sel.Done(kvsteer.Usage{})
	}
	for _, s := range sels {
		s.Done(kvsteer.Usage{})
	}
	require.Zero(t, l.router.Waiting())
}

// fickle is a policy whose mind can be changed.
type fickle struct {
	policy.Default

	mu sync.Mutex
	do func(plan *policy.Plan)
}

func (f *fickle) set(do func(plan *policy.Plan)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.do = do
}

func (f *fickle) Evaluate(req *policy.Request, c []policy.Candidate, plan *policy.Plan) {
	f.Default.Evaluate(req, c, plan)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.do != nil {
		f.do(plan)
	}
}

// Every wait checks the policy again.
func TestThePolicyHoldsForThoseThatWait(t *testing.T) {
	t.Parallel()
	p := &fickle{}
	l := newLane(t, 1, kvsteer.QueueOptions{}, kvsteer.WithPolicy(p))
	first := l.now(l.prompt(10))
	l.wait(t.Context(), "a", l.prompt(10))
	p.set(func(plan *policy.Plan) { plan.Order, plan.Rule = plan.Order[:0], "closed" })
	first.FirstToken()
	r := l.next()
	require.Equal(t, kvsteer.CodeRejectedByPolicy, kvsteer.CodeOf(r.err))
	p.set(nil)

	// A policy that panics does so where its caller can see it, and holds up nobody.
	second := l.now(l.prompt(10))
	before := l.router.Waiting()
	panicked := make(chan any)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = l.router.Select(t.Context(), l.prompt(10))
	}()
	require.Eventually(t, func() bool { return l.router.Waiting() == before+1 }, wait, tick)
	p.set(func(*policy.Plan) { panic("a bug") })
	second.FirstToken()
	require.Equal(t, "a bug", <-panicked)
	p.set(nil)
	third := l.now(l.prompt(10))
	for _, s := range []*kvsteer.Selection{first, second, third} {
		s.Done(kvsteer.Usage{})
	}
	require.Zero(t, l.router.InFlight())
}

func TestTurnsAreCountedWhenServed(t *testing.T) {
	t.Parallel()
	l := newLane(t, 3, kvsteer.QueueOptions{}, kvsteer.WithPolicy(new(policy.RoundRobin)))
	a, b := l.now(l.prompt(10)), l.now(l.prompt(10))
	c := l.now(l.prompt(10))
	l.wait(t.Context(), "d", l.prompt(10)) // for s0, whose turn it is
	l.wait(t.Context(), "e", l.prompt(20))
	b.FirstToken()
	require.Never(t, func() bool { return len(l.got) > 0 }, 20*time.Millisecond, tick)
	a.FirstToken()
	d, e := l.next(), l.next()
	if d.name == "e" {
		d, e = e, d
	}
	require.Equal(t, "s0", d.sel.Target().Worker)
	require.Equal(t, "s1", e.sel.Target().Worker)
	for _, s := range []*kvsteer.Selection{a, b, c, d.sel, e.sel} {
		s.Done(kvsteer.Usage{})
	}
}

// Many come, wait, leave and are served, through a gateway: nobody is lost, and
// nothing stays booked.
func TestQueueUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 3, options: []kvsteer.Option{kvsteer.WithQueue(kvsteer.QueueOptions{MaxWaiting: 100, MaxWait: time.Hour})}})
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for i := range 150 {
		wg.Go(func() {
			ctx := t.Context()
			if i%5 == 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
				defer cancel()
			}
			a, err := r.try(ctx, "/v1/chat/completions", chatBody(fleettest.Text(uint64(i%20), 300), i%2 == 0))
			if err != nil {
				a.status = 0
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	wg.Wait()
	r.idle()
	require.Zero(t, r.router.Waiting())
	require.GreaterOrEqual(t, statuses[http.StatusOK], 60, statuses)
	for status := range statuses {
		require.Contains(t, []int{0, http.StatusOK, http.StatusServiceUnavailable}, status, statuses)
	}
}
