package steer

import (
	"math"
	"slices"
	"time"
)

// share is what a tenant has had, in seconds of a worker's work by its weight.
//
// Without a half-life it counts on a clock that stands at what the tenant had that was
// served last: whoever joins starts there and claims nothing for the past, and when
// nobody waits all are even. That is fair among those that wait at a time.
//
// With one, what every tenant has had is kept, and counts for less and less: one that
// asks for little is ahead of one that has had much, also when they don't wait at the same
// time. Instead of making all amounts smaller as time goes, what is added is made larger,
// so that amounts can be compared as they are.
type share struct {
	had     float64
	weight  float64
	waiting int
}

// shares are those of the tenants that are kept account of.
type shares struct {
	of map[string]*share
	// now is the clock of shares without a half-life.
	now float64
	// base is when an amount is added as it is.
	base time.Time
	kept int // when last pruned
}

func (l *Line) join(w *Waiter) *share {
	t := l.take(w.Tenant, w.Weight)
	if t.waiting == 0 && l.HalfLife <= 0 {
		t.had = max(t.had, l.now)
	}
	t.waiting++
	return t
}

// take returns a tenant's share, a new one if there is none.
func (l *Line) take(tenant string, weight float64) *share {
	t := l.of[tenant]
	if t == nil {
		if l.of == nil {
			l.of = map[string]*share{}
		}
		t = new(share)
		l.of[tenant] = t
	}
	t.weight = Weight(weight)
	return t
}

// Bounds of a weight: a tenant that could have less than so little of what others have
// would be better refused.
const (
	leastWeight = 1e-3
	mostWeight  = 1e3
)

// Weight is the weight that counts: 1 for what is none, and within bounds.
func Weight(w float64) float64 {
	if !(w > 0) {
		return 1
	}
	return min(max(w, leastWeight), mostWeight)
}

func (l *Line) serve(t *share, work time.Duration, now time.Time) {
	l.now = max(l.now, t.had)
	l.add(t, work, now)
}

// Charge counts work of a tenant that did not wait for it, or that it had besides what its
// Waiter said; negative, if it had less. With a half-life it counts as of the time at: for
// a correction that is the time of what is corrected, so that the two are even however
// late it comes. Without one it counts while the tenant has something in line.
func (l *Line) Charge(tenant string, weight float64, work time.Duration, at time.Time) {
	if l.HalfLife <= 0 {
		if t := l.of[tenant]; t != nil {
			l.add(t, work, at)
		}
		return
	}
	if work <= 0 && l.of[tenant] == nil {
		return
	}
	l.add(l.take(tenant, weight), work, at)
	l.prune()
}

// maxGrowth bounds the half-lives, and so the powers of two, by which what is added is
// larger than it is.
const maxGrowth = 256

func (l *Line) add(t *share, work time.Duration, now time.Time) {
	amount := work.Seconds() / t.weight
	if l.HalfLife > 0 {
		if l.base.IsZero() {
			l.base = now
		}
		growth := now.Sub(l.base).Seconds() / l.HalfLife.Seconds()
		if growth > maxGrowth {
			for _, other := range l.of {
				other.had *= math.Exp2(-growth)
			}
			l.base, growth = now, 0
		}
		amount *= math.Exp2(growth)
	}
	t.had = max(t.had+amount, 0)
}

// had is what a waiter's tenant has had.
func (l *Line) had(w *Waiter) float64 {
	if w.share != nil {
		return w.share.had
	}
	if t := l.of[w.Tenant]; t != nil || l.HalfLife > 0 {
		if t == nil {
			return 0
		}
		return t.had
	}
	return l.now
}

// maxTenants bounds the tenants without a waiter that are kept account of. With a
// half-life those that had most are kept, of twice as many at times; without one, all of
// more are forgiven what they had beyond the others.
const maxTenants = 4096

// prune forgets tenants that would join anew with what they have and, without a
// half-life, all of them when nobody waits.
func (l *Line) prune() {
	const few = 64
	switch {
	case l.HalfLife > 0:
		if len(l.of) > 2*maxTenants+l.waiting {
			l.keepMost()
		}
		return
	case l.waiting == 0:
		clear(l.of)
		l.now, l.kept = 0, 0
		return
	case len(l.of) < 2*l.kept+few: // so that each tenant is looked at a few times at most
		return
	}
	for name, t := range l.of {
		if t.waiting == 0 && (t.had <= l.now || len(l.of) > maxTenants+l.waiting) {
			delete(l.of, name)
		}
	}
	l.kept = len(l.of)
}

// keepMost forgets all tenants without a waiter but for those that had most.
func (l *Line) keepMost() {
	had := make([]float64, 0, len(l.of))
	for _, t := range l.of {
		if t.waiting == 0 {
			had = append(had, t.had)
		}
	}
	if len(had) <= maxTenants {
		return
	}
	slices.Sort(had)
	least := had[len(had)-maxTenants]
	for name, t := range l.of {
		if t.waiting == 0 && t.had <= least {
			delete(l.of, name)
		}
	}
}

// Tenants counts the tenants that the line keeps account of.
func (l *Line) Tenants() int { return len(l.of) }
