package simulate

import (
	"slices"
)

// maxAttempts is how many workers the router tries ([kvsteer.DefaultMaxAttempts]).
const maxAttempts = 3

// refused reports whether a worker does not take a leg. A connection that is refused
// tells the router that the worker is down.
func (c *cluster) refused(l *Leg) bool {
	if c.workers[l.worker].down {
		l.job.via.views[l.worker].Up = false
		return true
	}
	return c.cfg.Faults.Failures > 0 && c.failures.Float64() < c.cfg.Faults.Failures
}

// failed gives up a call's attempt, because of one of its legs, and begins the next:
// while no token has come, on workers that have not failed it before.
func (c *cluster) failed(l *Leg) error {
	j := l.job
	c.end(j.Leg)
	if j.by != nil {
		c.end(j.by)
		// Nobody comes for what was computed. If it still is being computed, its end
		// is of no interest to anybody.
		c.agenda.plan(event{at: c.now + lease, kind: expire, by: j.by})
	}
	j.tried = append(j.tried, l.worker)
	if j.first > 0 || j.attempt >= maxAttempts {
		c.lose(j)
		return nil
	}
	return c.place(j)
}

// gone takes a leg off those that its worker is at.
func (c *cluster) gone(l *Leg) {
	w := &c.workers[l.worker]
	w.legs = slices.DeleteFunc(w.legs, func(o *Leg) bool { return o == l })
}

// crash takes a worker down: what is there fails, and its cache is lost. The router
// finds out by the next connection that is refused.
func (c *cluster) crash(i int) error {
	w := &c.workers[i]
	engine, err := w.spec.engine(c.pool == nil)
	if err != nil {
		return err
	}
	legs := w.legs
	*w = worker{spec: w.spec, engine: engine, life: w.life + 1, down: true}
	for _, r := range c.routers {
		r.crashed(i)
	}
	for _, l := range legs {
		if err := c.failed(l); err != nil {
			return err
		}
	}
	return nil
}

// restart brings a worker back as a new instance, of which routers know at once.
func (c *cluster) restart(i int) error {
	c.workers[i].down = false
	for _, r := range c.routers {
		r.restarted(i)
	}
	for _, r := range c.routers {
		if err := r.bind(); err != nil {
			return err
		}
	}
	return nil
}

// abandon ends the calls that wait for workers which never come back.
func (c *cluster) abandon() {
	for _, r := range c.routers {
		for _, j := range r.waiting {
			c.lose(j)
		}
		r.waiting = nil
	}
}
