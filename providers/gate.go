package providers

import (
	"strconv"
	"time"
)

// gate learns how many requests at once a service bears where nobody says: as TCP finds
// its window. It grows by one with each request that is taken while it is full, so it
// doubles with each round; after a refusal it is half of what it was, and grows by one a
// round from there. Refusals of requests that were sent before it was halved say nothing
// new.
type gate struct {
	limit, most int
	threshold   int // from here on it grows slowly
	credit      int // requests taken, towards the next one
	halved      time.Time
	reason      string
}

const (
	firstLimit = 16
	mostLimit  = 4096
)

func newGate(most int) gate {
	g := gate{limit: firstLimit, most: mostLimit, threshold: mostLimit}
	if most > 0 {
		g.limit, g.most, g.threshold = most, most, most
	}
	g.named()
	return g
}

// named makes the reason that is given at the limit: Standing must not allocate.
func (g *gate) named() {
	g.reason = "at its limit of " + strconv.Itoa(g.limit) + " at once"
}

// bound takes another bound than before, keeping what was learned within it.
func (g *gate) bound(most int) {
	switch {
	case most > 0 && most == g.most, most <= 0 && g.most == mostLimit:
		return
	case most <= 0:
		g.most = mostLimit
		if g.halved.IsZero() {
			g.threshold = mostLimit
		}
	default:
		g.most, g.limit, g.threshold = most, min(g.limit, most), most
		if g.halved.IsZero() {
			g.limit = most
		}
	}
	g.named()
}

// taken notes that the service took a request while so many were under way.
func (g *gate) taken(inFlight int) {
	if inFlight < g.limit || g.limit >= g.most {
		return
	}
	if g.limit >= g.threshold {
		if g.credit++; g.credit < g.limit {
			return
		}
	}
	g.credit = 0
	g.limit++
	g.named()
}

// refused notes that it refused one that was begun at some time. It reports whether that
// is news.
func (g *gate) refused(begun, now time.Time, inFlight int) bool {
	if !g.halved.IsZero() && !begun.After(g.halved) {
		return false
	}
	g.halved, g.credit = now, 0
	g.limit = max(min(g.limit, inFlight)/2, 1)
	g.threshold = g.limit
	g.named()
	return true
}
