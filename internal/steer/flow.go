package steer

import (
	"cmp"
	"time"
)

// flow is what waits of one tenant at one priority. Strict priorities, and shares, let
// one that is behind others wait for as long as there are others. A flow that has been
// given nothing for Line.Starve goes first, with the request that has waited longest; of
// several the one that was given something longest ago. So each is given one request in
// that time, and as long as it takes to give one to each other that starves: however many
// requests it has, and however few those have that it overtakes, they lose no more.
type flow struct {
	key     flowKey
	waiting int
	// last is when it was given something, or when it began to wait.
	last time.Time
}

type flowKey struct {
	tenant   string
	priority int
}

// flows are those that have something waiting, and no others.
type flows map[flowKey]*flow

func (f *flows) join(w *Waiter) *flow {
	if *f == nil {
		*f = flows{}
	}
	key := flowKey{w.Tenant, w.Priority}
	one := (*f)[key]
	if one == nil {
		one = &flow{key: key, last: w.Since}
		(*f)[key] = one
	}
	one.waiting++
	return one
}

func (f *flows) leave(w *Waiter, served bool, now time.Time) {
	if served {
		w.flow.last = now
	}
	if w.flow.waiting--; w.flow.waiting == 0 {
		delete(*f, w.flow.key)
	}
}

// starving orders two waiters of which at least one is of a flow that starves; 0 if
// none is, or if that makes no difference.
func (l *Line) starving(a, b *Waiter, now time.Time) int {
	if l.Starve <= 0 || a.flow == nil || b.flow == nil {
		return 0
	}
	if a.flow == b.flow {
		if now.Sub(a.flow.last) < l.Starve {
			return 0
		}
		return a.Since.Compare(b.Since)
	}
	one, other := now.Sub(a.flow.last) >= l.Starve, now.Sub(b.flow.last) >= l.Starve
	switch {
	case one && other:
		return cmp.Or(
			a.flow.last.Compare(b.flow.last),
			cmp.Compare(a.Priority, b.Priority),
			cmp.Compare(a.Tenant, b.Tenant),
		)
	case one:
		return -1
	case other:
		return 1
	default:
		return 0
	}
}
