package simulate

import (
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache"
)

// Job is a call on its way.
type Job struct {
	// Leg is the worker that answers. It has none while it waits in the router.
	*Leg

	Call *Call
	// Arrived is when the call came.
	Arrived time.Duration

	via     *router // that it came to
	rest    []*Call // the session's later calls
	turn    int     // how many came before
	closed  bool    // a user of the closed loop waits for it
	keys    []kvcache.Key
	by      *Leg          // who computes the prompt for it; nil if it does so itself
	attempt int           // counts from 1
	tried   []int         // workers on which an attempt has failed
	began   time.Duration // when the attempt did
	first   time.Duration // when the first token came
	latest  time.Duration // when the last one so far came
	draw    uint64        // what the policy may draw by; 0 until the product has been asked
	note    any           // the rule's own
}

// Leg is what an attempt has on one worker.
type Leg struct {
	job    *Job
	req    sim.Request
	worker int
	// booked and life tell the worker's restarts apart: when it was booked, and when
	// it was sent.
	booked, life int
	sent         time.Duration
	phase        phase
	cached       int // tokens, as the router expected
	// unheard is the tokens of other routers that came to be known within moments.
	unheard int
	work    int // tokens to compute, as the router expected
	pairs   int64
}

// phase is what the router has booked of a leg.
type phase uint8

const (
	fresh phase = iota
	coming
	prefilling
	decoding
	ended
)

// computes is the leg on which the prompt is computed.
func (j *Job) computes() *Leg {
	if j.by != nil {
		return j.by
	}
	return j.Leg
}

// prompt returns the blocks that the prompt fills.
func (j *Job) prompt(blockSize int) []uint64 {
	return j.Call.Blocks[:min(j.Call.Prompt/blockSize, len(j.Call.Blocks))]
}

// bookTTL is the router's, but for as long as the first token is expected to take
// it must not end.
const (
	bookTTL    = time.Minute
	lateFactor = 2
)

// expect books the blocks where the prompt is computed.
func (c *cluster) expect(j *Job) {
	r, at := j.via, j.computes().worker
	v := &r.views[at]
	ttl := bookTTL
	if v.PrefillTokens <= v.CapacityBlocks*v.BlockSize { // else it is going to be evicted before
		ttl = max(ttl, lateFactor*r.expects(j.worker))
	}
	r.index.Book(v.Owner, j.keys, ttl)
	r.tellOf(at, j.keys, ttl)
}

// expects is when the call's first token is expected: by the rule, or by who knows.
func (r *router) expects(i int) time.Duration {
	if p, ok := r.rule.(interface{ expects() time.Duration }); ok {
		return p.expects()
	}
	return trueTTFT(&r.state, &r.views[i])
}

// firstToken tells the router of a leg's first token.
func (c *cluster) firstToken(l *Leg) {
	was := l.phase
	l.phase = decoding
	w := &c.workers[l.worker]
	if l.booked != w.life {
		return // on an instance that is gone
	}
	l.job.via.began(l, was)
	w.prefilling = slices.DeleteFunc(w.prefilling, func(o *Leg) bool { return o == l })
	w.context += l.job.Call.Prompt
}

// end lets the router forget a leg.
func (c *cluster) end(l *Leg) {
	was := l.phase
	l.phase = ended
	w := &c.workers[l.worker]
	if was == fresh || was == ended || l.booked != w.life {
		return // never booked, or on an instance that is gone
	}
	l.job.via.forget(l, was)
	if was != decoding {
		w.prefilling = slices.DeleteFunc(w.prefilling, func(o *Leg) bool { return o == l })
	} else {
		w.context -= l.job.Call.Prompt
	}
}

// pairs is the attention work of computing uncached tokens behind cached ones.
func pairs(uncached, cached int) int64 {
	u, c := int64(uncached), int64(cached)
	return u*c + u*(u+1)/2
}
