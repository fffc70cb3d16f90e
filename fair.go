package kvsteer

import (
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// FairOptions say how tenants share what the router's line gives out. What a tenant has
// had is work in seconds: the expected prefill of its requests when they are booked; and
// when they end, what the engine says was not computed after all, and the time that it
// took to generate their answers, divided among all that were generated at a time. Of one
// that is cut off, or whose engine reports no usage, the time that it was generated
// counts.
type FairOptions struct {
	// Weight returns a tenant's: twice the weight is twice the share. Nil means 1 for all,
	// and so does what is no positive number; it counts as from 0.001 to 1,000. It is
	// called for each request, by several goroutines at a time, and must not block.
	Weight func(tenant string) float64
	// HalfLife is the time after which what a tenant has had counts for half: one that
	// has asked for little lately goes before one that has had much. The 4,096 tenants
	// that have had most are remembered for sure. 0 means that what was had counts among
	// those that wait at a time, and is forgotten then.
	HalfLife time.Duration
	// Starve bounds how long a tenant can be overtaken. When it has been given nothing for
	// so long though it has requests of one Priority in line, the one of them that has
	// waited longest goes first, whatever the others' Priority and share. 0 means half of
	// MaxWait, negative never: then strict priorities let requests wait until MaxWait.
	Starve time.Duration
}

func (o *FairOptions) fill(maxWait time.Duration) {
	o.HalfLife = max(o.HalfLife, 0)
	if o.Starve == 0 {
		o.Starve = maxWait / 2
	}
	o.Starve = max(o.Starve, 0)
}

// weight is that of the request's tenant. It is user code, so no lock is held.
func (q *queue) weight(s *Selection) float64 {
	if q == nil || q.opts.Fair.Weight == nil {
		return 1
	}
	return steer.Weight(q.opts.Fair.Weight(s.parsed.hints.tenant))
}

// makeRoom lets one that waits go for a newcomer, if that is fair, and reports whether it
// did. The caller holds pickMu.
func (q *queue) makeRoom(newcomer *waiter) bool {
	ws := make([]*steer.Waiter, len(q.waiters))
	for i, w := range q.waiters {
		ws[i] = &w.Waiter
	}
	i := q.line.Yields(ws, &newcomer.Waiter, newcomer.Since)
	if i < 0 {
		return false
	}
	w := q.waiters[i]
	w.err = saturated(w.delay, "too many requests wait for a worker, and most of them are this tenant's")
	q.leave(w, false, newcomer.Since)
	close(w.done)
	return true
}

// charge counts the work of a request that was booked at once. The caller holds pickMu.
func (q *queue) charge(s *Selection, work time.Duration, now time.Time) {
	s.charged, s.chargedAt = work, now
	q.line.Charge(s.parsed.hints.account(), s.weight, work, now)
}

// dues is what tenants have had besides what they were charged, until somebody holds
// pickMu anyway.
type dues struct {
	mu   sync.Mutex
	list []due
}

type due struct {
	tenant string
	weight float64
	// more is what the prefill took beyond what was charged for it at the time at: it
	// counts as from then, or giving back what was charged long ago would wipe out what
	// the tenant has had since.
	more time.Duration
	at   time.Time
	// generated is the work at the answer, which counts as of now.
	generated time.Duration
}

// maxDues bounds those that are not paid yet.
const maxDues = 256

// pay charges what is due. The caller holds pickMu.
func (q *queue) pay(now time.Time) {
	q.dues.mu.Lock()
	defer q.dues.mu.Unlock()
	for i := range q.dues.list {
		d := &q.dues.list[i]
		q.line.Charge(d.tenant, d.weight, d.generated, now)
		q.line.Charge(d.tenant, d.weight, d.more, d.at) // last: nobody has had less than nothing
	}
	clear(q.dues.list)
	q.dues.list = q.dues.list[:0]
}

// settleShare replaces what a tenant was charged for a request by what it had.
func (r *Router) settleShare(s *Selection, a *attempt, d *Decision, u Usage) {
	q := r.queue
	if q == nil || a.offer != nil || q.opts.Fair.HalfLife == 0 && q.count.Load() == 0 {
		return // what a tenant had is forgotten when nobody waits
	}
	now := r.opts.now()
	prefill, generated := a.worked(d, u, s.charged, now)
	more := prefill - s.charged
	if more == 0 && generated == 0 {
		return
	}
	q.dues.mu.Lock()
	q.dues.list = append(q.dues.list, due{s.parsed.hints.account(), s.weight, more, s.chargedAt, generated})
	full := len(q.dues.list) >= maxDues
	q.dues.mu.Unlock()
	if full {
		r.pickMu.Lock()
		defer r.pickMu.Unlock()
		q.pay(now)
	}
}

// maxWork bounds what one request is charged for: a Predictor may say never.
const maxWork = 10_000 * time.Hour

// worked is what an attempt that has ended took of its workers: the prefill, of which
// charged was expected, and the generation's part of the steps that it shared with
// others. Together they are within maxWork.
func (a *attempt) worked(d *Decision, u Usage, charged time.Duration, now time.Time) (prefill, generated time.Duration) {
	prefill = charged
	f := &a.computes().features
	if u.Known && u.CachedKnown && f.Uncached > 0 && !a.moved && !a.otherwise {
		const most = 100 // a report that is far off is somebody's mistake
		prefill = time.Duration(float64(charged) * min(float64(max(u.Uncached+u.CacheWrite, 0))/float64(f.Uncached), most))
	}
	prefill = min(prefill, maxWork)
	if a.ttft == 0 {
		return prefill, 0
	}
	generated = max(now.Sub(a.started)-a.ttft, 0)
	if w := d.Winner(); w != nil && w.PredictedITL > 0 && u.Known && u.Output > 0 {
		// A client that reads slowly takes no more of the worker.
		generated = min(generated, time.Duration(min(float64(u.Output)*float64(w.PredictedITL), float64(maxWork))))
	}
	return prefill, min(generated/time.Duration(1+max(a.features.Decoding, 0)), maxWork-prefill)
}
