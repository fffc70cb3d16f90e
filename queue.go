package kvsteer

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/internal/steer"
)

// QueueOptions are the settings of [WithQueue]. The zero value works.
type QueueOptions struct {
	// Hold is the predicted wait on a worker from which on a request waits here
	// instead. A worker that has no prompt to compute is always free. 0 means that
	// any other is not.
	Hold time.Duration
	// MaxWaiting bounds the requests that wait. Of more, one of the tenant that has most
	// of them by its weight is refused with a [CodeSaturated]: the last in line, or the
	// one that has just come. 0 means 1,024.
	MaxWaiting int
	// MaxWait bounds how long one waits; then it is refused with a [CodeSaturated].
	// 0 means 30 s.
	MaxWait time.Duration
	// Aging is how many seconds of prefill a second of waiting outweighs. 0 means
	// 0.2: what has waited for five seconds goes before what takes a second less.
	// More of it costs the mean dearly while all are busy: 1 is nearly first come
	// first served. Negative means the shortest first, always.
	Aging float64
	// Gather is for how long at most a request waits for others that come at the same
	// moment, so that the best order is theirs and not that of chance: for a hundredth
	// of the prefill that it would keep them waiting for, but no longer than this. 0
	// means 10 ms. Negative means not at all.
	Gather time.Duration
	// Fair is how tenants share.
	Fair FairOptions
}

const (
	defaultMaxWaiting = 1024
	defaultMaxWait    = 30 * time.Second
	defaultAging      = 0.2
	defaultGather     = 10 * time.Millisecond
)

func (o *QueueOptions) fill() {
	if o.MaxWaiting < 1 {
		o.MaxWaiting = defaultMaxWaiting
	}
	if o.MaxWait <= 0 {
		o.MaxWait = defaultMaxWait
	}
	if o.Aging == 0 {
		o.Aging = defaultAging
	}
	o.Aging = max(o.Aging, 0)
	if o.Gather == 0 {
		o.Gather = defaultGather
	}
	o.Hold = max(o.Hold, 0)
	o.Fair.fill(o.MaxWait)
}

// WithQueue lets Select hold a request while the worker that it should go to is at
// another prompt, and choose when it is free: what is cached where, and who is
// busy, is known better then. Those that come within some milliseconds are looked at
// together. Of those that wait the lowest Priority goes first, then the tenant that has
// had least, then the shortest prefill, with ageing; see [FairOptions] for how tenants
// share, and for what bounds the wait of one that is always overtaken. The time that a
// request waits is bounded by its context and by QueueOptions. It is off by default:
// without it engines queue, first come first served.
//
// Second attempts, and requests that carry no prompt, do not wait.
func WithQueue(q QueueOptions) Option {
	return optionFunc(func(o *options) {
		q.fill()
		o.queue = &q
	})
}

// queue holds requests that wait. All but count, wake and dues is guarded by
// Router.pickMu.
type queue struct {
	opts QueueOptions
	line steer.Line
	// waiters are in the order of the line as it last was: to sort what is nearly in
	// order costs little.
	waiters []*waiter
	// promised is the work of those that wait for a rank: for the next in line it is
	// as good as there.
	promised []promise
	// wanted counts those that wait for each rank.
	wanted []wanted
	// order is those of the waiters for whom there may be a worker, seen is their models:
	// kept for their memory.
	order []*waiter
	seen  []idleFor
	look  steer.Look

	count atomic.Int32 // of waiters
	wake  chan struct{}
	dues  dues
}

type promise struct {
	place

	tokens int
	pairs  int64
}

// waiter is a request that waits. What its done channel announces is written
// before that is closed, under pickMu.
type waiter struct {
	steer.Waiter

	s    *Selection
	done chan struct{}
	// What was evaluated, with the choice's number or why there is none; or what a
	// user's Policy or Predictor panicked with.
	ev    *evaluation
	id    uint64
	err   *Error
	panic any
	// delay is the wait that was last predicted for it, wants the rank that was best;
	// counted, if it is among those that wait for that.
	delay   time.Duration
	wants   promise
	counted bool
}

type wanted struct {
	place

	n int
}

