package classify

import (
	"context"
	"errors"
	"fmt"
)

// round is one request on its way through a Set. It is used again: what a
// goroutine may still hold when the round is over is never part of it.
type round struct {
	set   *Set
	ctx   context.Context //nolint:containedctx // of one call, ended with it
	in    *Input
	calls []call
	copy  *Input // of in, for those that may outlive the call

	spans   []span
	digests [][2]uint64
	inputs  []Input
	results []Result
	pending []int
}

// span is a message: the parts from first to next.
type span struct{ first, next int }

// call is a member at work on a request.
type call struct {
	*member

	whole Result // what a classifier of whole requests said
	// verdicts are what one of messages said, as far as it is known.
	verdicts []verdict
	known    []bool
	err      error

	ctx    context.Context //nolint:containedctx // of the goroutine
	cancel context.CancelFunc
	answer chan answer // nil when there is nothing to wait for
}

// answer is what a goroutine brings back.
type answer struct {
	whole    Result
	pending  []int // the messages that were asked about
	verdicts []verdict
	known    []bool
	err      error
}

func (s *Set) round(ctx context.Context, in *Input) *round {
	r, isRound := s.pool.Get().(*round)
	if !isRound {
		r = new(round)
	}
	r.set, r.ctx, r.in = s, ctx, in
	r.spans, r.digests = r.spans[:0], r.digests[:0]
	for i := 0; i < len(in.Parts); {
		parts, next := in.message(i)
		r.spans = append(r.spans, span{i, next})
		if s.cache != nil {
			r.digests = append(r.digests, s.cache.digest(parts))
		}
		i = next
	}
	return r
}

// done ends the round, which then refers to nothing of the request.
func (s *Set) done(r *round) {
	for i := range r.calls {
		c := &r.calls[i]
		if c.cancel != nil {
			c.cancel()
		}
		clear(c.verdicts)
		c.whole.Reset()
		*c = call{whole: c.whole, verdicts: c.verdicts[:0], known: c.known[:0]}
	}
	clear(r.inputs)
	r.set, r.ctx, r.in, r.copy, r.calls = nil, nil, nil, nil, r.calls[:0]
	s.pool.Put(r)
}

// call adds a member to those that are asked.
func (r *round) call(m *member) {
	if n := len(r.calls); n < cap(r.calls) {
		r.calls = r.calls[:n+1]
		r.calls[n].member = m
		return
	}
	r.calls = append(r.calls, call{member: m})
}

// recall fills in what is known about messages, and lists the others in pending.
func (r *round) recall(c *call) {
	r.pending = r.pending[:0]
	c.verdicts, c.known = c.verdicts[:0], c.known[:0]
	for i := range r.spans {
		var v verdict
		ok := false
		if r.set.cache != nil {
			v, ok = r.set.cache.get(cacheKey{digest: r.digests[i], member: int32(c.index)})
		}
		c.verdicts, c.known = append(c.verdicts, v), append(c.known, ok)
		if !ok {
			r.pending = append(r.pending, i)
		}
	}
}

// remember keeps what a result says about message i.
func (s *Set) remember(m *member, digests [][2]uint64, i int, result *Result) (verdict, bool) {
	v, ok := verdictOf(m.Tags(), result)
	if ok && s.cache != nil {
		s.cache.add(cacheKey{digest: digests[i], member: int32(m.index)}, v)
	}
	return v, ok
}

// here calls a member that takes no longer than the text's length allows.
func (r *round) here(c *call) {
	if c.messages == nil {
		if c.err = guarded(func() error { return c.Classify(r.ctx, r.in, &c.whole) }); c.err != nil {
			c.whole.Reset()
		}
		return
	}
	r.recall(c)
	if len(r.pending) == 0 {
		return
	}
	r.inputs = r.inputs[:0]
	for _, i := range r.pending {
		r.inputs = append(r.inputs, r.part(i, r.in))
	}
	for len(r.results) < len(r.inputs) {
		r.results = append(r.results, Result{})
	}
	results := r.results[:len(r.inputs)]
	for i := range results {
		results[i].Reset()
	}
	c.err = guarded(func() error { return c.messages.ClassifyMessages(r.ctx, r.inputs, results) })
	if errors.Is(c.err, ErrPanic) {
		return
	}
	for k, i := range r.pending {
		c.verdicts[i], c.known[i] = r.set.remember(c.member, r.digests, i, &results[k])
	}
}

// part is a message as a request of its own.
func (r *round) part(i int, of *Input) Input {
	return Input{API: of.API, Model: of.Model, Parts: of.Parts[r.spans[i].first:r.spans[i].next]}
}

// start calls a member in a goroutine of its own.
func (r *round) start(c *call) {
	if c.messages != nil {
		r.recall(c)
		if len(r.pending) == 0 {
			return
		}
	}
	if c.underWay.Add(1) > c.most {
		c.underWay.Add(-1)
		c.err = ErrBusy
		return
	}
	if r.copy == nil {
		r.copy = r.in.clone()
	}
	c.ctx, c.cancel = context.WithTimeout(r.ctx, c.timeout)
	c.answer = make(chan answer, 1)
	j := job{set: r.set, member: c.member, in: r.copy, answer: c.answer}
	if c.messages != nil {
		j.pending = append(j.pending, r.pending...)
		for _, i := range j.pending {
			j.inputs = append(j.inputs, r.part(i, r.copy))
		}
		j.digests = append(j.digests, r.digests...)
	}
	go j.run(c.ctx)
}

// wait waits for the goroutine of a member, and not longer than it may.
func (r *round) wait(c *call) {
	if c.answer == nil {
		return
	}
	var a answer
	select {
	case a = <-c.answer:
	case <-c.ctx.Done():
		select {
		case a = <-c.answer: // just in time
		default:
			c.err = c.ctx.Err()
			return
		}
	}
	c.whole, c.err = a.whole, a.err
	for k, i := range a.pending {
		c.verdicts[i], c.known[i] = a.verdicts[k], a.known[k]
	}
}

// job is all that a goroutine needs, and may hold for longer than the round lasts.
type job struct {
	set     *Set
	member  *member
	in      *Input
	inputs  []Input
	digests [][2]uint64
	pending []int
	answer  chan<- answer
}

func (j *job) run(ctx context.Context) {
	defer j.member.underWay.Add(-1)
	a := answer{pending: j.pending}
	if j.member.messages == nil {
		a.err = guarded(func() error { return j.member.Classify(ctx, j.in, &a.whole) })
		if a.err != nil {
			a.whole.Reset()
		}
	} else {
		results := make([]Result, len(j.inputs))
		a.err = guarded(func() error { return j.member.messages.ClassifyMessages(ctx, j.inputs, results) })
		a.verdicts, a.known = make([]verdict, len(results)), make([]bool, len(results))
		for k, i := range j.pending {
			if !errors.Is(a.err, ErrPanic) { // what it had said until then is kept even if nobody waits for it
				a.verdicts[k], a.known[k] = j.set.remember(j.member, j.digests, i, &results[k])
			}
		}
	}
	j.answer <- a
}

// ofDeadlines makes an [ErrDeadline] of the context's errors, which stay visible.
func ofDeadlines(err error) error {
	for _, ended := range [...]error{context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, ended) {
			return fmt.Errorf("%w: %w", ErrDeadline, ended)
		}
	}
	return err
}

// guarded turns a panic of user code into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if recover() != nil {
			err = ErrPanic
		}
	}()
	return f()
}
