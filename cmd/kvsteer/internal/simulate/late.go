package simulate

import (
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// Late is the product with [kvsteer.WithQueue]: a call waits while the worker that
// it should go to is at another prompt. One that waits counts as work ahead on
// that worker for those behind it, so that not all wait for the same.
type Late struct {
	*Steer
	// Hold is the predicted wait up to which a call is bound to a busy worker.
	Hold time.Duration
	// Gather bounds how long a call waits for others that come at the same moment.
	Gather time.Duration

	line    steer.Line
	look    steer.Look
	waiters map[*Job]*waiter
	order   []*waiter // all of them, as the line last was
}

// waiter is a call that waits for the worker that was best when it was last looked
// at.
type waiter struct {
	steer.Waiter

	job    *Job
	worker int           // that would compute the prompt
	delay  time.Duration // that it would wait there
	wants  bool          // counted as one that waits for it
	promise
}

// defaultAging and defaultGather are the router's.
const (
	defaultAging  = 0.2
	defaultGather = 10 * time.Millisecond
)

// newLate makes r hold calls.
func newLate(r *Steer, hold, gather time.Duration, aging float64) *Late {
	return &Late{Steer: r, Hold: hold, Gather: gather, line: steer.Line{Aging: aging}, waiters: map[*Job]*waiter{}}
}

// Bind implements [Binder].
func (l *Late) Bind(s *State, waiting []*Job) (job, worker int) {
	s.Queued = len(waiting) - 1
	defer func() { l.promised = l.promised[:0] }()
	if last := len(waiting) - 1; l.waiters[waiting[last]] == nil { // it has just come
		if i := l.join(s, waiting[last]); i >= 0 {
			return last, i
		}
	}
	if l.Hold == 0 && !slices.ContainsFunc(s.Workers, func(v View) bool { return v.Prefilling == 0 }) {
		return -1, -1
	}
	now := epoch.Add(s.Now)
	slices.SortFunc(l.order, func(a, b *waiter) int { return l.line.Before(&a.Waiter, &b.Waiter, now) })
	l.promised = append(l.promised[:0], make([]promise, s.fleet())...)
	l.look.Begin(len(l.order), func(place int) *steer.Waiter { return &l.order[place].Waiter })
	for place, w := range l.order {
		if l.hesitates(place, now) {
			continue
		}
		if !l.look.At(place, &w.Waiter, func() bool { return s.worker(w.worker).Prefilling > 0 }) {
			l.promised[w.worker].add(w.promise)
			continue
		}
		i := l.choose(s, w.job, w)
		if i < 0 {
			continue
		}
		if l.free(s, w) {
			delete(l.waiters, w.job)
			l.order = slices.Delete(l.order, place, place+1)
			l.line.Leave(&w.Waiter, true, now)
			return slices.Index(waiting, w.job), i
		}
		w.wants, w.Looked = true, now
		l.wanting[w.worker]++
		l.promised[w.worker].add(w.promise)
	}
	return -1, -1
}

// hesitates reports whether one in line still waits for others that may come before it.
func (l *Late) hesitates(place int, now time.Time) bool {
	return steer.Hesitates(now, &l.order[place].Waiter, func(yield func(*steer.Waiter) bool) {
		for _, o := range l.order[place+1:] {
			if !yield(&o.Waiter) {
				return
			}
		}
	})
}

// join looks at a call that has just come. All that wait are before it: else those
// that are too far back in the line to be looked at again would wait for a worker
// that has too much to do already. It returns a worker that is free at once; if
// there is none the call waits.
func (l *Late) join(s *State, j *Job) int {
	l.promised = append(l.promised[:0], make([]promise, s.fleet())...)
	for _, w := range l.order {
		l.promised[w.worker].add(w.promise)
	}
	now := epoch.Add(s.Now)
	w := &waiter{job: j, Waiter: steer.Waiter{Tenant: j.Call.Tenant, Since: now, Looked: now}}
	i := l.choose(s, j, w)
	if i < 0 {
		return -1
	}
	hesitation := steer.Hesitation(w.Work, l.Gather)
	if hesitation == 0 && l.free(s, w) {
		return i
	}
	if hesitation > 0 {
		w.Due = w.Since.Add(hesitation)
		s.Wake(hesitation)
	}
	w.wants = true
	l.wanting[w.worker]++
	l.waiters[j] = w
	l.order = append(l.order, w)
	l.line.Join(&w.Waiter)
	return -1
}

// choose evaluates a call, keeps in w what it came to, and returns the worker that
// would answer; -1 if there is none. What counts is who computes the prompt.
func (l *Late) choose(s *State, j *Job, w *waiter) int {
	s.router.look(j)
	if l.wanting == nil {
		l.wanting = make([]int, s.fleet())
	}
	if w.wants {
		l.wanting[w.worker]--
		w.wants = false
	}
	i := l.Pick(s)
	if i < 0 {
		return i
	}
	at, k := l.computes()
	f := &at.Features[k]
	i = s.Workers[i].index
	if w.worker = l.Relay(); w.worker < 0 {
		w.worker = i
	}
	w.Work, w.delay = at.Predictions[k].Prefill, at.Predictions[k].TTFT-at.Predictions[k].Prefill
	w.promise = promise{f.Uncached, pairs(f.Uncached, f.Cached)}
	return i
}

func (p *promise) add(o promise) {
	p.tokens += o.tokens
	p.pairs += o.pairs
}

// free reports whether the worker that was just chosen to compute a prompt may have
// one more.
func (l *Late) free(s *State, w *waiter) bool {
	if l.promised[w.worker] != (promise{}) {
		return false
	}
	return s.worker(w.worker).Prefilling == 0 || l.Hold > 0 && w.delay <= l.Hold
}