// countIn takes w in as one that waits for what it wants, or out.
func (q *queue) countIn(w *waiter, in bool) {
	if w.counted == in {
		return
	}
	w.counted = in
	change := -1
	if in {
		change = 1
	}
	i := slices.IndexFunc(q.wanted, func(p wanted) bool { return p.place == w.wants.place })
	if i < 0 {
		i = len(q.wanted)
		q.wanted = append(q.wanted, wanted{place: w.wants.place})
	}
	if q.wanted[i].n += change; q.wanted[i].n == 0 {
		q.wanted = slices.Delete(q.wanted, i, i+1) // members come and go
	}
}

// wanting is how many wait for a rank.
func (q *queue) wanting(m *fleet.Member, rank int) int {
	for i := range q.wanted {
		if p := &q.wanted[i]; p.member == m && p.rank == rank {
			return p.n
		}
	}
	return 0
}

// lookEvery is how often those that wait are looked at without an occasion: for what
// engines report, and for workers that come.
const lookEvery = 50 * time.Millisecond

func newQueue(o *QueueOptions) *queue {
	line := steer.Line{Aging: o.Aging, HalfLife: o.Fair.HalfLife, Starve: o.Fair.Starve}
	return &queue{opts: *o, line: line, wake: make(chan struct{}, 1)}
}

// Waiting counts the requests that wait for a worker; 0 without [WithQueue].
func (r *Router) Waiting() int {
	if r.queue == nil {
		return 0
	}
	return int(r.queue.count.Load())
}

// freed says that a worker may have become free. It is called for every first
// token and every end.
func (r *Router) freed() {
	if r.queue == nil || r.queue.count.Load() == 0 {
		return
	}
	select {
	case r.queue.wake <- struct{}{}:
	default:
	}
}

// serve gives workers to those that wait until the router closes.
func (r *Router) serve() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-r.queue.wake:
		case <-tick.C:
			if r.queue.count.Load() == 0 {
				continue
			}
		}
		r.round()
	}
}

// round lets go of the lock even if user code ends the goroutine, as a test that
// fails within a Policy does.
func (r *Router) round() {
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	r.dispatch()
}

// ready reports whether the first in the plan is free for one more request, and
// how long that would have to wait there.
func (q *queue) ready(ev *evaluation) (ok bool, delay time.Duration) {
	ev, i := ev.computing(ev.Plan.Order[0])
	if ev.refs[i].offer != nil {
		return true, 0
	}
	delay = max(ev.Predictions[i].TTFT-ev.Predictions[i].Prefill, 0)
	if slices.ContainsFunc(q.promised, func(p promise) bool { return p.place == ev.refs[i].place(ev.places[i].Rank) }) {
		return false, delay
	}
	return ev.places[i].Prefilling == 0 || q.opts.Hold > 0 && delay <= q.opts.Hold, delay
}

// work is what the prefill takes on the first in the plan.
func (ev *evaluation) work() time.Duration {
	at, i := ev.computing(ev.Plan.Order[0])
	return at.Predictions[i].Prefill
}

// wants is the work on the first in the plan.
func (ev *evaluation) wants() promise {
	at, i := ev.computing(ev.Plan.Order[0])
	f := &at.Features[i]
	return promise{
		place: at.refs[i].place(at.places[i].Rank), tokens: f.Uncached, pairs: int64(AttentionPairs(f.Uncached, f.Cached)),
	}
}

// arrive promises ranks to all that wait, before a request that has just come is
// evaluated. Who is far back in the line is not looked at again for long: it must
// not join a line for one worker that is too long already while others are free.
func (q *queue) arrive() {
	q.promised = q.promised[:0]
	for _, w := range q.waiters {
		if i := slices.IndexFunc(q.promised, func(p promise) bool { return p.place == w.wants.place }); i >= 0 {
			q.promised[i].tokens += w.wants.tokens
			q.promised[i].pairs += w.wants.pairs
			continue
		}
		q.promised = append(q.promised, w.wants)
	}
}

// hesitation is for how long the request in ev is to wait for others that come at the
// same moment.
func (q *queue) hesitation(ev *evaluation) time.Duration {
	return steer.Hesitation(ev.work(), q.opts.Gather)
}

// full reports whether as many wait as may.
func (q *queue) full() bool { return len(q.waiters) >= q.opts.MaxWaiting }

