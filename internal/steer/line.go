package steer

import (
	"cmp"
	"time"
)

// Waiter is a request that waits for a worker, as the order of waiting sees it. Between
// Join and Leave it must stay where it is.
type Waiter struct {
	// Priority: lower goes first.
	Priority int
	// Tenant shares with others fairly, by Weight: twice the weight is twice the share. 0
	// means 1.
	Tenant string
	Weight float64
	share  *share // the tenant's
	flow   *flow  // those of its tenant and priority
	// Since is when it began to wait.
	Since time.Time
	// Work is what its prefill is expected to take.
	Work time.Duration
	// Due is until when it waits for others that come at the same moment, see
	// [Hesitation].
	Due time.Time
	// Looked is when it was last evaluated, see [Look].
	Looked time.Time
}

// Line decides who of those that wait goes first. First a request whose tenant has
// been given nothing at its priority for Starve, see flow. Of the others the lowest
// priority number; then the tenant that has had least, see share, so that one with many
// requests does not keep another with few from its share; then the shortest prefill,
// less Aging times what the request has waited. Shortest first lowers the mean, ageing
// bounds what it costs the long ones.
//
// The zero value is a line without ageing, in which whoever is always overtaken is never
// served. It is not safe for concurrent use.
type Line struct {
	// Aging is the seconds of work that a second of waiting outweighs.
	Aging float64
	// HalfLife is the time in which what a tenant has had counts for half. 0 means that it
	// counts while the tenant has something in line, and not at all then.
	HalfLife time.Duration
	// Starve is after what time without being given anything a tenant goes first. 0 means
	// never.
	Starve time.Duration

	shares
	flows flows

	waiting int // of all tenants
}

// Join takes in a waiter.
func (l *Line) Join(w *Waiter) {
	w.share, w.flow = l.join(w), l.flows.join(w)
	l.waiting++
}

// Leave lets a waiter go that has joined; served, if it was given a worker. A second time
// does nothing.
func (l *Line) Leave(w *Waiter, served bool, now time.Time) {
	if w.share == nil {
		return
	}
	w.share.waiting--
	l.waiting--
	if served {
		l.serve(w.share, w.Work, now)
	}
	l.flows.leave(w, served, now)
	w.share, w.flow = nil, nil
	l.prune()
}

// Before orders two waiters at a time.
func (l *Line) Before(a, b *Waiter, now time.Time) int {
	if c := l.starving(a, b, now); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Priority, b.Priority); c != 0 {
		return c
	}
	if a.Tenant != b.Tenant {
		if c := cmp.Compare(l.had(a), l.had(b)); c != 0 {
			return c
		}
	}
	return cmp.Or(
		cmp.Compare(l.cost(a, now), l.cost(b, now)),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Tenant, b.Tenant),
	)
}

func (l *Line) cost(w *Waiter, now time.Time) float64 {
	return w.Work.Seconds() - l.Aging*now.Sub(w.Since).Seconds()
}
