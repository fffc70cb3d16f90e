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
	// Rushed is for how long a choice counts as one of the same moment: a few times what
	// news take.
	Rushed = 10 * time.Millisecond
)

// Rush knows whether routers choose at the same moment. It is safe for concurrent use;
// the zero value is ready.
type Rush struct{ last atomic.Int64 }

// Note takes in a choice of this router or of another, at the time when it was known.
func (r *Rush) Note(now time.Time) { r.last.Store(now.UnixNano()) }

// On reports whether there was one just before.
func (r *Rush) On(now time.Time) bool {
	last := r.last.Load()
	return last != 0 && now.UnixNano()-last <= int64(Rushed)
}

// choose lets p order the candidates twice where there are other routers: as a question
// first, so that what is levelled is what it would choose among and not what it has
// excluded, keeps for later or puts behind for reasons of its own.
func (r *Round) choose(q *Prompt, p policy.Policy) {
	if r.Peers > 0 {
		for i := range r.Candidates {
			r.Candidates[i].Near = 0
		}
		r.req.DryRun = true
		r.order(q, p)
		if !r.level() && q.DryRun {
			return // it would be asked the same again
		}
		r.req.DryRun = q.DryRun
	}
	r.order(q, p)
}

// level makes the workers that are near the plan's first equal to it, but for the order in
// which this router takes them, as far as the plan's first stage goes; it reports whether
// there are any. Who is better than the first and behind it is there for another reason.
// While choices come thick and fast, near is half of what the request itself adds where it
// is best: who is free is never left for one that is known to have begun with as much, nor
// who holds more than a third of a prompt for one that holds nothing.
func (r *Round) level() bool {
	head := r.Plan.Order[:r.Plan.Head()]
	if len(head) < 2 { //nolint:mnd // it is not equal to anybody
		return false
	}
	first := &r.Candidates[head[0]]
	if first.Type != policy.Local || r.home[head[0]] {
		return false // a provider's objective is nothing of ours; a session stays where it is best off
	}
	least := first.Objective()
	band := times(max(least, 0), near)
	if r.Rush {
		band = max(band, r.Predictions[head[0]].Prefill/2)
	}
	most := plus(least, band)
	r.equals = r.equals[:0]
	for _, i := range head {
		c := &r.Candidates[i]
		if o := c.Objective(); c.Type == policy.Local && (c.Misses == "") == (first.Misses == "") && o >= least && o <= most {
			r.equals = append(r.equals, i)
		}
	}
	if len(r.equals) < 2 { //nolint:mnd // see above
		return false
	}
	slices.SortFunc(r.equals, func(a, b int) int {
		return cmp.Or(btoi(r.home[b])-btoi(r.home[a]), cmp.Compare(r.own[a], r.own[b]), cmp.Compare(r.Candidates[a].Tie, r.Candidates[b].Tie))
	})
	for n, i := range r.equals {
		lead(&r.Candidates[i], least-time.Duration(len(r.equals)-n))
	}
	return true
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lead brings a candidate's objective down to what is given.
func lead(c *policy.Candidate, to time.Duration) { c.Near = c.Objective() - to }
