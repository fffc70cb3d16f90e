package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache"
)

// admit takes a call in and places it, or leaves it waiting in the router.
func (c *cluster) admit(j *Job) error {
	j.Arrived = c.now
	c.out.arrived(c.now)
	c.live++
	j.via = c.entrance()
	full := j.prompt(c.workers[0].spec.BlockSize)
	c.tokens = tokensOf(c.tokens[:0], full)
	j.keys = kvcache.Hasher{BlockSize: indexBlock}.Keys(make([]kvcache.Key, 0, len(full)), c.tokens, kvcache.Scope{}, nil)
	if t, ok := j.via.rule.(interface{ turns() time.Duration }); ok && t.turns() > 0 && j.via.number > 0 {
		c.agenda.plan(event{at: c.now + time.Duration(j.via.number)*t.turns(), kind: held, job: j})
		return nil
	}
	return c.place(j)
}

// place begins an attempt. Second attempts don't wait in the router.
func (c *cluster) place(j *Job) error {
	j.attempt++
	r := j.via
	if r.binder != nil && j.attempt == 1 {
		if !slices.ContainsFunc(r.views, func(v View) bool { return v.Up && v.answers() }) {
			c.lose(j)
			return nil
		}
		r.waiting = append(r.waiting, j)
		return r.bind()
	}
	s := r.look(j)
	if !slices.ContainsFunc(s.Workers, func(v View) bool { return v.answers() }) {
		c.lose(j)
		return nil
	}
	i := r.rule.Pick(s)
	if i < 0 || i >= len(s.Workers) {
		return fmt.Errorf("the rule chose worker %d of %d", i, len(s.Workers))
	}
	return c.send(j, s.Workers[i].index)
}

// bind places waiting calls for as long as the rule wants to.
func (r *router) bind() error {
	r.changed = false
	c := r.cluster
	for r.binder != nil && len(r.waiting) > 0 {
		r.state.Now, r.state.Workers, r.state.Attempt = c.now, r.views, 1
		i, w := r.binder.Bind(&r.state, r.waiting)
		if i < 0 {
			return nil
		}
		if w < 0 || w >= len(c.workers) {
			return fmt.Errorf("the rule chose worker %d of %d", w, len(c.workers))
		}
		j := r.waiting[i]
		r.waiting = slices.Delete(r.waiting, i, i+1)
		if c.pool == nil {
			r.look(j)
		}
		if err := c.send(j, w); err != nil {
			return err
		}
	}
	return nil
}

// send books a call on a worker, and on the one that computes its prompt if the rule
// wants that, and submits it.
func (c *cluster) send(j *Job, i int) error {
	j.began = c.now
	j.Leg = &Leg{job: j, worker: i, sent: c.now}
	j.req = sim.Request{Prompt: j.Call.Prompt, Output: j.Call.Output, Hashes: j.Call.Blocks, Tag: j.Leg}
	r := j.via
	v := &r.views[i]
	if c.pool != nil {
		hits := c.pool.use(j.prompt(v.BlockSize))
		v.CachedTokens = kvcache.CachedTokens(hits, v.BlockSize, j.Call.Prompt, false)
		j.req.Hashes, j.req.Remote = nil, v.CachedTokens
	}
	by := -1
	if relays, ok := r.rule.(Relayer); ok {
		by = relays.Relay()
	}
	if by < 0 {
		j.by = nil
		r.book(j.Leg, v.CachedTokens)
	} else {
		c.relay(j, by)
	}
	if c.pool == nil {
		c.expect(j)
	}
	if r.booker != nil {
		r.booker.Booked(j)
	}
	return c.submit(j.computes())
}

// submit sends a leg to its worker.
func (c *cluster) submit(l *Leg) error {
	w := &c.workers[l.worker]
	l.life = w.life
	if c.refused(l) {
		return c.failed(l)
	}
	if err := w.engine.Submit(&l.req); err != nil {
		return fmt.Errorf("a request of %d tokens: %w", l.job.Call.Prompt, err)
	}
	w.legs = append(w.legs, l)
	if l.booked == w.life {
		w.prefilling = append(w.prefilling, l)
	}
	return c.kick(l.worker)
}

