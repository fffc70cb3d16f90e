package kvsteer

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/steer"
)

const (
	// DefaultGather is what [WithGather] is unless it is given.
	DefaultGather = 5 * time.Millisecond
	// mostGathered bounds how many a second wait for others, so that a router that is
	// asked by very many spends its time on choosing.
	mostGathered = 1000
)

// WithGather sets for how long at most Select waits for other requests that are in
// Select at the same moment, before a worker is chosen for any of them. In the order of
// arrival the first would take whatever worker suits it, be it by little, from one that
// it suits by far. Nobody waits who is there alone, and nobody longer than a hundredth of
// the time that his own prompt is expected to take, however many come meanwhile. The
// default is [DefaultGather]; 0 and less mean not at all. With [WithQueue] it has no effect:
// there, QueueOptions.Gather says it.
func WithGather(most time.Duration) Option {
	return optionFunc(func(o *options) { o.gather = most })
}

// moment gathers requests that are about to choose. All but coming and count is guarded
// by Router.pickMu.
type moment struct {
	most time.Duration
	// coming is the requests in Select that have not chosen, nor wait here.
	coming atomic.Int32
	count  atomic.Int32 // of those that wait here

	waiters []*gathered
	// room is how many are looked at together at most.
	room  int
	since time.Time // the second in which taken were gathered began
	taken int

	// kept for their memory
	order  steer.Moment
	all    []steer.Contender
	evs    []*evaluation
	places map[place]int
}

// gathered is a request that waits for others. What its done channel announces is
// written before that is closed, under pickMu.
type gathered struct {
	s         *Selection
	hesitates time.Duration
	due       time.Time // as timers go, whatever the router's clock; under pickMu
	// What was evaluated, with the choice's number or why there is none; or what a
	// user's Policy or Predictor panicked with.
	done  chan struct{}
	ev    *evaluation
	id    uint64
	err   *Error
	panic any
}

// comes notes that a request is in Select.
func (m *moment) comes() {
	if m != nil {
		m.coming.Add(1)
	}
}

// goes notes that a request leaves Select without having chosen.
func (r *Router) goes() {
	m := r.moment
	if m == nil || m.coming.Add(-1) > 0 || m.count.Load() == 0 {
		return
	}
	r.lockPick()
	defer r.pickMu.Unlock()
	r.together()
}

// arrives notes that s is about to choose, and reports whether others are there with
// which it may wait.
func (m *moment) arrives(s *Selection) bool {
	if m == nil || !s.coming {
		return false
	}
	s.coming = false
	if m.coming.Add(-1) <= 0 && len(m.waiters) == 0 {
		return false
	}
	if now := time.Now(); now.Sub(m.since) >= time.Second {
		m.since, m.taken = now, 0
	}
	return m.taken < mostGathered
}

// join lets s, evaluated in ev, wait for others; nil if that is not worth it. One that
// two workers may serve has more to it than a place in a line: the simulator loses by
// gathering those.
func (m *moment) join(s *Selection, ev *evaluation) *gathered {
	h := steer.Hesitation(ev.work(), m.most)
	if h <= 0 || ev.before != nil {
		return nil
	}
	g := &gathered{s: s, hesitates: h, due: time.Now().Add(h), done: make(chan struct{})}
	m.taken++
	m.room = steer.MostTogether(len(ev.Candidates))
	m.waiters = append(m.waiters, g)
	m.count.Store(int32(len(m.waiters)))
	return g
}

// leave reports false if g has left.
func (m *moment) leave(g *gathered) bool {
	i := slices.Index(m.waiters, g)
	if i < 0 {
		return false
	}
	m.waiters = slices.Delete(m.waiters, i, i+1)
	m.count.Store(int32(len(m.waiters)))
	return true
}

// together chooses for those that wait, if that is all that are coming, or as many as
// are looked at together; else for those whose time is over, and for those that are best
// chosen for before them. The caller holds pickMu.
func (r *Router) together() {
	for r.moment != nil && len(r.moment.waiters) > 0 && r.oneOfThem() {
		continue
	}
}

// oneOfThem reports whether it has chosen for one.
func (r *Router) oneOfThem() bool {
	m := r.moment
	if m.coming.Load() <= 0 || len(m.waiters) >= m.room {
		for _, g := range m.waiters {
			g.due = time.Time{}
		}
	}
	now := time.Now()
	if !m.anyDue(now) {
		return false
	}
	defer m.forget(r)
	for _, g := range m.waiters {
		if !r.ask(g) {
			return true // it is no longer there
		}
	}
	order := m.order.Order(m.all)
	for last, at := range slices.Backward(order) {
		if m.waiters[at].isDue(now) {
			for _, i := range order[:last] {
				m.waiters[i].due = time.Time{}
			}
			break
		}
	}
	first := order[0]
	ev := m.evs[first]
	m.evs[first] = nil // the request's
	r.serves(m.waiters[first], ev)
	return true
}

