package simulate

import (
	"time"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache"
)

// A call that is served by two workers: one computes the prompt and generates one
// token; then the other is asked, gives the call its blocks and fetches what it has
// not cached itself; then it computes the last token, and answers. What was computed
// is held meanwhile.

// Relayer is a Rule that may have a prompt computed by another worker than that
// which answers.
type Relayer interface {
	// Relay is which, for the choice made last; -1 if it computes the prompt itself.
	Relay() int
}

// HandOver is a Relayer that is told of the prompt's leg.
type HandOver interface {
	// Handed tells how long the prompt took from when it was sent, and how many of
	// its tokens the engine reports as cached.
	Handed(s *State, j *Job, took time.Duration, cached int)
}

// lease is how long KV is held for a worker that doesn't come for it (vLLM's).
const lease = 30 * time.Second

// relay books both legs of a call whose prompt is computed by another worker.
func (c *cluster) relay(j *Job, by int) {
	r := j.via
	v := &r.views[j.worker]
	ready := kvcache.CachedTokens(j.Call.Prompt, v.BlockSize, j.Call.Prompt, false)
	j.by = &Leg{job: j, worker: by, sent: c.now}
	r.book(j.Leg, max(ready, v.CachedTokens))
	p := &r.views[by]
	r.book(j.by, p.CachedTokens)
	j.by.req = sim.Request{Prompt: j.Call.Prompt, Output: 1, Hashes: j.prompt(p.BlockSize), Keep: true, Tag: j.by}
	// What comes is whole blocks.
	j.req.Remote, j.req.Fetch = j.Call.Prompt/v.BlockSize*v.BlockSize, true
}

// handOver sends a call on to the worker that answers, once its prompt is computed.
func (c *cluster) handOver(j *Job) error {
	l := j.by
	c.firstToken(l) // the next in line has begun
	c.end(l)
	if h, ok := j.via.rule.(HandOver); ok {
		j.via.state.Now = c.now
		h.Handed(&j.via.state, j, c.now-l.sent, max(l.req.CachedTokens(), 0))
	}
	j.sent = c.now
	return c.submit(j.Leg)
}

// fetch lets the KV of computed prompts be on its way.
func (c *cluster) fetch(list []sim.Fetch) {
	for _, f := range list {
		l, ok := f.Request.Tag.(*Leg)
		if !ok {
			continue
		}
		takes := time.Duration(0)
		if c.cfg.TransferRate > 0 {
			takes = time.Duration(float64(f.Tokens) / c.cfg.TransferRate * float64(time.Second))
		}
		c.agenda.plan(event{at: c.now + takes, kind: fetched, leg: l, by: l.job.by})
	}
}

// arrived lets a call begin whose prompt's KV is there. If who computed it has
// crashed meanwhile the call fails, and the blame is on the worker that fetched.
func (c *cluster) arrived(l, by *Leg) error {
	w := &c.workers[l.worker]
	if l.phase == ended || l.life != w.life {
		return nil // it has failed already, and the lease ends by itself
	}
	if by.life != c.workers[by.worker].life {
		w.engine.Cancel(&l.req)
		c.gone(l)
		if err := c.failed(l); err != nil {
			return err
		}
		return c.kick(l.worker)
	}
	w.engine.Fetched(&l.req)
	if err := c.release(by); err != nil {
		return err
	}
	return c.kick(l.worker)
}

// unneeded gives back what was kept for a call that found all of its prompt where it
// is answered, and fetched nothing.
func (c *cluster) unneeded(j *Job) error {
	if j.by == nil {
		return nil
	}
	return c.release(j.by)
}

// release gives back the blocks that were kept for another worker.
func (c *cluster) release(by *Leg) error {
	w := &c.workers[by.worker]
	if by.life != w.life || !w.engine.Release(&by.req) {
		return nil
	}
	return c.kick(by.worker)
}
