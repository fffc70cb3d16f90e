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
	clear(q.turns[:cap(q.turns)])
}

// serveOne offers a worker to those that wait, in their order, until one takes it.
// How many are evaluated for that is bounded: the first in line; those whose worker
// is free; and in turn some of the others, which may have come to prefer a free
// one. The rest is taken at its word, so that many that wait for one worker keep
// nobody from another.
func (r *Router) serveOne() bool {
	q, now := r.queue, r.opts.now()
	q.promised = q.promised[:0]
	order, idle, free := q.ordered(now), idle{r: r, seen: q.seen[:0]}, lookFree
	if q.opts.Hold == 0 {
		// For them there is nobody. They must not take the turns of those for whom there
		// may be: many that wait for one model keep nobody from another.
		order = slices.DeleteFunc(order, func(i int) bool { return !idle.anyOf(q.waiters[i].s) })
		q.seen = idle.seen
	}
	turns := q.longUnseen(order[min(lookFirst, len(order)):])
	for place, i := range order {
		w := q.waiters[i]
		switch {
		case q.hesitates(w, order[place+1:]):
			continue // and nobody behind it is kept from anything
		case place < lookFirst || slices.Contains(turns, w):
		case free > 0 && !w.wants.busy():
			free--
		default:
			q.promised = append(q.promised, w.wants)
			continue
		}
		if r.offer(w) {
			return true // the line has changed
		}
	}
	return false
}

// hesitates reports whether w, before those at places in line, still waits for others
// that come at the same moment.
func (q *queue) hesitates(w *waiter, behind []int) bool {
	if w.Due.IsZero() {
		return false
	}
	return steer.Hesitates(time.Now(), &w.Waiter, func(yield func(*steer.Waiter) bool) {
		for _, i := range behind {
			if !yield(&q.waiters[i].Waiter) {
				return
			}
		}
	})
}

// ordered lists the places of those that wait, the first in line first.
func (q *queue) ordered(now time.Time) []int {
	q.order = q.order[:0]
	for i := range q.waiters {
		q.order = append(q.order, i)
	}
	slices.SortFunc(q.order, func(a, b int) int {
		return q.line.Before(&q.waiters[a].Waiter, &q.waiters[b].Waiter, now)
	})
	return q.order
}

// longUnseen returns those of the waiters at places that were not looked at for
// longest.
func (q *queue) longUnseen(places []int) []*waiter {
	q.turns = q.turns[:0]
	for _, i := range places {
		w := q.waiters[i]
		if len(q.turns) == lookTurns {
			if last := q.turns[lookTurns-1]; !w.looked.Before(last.looked) {
				continue
			}
			q.turns = q.turns[:lookTurns-1]
		}
		at, _ := slices.BinarySearchFunc(q.turns, w, func(a, b *waiter) int { return a.looked.Compare(b.looked) })
		q.turns = slices.Insert(q.turns, at, w)
	}
	return q.turns
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
		w.wants, w.looked = ev.wants(), r.opts.now()
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
