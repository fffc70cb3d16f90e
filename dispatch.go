package kvsteer

import (
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// line lets s, evaluated in ev, wait if it has to: nil if it doesn't. The caller holds
// pickMu.
func (r *Router) line(s *Selection, ev *evaluation) (*waiter, *Error) {
	q := r.queue
	ready, delay := q.ready(ev)
	hesitation := q.hesitation(ev)
	if ready && (hesitation == 0 || q.full()) {
		return nil, nil
	}
	w, ok := r.join(s, ev, hesitation)
	if !ok {
		return nil, saturated(delay, "too many requests wait for a worker")
	}
	w.delay = delay
	if hesitation == 0 {
		r.dispatch() // those that wait want other workers
	}
	return w, nil
}

// dispatch gives free workers to those that wait, as long as there are both. The
// caller holds pickMu.
func (r *Router) dispatch() {
	q := r.queue
	q.pay(r.opts.now())
	for len(q.waiters) > 0 && r.serveOne() {
		continue
	}
	q.promised = q.promised[:0] // they are for one round alone
	clear(q.order[:cap(q.order)])
	q.look.End()
}

// serveOne offers a worker to those that wait, in their order, until one takes it.
// How many are evaluated for that is bounded, see [steer.Look].
func (r *Router) serveOne() bool {
	q, now := r.queue, r.opts.now()
	q.promised = q.promised[:0]
	order := r.hopeful(now)
	q.look.Begin(len(order), func(place int) *steer.Waiter { return &order[place].Waiter })
	for place, w := range order {
		switch {
		case q.hesitates(w, order[place+1:]):
			continue // and nobody behind it is kept from anything
		case !q.look.At(place, &w.Waiter, w.wants.busy):
			q.promised = append(q.promised, w.wants)
			continue
		}
		if r.offer(w) {
			return true // the line has changed
		}
	}
	return false
}

// hopeful lists those that wait and for whom there may be a worker, in the order of the
// line. The others must not take the turns of these: many that wait for one model keep
// nobody from another.
func (r *Router) hopeful(now time.Time) []*waiter {
	q := r.queue
	slices.SortFunc(q.waiters, func(a, b *waiter) int { return q.line.Before(&a.Waiter, &b.Waiter, now) })
	q.order = q.order[:0]
	idle := idle{r: r, seen: q.seen[:0]}
	for _, w := range q.waiters {
		if q.opts.Hold > 0 || idle.anyOf(w.s) {
			q.order = append(q.order, w)
		}
	}
	q.seen = idle.seen
	return q.order
}

// hesitates reports whether w, before others in line, still waits for others
// that come at the same moment.
func (q *queue) hesitates(w *waiter, behind []*waiter) bool {
	if w.Due.IsZero() {
		return false
	}
	return steer.Hesitates(time.Now(), &w.Waiter, func(yield func(*steer.Waiter) bool) {
		for _, o := range behind {
			if !yield(&o.Waiter) {
				return
			}
		}
	})
}

// busy reports whether the rank has a prompt to compute.
func (p *promise) busy() bool { return p.member.InFlight(p.rank).PrefillRequests > 0 }

// idle tells whether some rank for a model takes requests and has no prompt to
// compute: looking is much cheaper than evaluating, and is done once for a model.
type idle struct {
	r    *Router
	seen []idleFor
}

type idleFor struct {
	model string
	found bool
}

// anyOf tells that of any model that a request may be served with.
func (d *idle) anyOf(s *Selection) bool {
	for v := range s.views {
		if d.any(s.views[v].model) {
			return true
		}
	}
	return false
}

func (d *idle) any(model string) bool {
	for i := range d.seen {
		if d.seen[i].model == model {
			return d.seen[i].found
		}
	}
	found := d.look(model)
	d.seen = append(d.seen, idleFor{model, found})
	return found
}

func (d *idle) look(model string) bool {
	if len(d.r.opts.offers(model)) > 0 {
		return true // it may go there, or come to
	}
	for _, m := range d.r.fleet.Snapshot().ForModel(model) {
		if !m.Routable() {
			continue
		}
		for rank := range m.Ranks() {
			if m.InFlight(rank).PrefillRequests == 0 {
				return true
			}
		}
	}
	return false
}

// offer evaluates a waiter, and lets it go if its worker is free or if there is
// none that it may have. It reports whether the waiter left.
func (r *Router) offer(w *waiter) (left bool) {
	q := r.queue
	ev := r.evaluation()
	handed := false
	defer func() {
		if p := recover(); p != nil {
			// User code. This goroutine is not the one to tell.
			w.panic, left = p, q.leave(w, false, r.opts.now())
			close(w.done)
			return // ev may be in any state
		}
		if !handed {
			r.release(ev)
		}
	}()
	q.countIn(w, false) // it does not wait for itself
	r.evaluate(w.s, ev, 1, true)
	if len(ev.Plan.Order) == 0 {
		if len(ev.Candidates) == 0 {
			q.countIn(w, true)
			return false // a worker may come back in time
		}
		w.ev, handed, w.err = ev, true, r.nobody(w.s, ev)
		left = q.leave(w, false, r.opts.now())
		close(w.done)
		return left
	}
	w.Work = ev.work()
	var ok bool
	if ok, w.delay = q.ready(ev); !ok {
		w.wants, w.Looked = ev.wants(), r.opts.now()
		q.countIn(w, true)
		q.promised = append(q.promised, w.wants)
		return false
	}
	if w.id = r.commit(w.s, ev, 1, true); w.id == 0 {
		w.err = r.nobody(w.s, ev)
	}
	w.ev, handed = ev, true
	left = q.leave(w, w.id != 0, r.opts.now())
	close(w.done)
	return left
}