// join puts s, evaluated in ev, into the line, where it hesitates for so long. It reports
// false if that is full.
func (r *Router) join(s *Selection, ev *evaluation, hesitation time.Duration) (*waiter, bool) {
	q := r.queue
	w := &waiter{
		Waiter: steer.Waiter{
			Priority: s.parsed.hints.priority, Tenant: s.parsed.hints.account(), Weight: s.weight, Since: r.opts.now(),
			Work: ev.work(),
		},
		s: s, done: make(chan struct{}), wants: ev.wants(),
	}
	if q.full() && !q.makeRoom(w) {
		return nil, false
	}
	w.Looked = w.Since
	if hesitation > 0 {
		w.Due = time.Now().Add(hesitation) // as the timer goes, whatever the router's clock
		time.AfterFunc(hesitation, r.freed)
	}
	q.line.Join(&w.Waiter)
	q.countIn(w, true)
	q.waiters = append(q.waiters, w)
	s.waits = true
	q.count.Store(int32(len(q.waiters)))
	return w, true
}

// leave takes w out of the line. It reports false if it has left.
func (q *queue) leave(w *waiter, served bool, now time.Time) bool {
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return false
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	q.countIn(w, false)
	w.s.waits = false
	q.count.Store(int32(len(q.waiters)))
	if served {
		w.s.charged, w.s.chargedAt = w.Work, now
	}
	q.line.Leave(&w.Waiter, served, now)
	return true
}

// ahead is the work that was promised to a rank in this round.
func (q *queue) ahead(m *fleet.Member, rank int) (tokens int, pairs int64) {
	for i := range q.promised {
		if p := &q.promised[i]; p.member == m && p.rank == rank {
			tokens += p.tokens
			pairs += p.pairs
		}
	}
	return tokens, pairs
}

func (w *waiter) wait(ctx context.Context, r *Router) (uint64, *evaluation, *Error) {
	ev, err := r.await(ctx, w)
	return w.id, ev, err
}

// await waits until w is given a worker, and returns the choice, which the caller
// releases. With an error there is none, or what the error is about.
func (r *Router) await(ctx context.Context, w *waiter) (*evaluation, *Error) {
	select {
	case <-w.done: // there was no need to wait
		return r.served(w)
	default:
	}
	timer := time.NewTimer(r.queue.opts.MaxWait)
	defer timer.Stop()
	var err *Error
	select {
	case <-w.done:
	case <-ctx.Done():
		err = canceled(ctx)
	case <-timer.C:
		err = saturated(0, "no worker was free for the request in time")
	case <-r.stop:
		err = &Error{Code: CodeClosed, Message: "the router was closed"}
	}
	if err != nil {
		if planted.LineForgets {
			return nil, err
		}
		r.pickMu.Lock()
		if r.queue.leave(w, false, r.opts.now()) {
			err.RetryAfter = max(err.RetryAfter, retryAfter(err.Code, w.delay))
			r.pickMu.Unlock()
			return nil, err
		}
		r.pickMu.Unlock() // it was served at the last moment
		<-w.done
	}
	ev, failed := r.served(w)
	if failed == nil && err != nil && err.Code != CodeSaturated { // nobody wants it any more
		r.release(ev) // and Select the booking
		return nil, err
	}
	w.s.waited = r.opts.now().Sub(w.Since)
	return ev, failed
}

// served returns what a waiter was given.
func (r *Router) served(w *waiter) (*evaluation, *Error) {
	if w.panic != nil {
		panic(w.panic)
	}
	return w.ev, w.err
}

// saturated refuses a request, to come back when a worker is expected to be free.
func saturated(delay time.Duration, message string) *Error {
	return &Error{Code: CodeSaturated, Message: message, RetryAfter: retryAfter(CodeSaturated, delay)}
}

// retryAfter is the delay in whole seconds, within bounds; 0 for other codes.
func retryAfter(code Code, delay time.Duration) time.Duration {
	const least, most = time.Second, time.Minute
	if code != CodeSaturated {
		return 0
	}
	secs := time.Duration(math.Ceil(delay.Seconds())) * time.Second
	return min(max(secs, least), most)
}
