package kvsteer

import (
	"context"
	"time"
)

// A policy may let a request wait for a candidate to appear. It is asked anew, about
// the state of things then, until there is one or the time that it gave is over.

const (
	// maxLingering bounds those that wait so; further ones are rejected at once.
	maxLingering = 1024
	// lingerEvery is how often they are looked at; they take turns the more seldom the
	// more there are, so that looking never costs much.
	lingerEvery = 50 * time.Millisecond
	lingerShare = 32
)

// settle chooses and books, and waits for that as long as the queue and the policy
// allow. Of ev and the evaluation that it returns only the latter is the caller's.
func (r *Router) settle(ctx context.Context, s *Selection, ev *evaluation, number int) (uint64, *evaluation, *Error) {
	id, ev, err := r.once(ctx, s, ev, number)
	if err == nil || err.linger <= 0 || number > 1 {
		return id, ev, err
	}
	since := r.opts.now()
	defer r.lingering.Add(-1)
	if r.lingering.Add(1) > maxLingering {
		return 0, ev, err
	}
	for err != nil && err.linger > 0 {
		left := err.linger - r.opts.now().Sub(since)
		if left <= 0 {
			break
		}
		if stopped := r.pause(ctx, left); stopped != nil {
			return 0, ev, stopped
		}
		ev.forget(r)
		id, ev, err = r.once(ctx, s, ev, number)
		s.waited = r.opts.now().Sub(since)
	}
	return id, ev, err
}

// once is settle without what the policy allows.
func (r *Router) once(ctx context.Context, s *Selection, ev *evaluation, number int) (uint64, *evaluation, *Error) {
	id, waits, err := r.choose(s, ev, number)
	if waits == nil {
		return id, ev, err
	}
	id, chosen, err := waits.wait(ctx, r)
	if chosen == nil {
		return 0, ev, err
	}
	r.release(ev)
	return id, chosen, err
}

// waiting is a request that has no worker yet: in line, or gathered with others.
type waiting interface {
	// wait returns the choice, which the caller releases; nil if there was none.
	wait(ctx context.Context, r *Router) (id uint64, chosen *evaluation, err *Error)
}

// pause waits for the next look, at most for left.
func (r *Router) pause(ctx context.Context, left time.Duration) *Error {
	every := lingerEvery * time.Duration(1+r.lingering.Load()/lingerShare)
	timer := time.NewTimer(min(every, left))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return canceled(ctx)
	case <-r.stop:
		return &Error{Code: CodeClosed, Message: "the router was closed"}
	}
}

// forget makes ev as good as fresh from the pool.
func (ev *evaluation) forget(r *Router) {
	if b := ev.before; b != nil {
		ev.before = nil
		r.release(b)
	}
	ev.reset()
}
