package simulate

import (
	"fmt"
	"slices"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache"
)

// admit takes a call in and places it, or leaves it waiting in the router.
func (c *cluster) admit(j *Job) error {
	j.Arrived = c.now
	c.out.arrived(c.now)
	bs := c.state.Workers[0].BlockSize
	full := min(j.Call.Prompt/bs, len(j.Call.Blocks))
	c.tokens = tokensOf(c.tokens[:0], j.Call.Blocks[:full])
	j.keys = kvcache.Hasher{BlockSize: indexBlock}.Keys(make([]kvcache.Key, 0, full), c.tokens, kvcache.Scope{}, nil)
	if c.binder == nil {
		c.look(j)
		return c.send(j, c.rule.Pick(&c.state))
	}
	c.waiting = append(c.waiting, j)
	return c.bind()
}

// bind places waiting calls for as long as the rule wants to.
func (c *cluster) bind() error {
	for len(c.waiting) > 0 {
		c.state.Now = c.now
		i, w := c.binder.Bind(&c.state, c.waiting)
		if i < 0 {
			return nil
		}
		j := c.waiting[i]
		c.waiting = slices.Delete(c.waiting, i, i+1)
		if c.pool == nil {
			c.look(j)
		}
		if err := c.send(j, w); err != nil {
			return err
		}
	}
	return nil
}

// send books a call on a worker and submits it there.
func (c *cluster) send(j *Job, i int) error {
	if i < 0 || i >= len(c.workers) {
		return fmt.Errorf("the rule chose worker %d of %d", i, len(c.workers))
	}
	j.Sent = c.now
	j.req = sim.Request{Prompt: j.Call.Prompt, Output: j.Call.Output, Hashes: j.Call.Blocks, Tag: j}
	if c.pool != nil {
		v := &c.state.Workers[i]
		full := min(j.Call.Prompt/v.BlockSize, len(j.Call.Blocks))
		hits := c.pool.use(j.Call.Blocks[:full])
		v.CachedTokens = kvcache.CachedTokens(hits, v.BlockSize, j.Call.Prompt, false)
		j.req.Hashes, j.req.Remote = nil, v.CachedTokens
	}
	c.book(j, i)
	if err := c.workers[i].engine.Submit(&j.req); err != nil {
		return fmt.Errorf("a request of %d tokens: %w", j.Call.Prompt, err)
	}
	c.live++
	return c.kick(i)
}

// kick begins a worker's next step if it has one to do and does none.
func (c *cluster) kick(i int) error {
	w := &c.workers[i]
	if w.step != nil || w.engine.Idle() {
		return nil
	}
	s := w.engine.Step()
	if s.Scheduled == 0 {
		return fmt.Errorf("worker %d is stuck: its requests don't fit its cache", i)
	}
	w.step, w.ends = s, c.now+s.Duration
	w.events = c.notices(w.engine.TakeEvents())
	c.agenda.plan(event{at: c.now + s.Duration, kind: step, worker: i})
	return nil
}

// stepDone gives out what a step produced and begins the next.
func (c *cluster) stepDone(i int) error {
	w := &c.workers[i]
	outputs := w.step.Outputs
	w.step = nil
	if len(w.events) > 0 {
		if d := c.cfg.Faults.EventDelay; d > 0 {
			c.agenda.plan(event{at: c.now + d, kind: publish, worker: i, batch: w.events})
		} else {
			c.apply(c.owners[i], w.events)
		}
	}
	changed := false
	for n := range outputs {
		o := &outputs[n]
		j, ok := o.Request.Tag.(*Job)
		if !ok {
			continue
		}
		if o.Index == 0 {
			changed = true
			j.first = c.now
			c.firstToken(j)
			if c.observer != nil {
				c.observer.FirstToken(j, c.now-j.Sent)
			}
		}
		if o.Finished {
			c.finish(j)
		}
	}
	// The engine comes before the router's queue: a rule that waits for room must
	// see what the next step has taken in.
	if c.binder != nil && (changed || c.pool != nil) {
		if err := c.bind(); err != nil {
			return err
		}
	}
	return c.kick(i)
}

func (c *cluster) finish(j *Job) {
	c.end(j)
	c.live--
	c.out.finished(j, c.now)
	if c.pool != nil {
		made := (j.Call.Prompt + j.Call.Output - 1) / c.state.Workers[j.worker].BlockSize
		c.pool.use(j.Call.Blocks[:min(made, len(j.Call.Blocks))])
	}
	if a, ok := c.rule.(Auditor); ok {
		c.state.Now = c.now
		a.Done(&c.state, j, max(j.req.CachedTokens(), 0))
	}
	switch {
	case len(j.rest) > 0 && !c.over(c.now):
		c.agenda.plan(event{at: c.now, kind: arrive, job: &Job{
			Call: j.rest[0], rest: j.rest[1:], turn: j.turn + 1, closed: j.closed,
		}})
	case j.closed:
		c.user()
	default:
	}
}
