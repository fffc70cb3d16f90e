package steer

import (
	"cmp"
	"time"
)

// Waiter is a request that waits for a worker, as the order of waiting sees it.
type Waiter struct {
	// Priority: lower goes first.
	Priority int
	// Tenant shares with others fairly.
	Tenant string
	// Since is when it began to wait.
	Since time.Time
	// Work is what its prefill is expected to take.
	Work time.Duration
}

// Line decides who of those that wait goes first: the lowest priority number;
// then the tenant that has had the least prefill time since it began to wait, so
// that one with many requests does not keep another with few from its share; then
// the shortest prefill, less Aging times what the request has waited. Shortest
// first lowers the mean, ageing bounds what it costs the long ones.
//
// The zero value is a line without ageing. It is not safe for concurrent use.
type Line struct {
	// Aging is the seconds of work that a second of waiting outweighs.
	Aging float64

	// had is the prefill time that each tenant was given, in seconds, on a clock that
	// stands at now: whoever joins starts there and claims nothing for the past.
	had map[string]*share
	now float64

	waiting int // of all tenants
	kept    int // tenants, when last pruned
}

type share struct {
	had     float64
	waiting int
}

// Join takes in a waiter's tenant.
func (l *Line) Join(w *Waiter) {
	t := l.had[w.Tenant]
	if t == nil {
		if l.had == nil {
			l.had = map[string]*share{}
		}
		t = new(share)
		l.had[w.Tenant] = t
	}
	if t.waiting == 0 {
		t.had = max(t.had, l.now)
	}
	t.waiting++
	l.waiting++
}

// Leave lets a waiter go; served, if it was given a worker.
func (l *Line) Leave(w *Waiter, served bool) {
	t := l.had[w.Tenant]
	if t == nil || t.waiting == 0 {
		return
	}
	t.waiting--
	l.waiting--
	if served {
		l.now = max(l.now, t.had)
		t.had += w.Work.Seconds()
	}
	l.prune()
}

// maxTenants bounds the tenants without a waiter that are kept account of. Of more
// than that, all are forgiven what they had beyond the others.
const maxTenants = 4096

// prune forgets tenants that would join anew with what they have, and all of them
// when nobody waits.
func (l *Line) prune() {
	if l.waiting == 0 {
		clear(l.had)
		l.now, l.kept = 0, 0
		return
	}
	const few = 64
	if len(l.had) < 2*l.kept+few { // so that each tenant is looked at a few times at most
		return
	}
	for name, t := range l.had {
		if t.waiting == 0 && (t.had <= l.now || len(l.had) > maxTenants+l.waiting) {
			delete(l.had, name)
		}
	}
	l.kept = len(l.had)
}

// Before orders two waiters at a time.
func (l *Line) Before(a, b *Waiter, now time.Time) int {
	if c := cmp.Compare(a.Priority, b.Priority); c != 0 {
		return c
	}
	if a.Tenant != b.Tenant {
		if c := cmp.Compare(l.of(a), l.of(b)); c != 0 {
			return c
		}
	}
	return cmp.Or(
		cmp.Compare(l.cost(a, now), l.cost(b, now)),
		a.Since.Compare(b.Since),
		cmp.Compare(a.Tenant, b.Tenant),
	)
}

func (l *Line) of(w *Waiter) float64 {
	if t := l.had[w.Tenant]; t != nil {
		return t.had
	}
	return l.now
}

func (l *Line) cost(w *Waiter, now time.Time) float64 {
	return w.Work.Seconds() - l.Aging*now.Sub(w.Since).Seconds()
}

// Tenants counts the tenants that the line keeps account of.
func (l *Line) Tenants() int { return len(l.had) }