func (g *gathered) isDue(now time.Time) bool { return !now.Before(g.due) }

func (m *moment) anyDue(now time.Time) bool {
	for _, g := range m.waiters {
		if g.isDue(now) {
			return true
		}
	}
	return false
}

// ask evaluates one that waits, as a question. It reports false if that has made an end
// of it.
func (r *Router) ask(g *gathered) (asked bool) {
	m, ev := r.moment, r.evaluation()
	m.evs = append(m.evs, nil) // after a panic it is in any state
	defer g.panicked(m, &asked)
	r.evaluate(g.s, ev, 1, true)
	m.evs[len(m.evs)-1] = ev
	n := len(m.all)
	if n < cap(m.all) {
		m.all = m.all[:n+1]
	} else {
		m.all = append(m.all, steer.Contender{})
	}
	c := &m.all[n]
	c.Priority = g.s.parsed.hints.priority
	c.Bids = ev.Bids(c.Bids[:0], func(i int) (int, float64) {
		return m.indexOf(ev.refs[i].place(ev.places[i].Rank)), ev.Predictions[i].Prefill.Seconds()
	})
	return true
}

// indexOf numbers places.
func (m *moment) indexOf(p place) int {
	i, ok := m.places[p]
	if !ok {
		i = len(m.places)
		m.places[p] = i
	}
	return i
}

// serves books what was evaluated for g, which leaves.
func (r *Router) serves(g *gathered, ev *evaluation) {
	var done bool
	defer g.panicked(r.moment, &done)
	if len(ev.Plan.Order) > 0 {
		g.id = r.commit(g.s, ev, 1, true)
	}
	if g.id == 0 {
		g.err = r.nobody(g.s, ev)
	}
	g.ev, done = ev, true
	r.moment.leave(g)
	close(g.done)
}

// panicked hands on what user code panicked with: this goroutine is not the one to tell.
func (g *gathered) panicked(m *moment, ok *bool) {
	if *ok {
		return
	}
	if p := recover(); p != nil {
		g.panic = p
		if m.leave(g) {
			close(g.done)
		}
	}
}

// forget gives back what was evaluated and is nobody's.
func (m *moment) forget(r *Router) {
	for i, ev := range m.evs {
		if ev != nil {
			r.release(ev)
		}
		m.evs[i] = nil
	}
	clear(m.places)
	m.evs, m.all = m.evs[:0], m.all[:0]
}

// wait waits until g is chosen for, and returns the choice, which the caller releases.
// With an error there is none, or what the error is about.
func (g *gathered) wait(ctx context.Context, r *Router) (uint64, *evaluation, *Error) {
	began := r.opts.now()
	timer := time.NewTimer(g.hesitates)
	defer timer.Stop()
	for {
		var err *Error
		select {
		case <-g.done:
			g.s.waited = r.opts.now().Sub(began)
			return g.chosen()
		case <-timer.C:
			r.isDue()
			timer.Reset(time.Millisecond) // user code may have ended a look at them
			continue
		case <-ctx.Done():
			err = canceled(ctx)
		case <-r.stop:
			err = &Error{Code: CodeClosed, Message: "the router was closed"}
		}
		if r.withdraw(g) {
			return 0, nil, err
		}
		if _, ev, failed := g.chosen(); failed == nil { // at the last moment, and nobody wants it any more
			r.release(ev) // and Select the booking
			return 0, nil, err
		}
		return g.chosen()
	}
}

// chosen is what g was given.
func (g *gathered) chosen() (uint64, *evaluation, *Error) {
	<-g.done
	if g.panic != nil {
		panic(g.panic)
	}
	return g.id, g.ev, g.err
}

// withdraw reports false if g has been chosen for.
func (r *Router) withdraw(g *gathered) bool {
	r.pickMu.Lock()
	defer r.pickMu.Unlock()
	return r.moment.leave(g)
}

// isDue looks at those whose time is over, if nobody has the lock: who has it may be at
// that very thing, and many that wait for it would keep everybody from it.
func (r *Router) isDue() {
	if !r.pickMu.TryLock() {
		return
	}
	defer r.pickMu.Unlock()
	r.together()
}
