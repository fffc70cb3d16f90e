package simulate

import (
	"cmp"
	"slices"

	"github.com/kvsteer/kvsteer"
)

// Late is Steer with a queue in the router: a call waits while the worker that
// it would go to has more than Hold seconds of prefill before it. Calls are
// looked at in the order of their work, less their age; one that waits counts as
// work ahead on its worker for those after it, so that not all wait for the same.
type Late struct {
	*Steer
	// Hold is in seconds of predicted wait.
	Hold float64
	// Age is the seconds of work that a second of waiting outweighs.
	Age float64

	promised []promise // by worker
	order    []ranked
}

// promise is the work of calls that wait for a worker.
type promise struct {
	tokens int
	pairs  int64
}

type ranked struct {
	job  int
	cost float64
}

// newLate makes r hold calls.
func newLate(r *Steer, hold, age float64) *Late {
	l := &Late{Steer: r, Hold: hold, Age: age}
	before := r.Refine
	r.Refine = func(s *State, f *kvsteer.Features, v *View) {
		if before != nil {
			before(s, f, v)
		}
		if v.index < len(l.promised) {
			f.AheadTokens += l.promised[v.index].tokens
			f.AheadPairs += float64(l.promised[v.index].pairs)
		}
	}
	return l
}

// lookahead bounds the waiting calls that are considered.
const lookahead = 64

// Bind implements [Binder].
func (l *Late) Bind(s *State, waiting []*Job) (job, worker int) {
	l.order = l.order[:0]
	l.promised = l.promised[:0]
	for n, j := range waiting[:min(len(waiting), lookahead)] {
		s.cluster.look(j)
		if i := l.Pick(s); i >= 0 {
			l.order = append(l.order, ranked{n, l.preds[i].Prefill.Seconds() - l.Age*(s.Now-j.Arrived).Seconds()})
		}
	}
	slices.SortStableFunc(l.order, func(a, b ranked) int { return cmp.Compare(a.cost, b.cost) })
	l.promised = append(l.promised, make([]promise, len(s.Workers))...)
	for _, o := range l.order {
		s.cluster.look(waiting[o.job])
		i := l.Pick(s)
		p := &l.promised[i]
		wait := (l.preds[i].TTFT - l.preds[i].Prefill).Seconds()
		if p.tokens == 0 && (s.Workers[i].Prefilling == 0 || wait <= l.Hold) {
			return o.job, i
		}
		f := &l.feats[i]
		p.tokens += f.Uncached
		p.pairs += pairs(f.Uncached, f.Cached)
	}
	return -1, -1
}