// kick begins a worker's next step if it has one to do and does none.
func (c *cluster) kick(i int) error {
	w := &c.workers[i]
	if w.step != nil || w.engine.Idle() || w.down {
		return nil
	}
	s := w.engine.Step()
	c.fetch(s.Fetches)
	batch := c.batches(w.engine.TakeEvents())
	if s.Scheduled == 0 { // until the KV of others has come, or gone
		if w.engine.Fetching()+w.engine.Kept() == 0 {
			return fmt.Errorf("worker %d is stuck: its requests don't fit its cache", i)
		}
		c.publish(i, batch)
		return nil
	}
	w.step, w.ends, w.events = s, c.now+s.Duration, batch
	c.agenda.plan(event{at: c.now + s.Duration, kind: step, worker: i, life: w.life})
	return nil
}

// publish sends the events of a worker to the routers: to each a batch of its own, as
// each loses others.
func (c *cluster) publish(i int, batches [][]notice) {
	for n, batch := range batches {
		if len(batch) == 0 {
			continue
		}
		if d := c.cfg.Faults.EventDelay; d > 0 {
			c.agenda.plan(event{at: c.now + d, kind: publish, worker: i, life: c.workers[i].life, router: c.routers[n], batch: batch})
			continue
		}
		c.routers[n].apply(i, batch)
	}
}

// stepDone gives out what a step produced and begins the next.
func (c *cluster) stepDone(i int) error {
	w := &c.workers[i]
	outputs := w.step.Outputs // until the next step
	c.publish(i, w.events)
	for n := range outputs {
		o := &outputs[n]
		l, ok := o.Request.Tag.(*Leg)
		if !ok {
			continue
		}
		if o.Finished {
			w.legs = slices.DeleteFunc(w.legs, func(other *Leg) bool { return other == l })
		}
		if l == l.job.by {
			l.job.via.changed = true
			if err := c.handOver(l.job); err != nil {
				return err
			}
			continue
		}
		if l != l.job.Leg {
			continue // given up
		}
		if c.token(l.job, o.Index) {
			l.job.via.changed = true
			if err := c.unneeded(l.job); err != nil {
				return err
			}
		}
		if o.Finished {
			c.finish(l.job)
		}
	}
	w.step = nil
	// The engine comes before the router's queue: a rule that waits for room must
	// see what the next step has taken in.
	for _, r := range c.routers {
		if r.changed || c.pool != nil {
			if err := r.bind(); err != nil {
				return err
			}
		}
	}
	return c.kick(i)
}

// token counts a token of the answer, and reports whether it is the first.
func (c *cluster) token(j *Job, index int) bool {
	before := j.latest
	j.latest = c.now
	if index > 0 {
		c.out.token(j, c.now-before)
		return false
	}
	j.first = c.now
	c.firstToken(j.Leg)
	if r := j.via; r.observer != nil {
		r.observer.FirstToken(j, c.now-j.sent)
	}
	return true
}

func (c *cluster) finish(j *Job) {
	c.end(j.Leg)
	c.live--
	c.out.finished(j, c.now)
	if c.pool != nil {
		made := (j.Call.Prompt + j.Call.Output - 1) / c.workers[j.worker].spec.BlockSize
		c.pool.use(j.Call.Blocks[:min(made, len(j.Call.Blocks))])
	}
	if a, ok := j.via.rule.(Auditor); ok {
		j.via.state.Now = c.now
		a.Done(&j.via.state, j, max(j.req.CachedTokens(), 0))
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

// lose ends a call that nobody answers, or not to the end. Its session is over.
func (c *cluster) lose(j *Job) {
	c.live--
	c.out.lost(j)
	if l, ok := j.via.rule.(Loser); ok {
		l.Lost(j)
	}
	if j.closed {
		c.agenda.plan(event{at: c.now + retryAfter, kind: user})
	}
}

// retryAfter is when a user whose request has failed begins anew.
const retryAfter = time.Second
