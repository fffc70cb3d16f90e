package steer

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/policy"
)

// Several routers that choose at the same moment know nothing of each other's choices
// yet. If all took the one best candidate they would meet there. So what is near
// enough to the best counts as equal: of that each router takes what it has sent
// least to itself, which it knows exactly, and draws among those.

const (
	// near is the share of the best objective within which candidates are equal
	// whenever there are several routers: predictions are not better than that, and
	// on the trace of docs/benchmarks.md it costs nothing.
	near = 0.05
	// rush is for how long a choice counts as one of the same moment: a few times what
	// news take.
	rush = 10 * time.Millisecond
)

// Rush knows whether routers choose at the same moment. It is safe for concurrent use;
// the zero value is ready.
type Rush struct{ last atomic.Int64 }

// Note takes in a choice of this router or of another, at the time when it was known.
func (r *Rush) Note(now time.Time) { r.last.Store(now.UnixNano()) }

// On reports whether there was one just before.
func (r *Rush) On(now time.Time) bool {
	last := r.last.Load()
	return last != 0 && now.UnixNano()-last <= int64(rush)
}

// level makes candidates that are near the best equal, but for the order in which
// this router takes them. While choices come thick and fast, near is half of what the
// request itself adds where it is best: who is free is never left for one that is known
// to have begun with as much, nor who holds more than a third of a prompt for one that
// holds nothing.
func (r *Round) level() {
	best := -1
	for i := range r.Candidates {
		if best < 0 || r.Candidates[i].Objective() < r.Candidates[best].Objective() {
			best = i
		}
	}
	if best < 0 || r.home[best] {
		return // a session stays where it is best off
	}
	least := r.Candidates[best].Objective()
	band := times(max(least, 0), near)
	if r.Rush {
		band = max(band, r.Predictions[best].Prefill/2)
	}
	r.equals = r.equals[:0]
	for i := range r.Candidates {
		if r.Candidates[i].Objective() <= plus(least, band) {
			r.equals = append(r.equals, i)
		}
	}
	if len(r.equals) < 2 { //nolint:mnd // it is not equal to anybody
		return
	}
	slices.SortFunc(r.equals, func(a, b int) int {
		return cmp.Or(btoi(r.home[b])-btoi(r.home[a]), cmp.Compare(r.own[a], r.own[b]), cmp.Compare(r.Candidates[a].Tie, r.Candidates[b].Tie))
	})
	for n, i := range r.equals {
		lead(&r.Candidates[i], least-time.Duration(len(r.equals)-n))
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lead brings a candidate's objective down to what is given.
func lead(c *policy.Candidate, to time.Duration) { c.Near = c.Objective() - to }
