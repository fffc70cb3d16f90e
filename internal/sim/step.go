package sim

import (
	"slices"
	"time"
)

// Output is one token that a step produced.
type Output struct {
	Request *Request
	// Index counts the request's output tokens from 0; 0 is the first token.
	Index int
	// Finished is set on the last.
	Finished bool
}

// Step is one forward pass: what it costs and what it yields at its end. It
// belongs to the engine and is valid until the next call of [Engine.Step].
type Step struct {
	// Duration is how long the pass takes; 0 when there was nothing to compute.
	Duration time.Duration
	// Load is what it computes.
	Load Load
	// Outputs are the tokens, in the order in which the requests were scheduled.
	Outputs []Output
	// Scheduled is the number of requests in the pass.
	Scheduled int
	// Fetches are the requests that wait from the beginning of the pass on for KV that
	// another engine has computed. There may be some also when nothing is computed.
	Fetches []Fetch

	batch []*Request
}

// Step plans the next pass and carries it out: the engine's state afterwards is
// that at the end of the pass, Duration later. Requests submitted or cancelled
// while that time passes take part in the next one. Events of the pass are
// published by engines at its end.
func (e *Engine) Step() *Step {
	s := &e.step
	clear(s.Outputs)
	clear(s.batch)
	clear(s.Fetches)
	*s = Step{Outputs: s.Outputs[:0], Fetches: s.Fetches[:0], batch: s.batch[:0]}
	if e.Idle() {
		return s
	}
	e.plan(s)
	e.execute(s)
	return s
}

// plan chooses what to compute: first one token for everybody who decodes, then
// prompts begun earlier, then new ones, as far as the token budget and the
// blocks reach. Decodes may take blocks from the youngest requests; prompts wait.
func (e *Engine) plan(s *Step) {
	budget := e.cfg.TokenBudget
	preempted := e.planDecodes(s, &budget)
	for {
		for _, r := range e.running {
			if budget == 0 {
				break
			}
			if r.scheduled > 0 || r.decoding() {
				continue
			}
			if n := min(r.remaining(), budget); e.grow(r, n) {
				e.schedule(s, r, n, &budget)
			}
		}
		// Prompts that hold each other up: the youngest makes room.
		if len(s.batch) > 0 || len(e.running) == 0 {
			break
		}
		e.preempt(e.running[len(e.running)-1])
		preempted = true
	}
	if !preempted || len(s.batch) == 0 {
		e.admit(s, &budget)
	}
}

// planDecodes schedules the decoding requests and reports whether any request
// was preempted for them.
func (e *Engine) planDecodes(s *Step, budget *int) bool {
	preempted := false
	for i := 0; i < len(e.running) && *budget > 0; i++ {
		r := e.running[i]
		if !r.decoding() {
			continue
		}
		for !e.grow(r, 1) {
			victim := e.running[len(e.running)-1]
			e.preempt(victim)
			preempted = true
			if victim == r {
				return preempted
			}
		}
		e.schedule(s, r, 1, budget)
	}
	return preempted
}

// admit takes requests from the queue in order while there is room for them. A
// request is admitted only if its whole prompt fits into the free blocks, so
// that prompts don't crowd each other out halfway.
func (e *Engine) admit(s *Step, budget *int) {
	e.admitReady(s, budget)
	for *budget > 0 && e.queue.len() > 0 && len(e.running) < e.cfg.MaxRunning {
		r := e.queue.front()
		hits := 0
		if !e.cfg.NoPrefixCache {
			hits = e.pool.hits(r.Hashes, r.known(), e.cfg.BlockSize, e.cfg.Speculative)
		}
		need := e.blocksFor(r.known()) - hits
		for _, hash := range r.Hashes[:hits] {
			if i, _ := e.pool.lookup(hash); e.pool.blocks[i].free {
				need++ // a hit on a free block takes it off the free list
			}
		}
		if need > e.pool.free {
			return
		}
		e.queue.pop()
		if e.start(s, r, hits); r.state == fetching {
			continue
		}
		if n := min(r.remaining(), *budget); e.grow(r, n) {
			e.schedule(s, r, n, budget)
		}
	}
}

// start gives a request its hits and moves it into the batch, or lets it wait for
// what another engine has computed.
func (e *Engine) start(s *Step, r *Request, hits int) {
	r.state = running
	if r.blocks == nil && len(e.spare) > 0 {
		r.blocks = e.spare[len(e.spare)-1]
		e.spare = e.spare[:len(e.spare)-1]
	}
	for _, hash := range r.Hashes[:hits] {
		i, _ := e.pool.lookup(hash)
		e.pool.touch(i)
		r.blocks = append(r.blocks, i)
	}
	r.cached, r.computed = hits, hits*e.cfg.BlockSize
	local := r.computed
	// What is sent from elsewhere is there once; after a preemption it is computed.
	if remote := min(r.Remote, r.Prompt-1); !r.started && remote > local {
		if r.Fetch && e.grow(r, r.Prompt-local) {
			e.fetch(s, r, remote-local)
		} else if !r.Fetch && e.grow(r, remote-local) {
			r.computed = remote
			if !e.cfg.InsertAfterPrefill {
				e.store(r, remote)
			}
		}
	}
	if !r.started {
		r.started, r.hit = true, r.computed
		e.stats.QueriedTokens += uint64(r.Prompt)
		e.stats.HitTokens += uint64(local)
		e.stats.RemoteTokens += uint64(r.computed - local)
	}
	if r.state == running {
		e.running = append(e.running, r)
	}
}

// grow gives a request the blocks for n more tokens, all or none.
func (e *Engine) grow(r *Request, n int) bool {
	need := e.blocksFor(r.computed+n) - len(r.blocks)
	if need > e.pool.free {
		return false
	}
	for range need {
		r.blocks = append(r.blocks, e.pool.take())
	}
	return true
}

// schedule enters n tokens of a request into the step.
func (e *Engine) schedule(s *Step, r *Request, n int, budget *int) {
	*budget -= n
	r.scheduled = n
	if r.decoding() {
		s.Load.decode(r.computed)
		e.stats.DecodeTokens++
	} else {
		s.Load.prefill(r.computed, n)
		e.stats.PrefillTokens += uint64(n)
	}
	s.batch = append(s.batch, r)
	if !e.cfg.InsertAfterPrefill {
		e.store(r, r.computed+n)
	}
}

// preempt throws a running request back to the head of the queue. What it
// computed stays reusable for as long as its blocks last.
func (e *Engine) preempt(r *Request) {
	e.running = e.running[:len(e.running)-1]
	e.releaseBlocks(r)
	r.state = waiting
	r.computed = 0
	r.preempted++
	e.stats.Preempted++
	e.queue.unpop(r)
}

// releaseBlocks gives a request's blocks back, tail first, and keeps the emptied
// list for another request.
func (e *Engine) releaseBlocks(r *Request) {
	for _, v := range slices.Backward(r.blocks) {
		e.pool.release(v)
	}
	if r.blocks != nil {
		e.spare = append(e.spare, r.blocks[:0])
	}
	r.blocks, r.cached = nil, 0
}

// store makes the request's full blocks within its first n tokens reusable and
// records the event.
func (e *Engine) store(r *Request, n int) {
	if e.cfg.NoPrefixCache {
		return
	}
	full := min(n/e.cfg.BlockSize, len(r.Hashes))
	from := r.cached
	if from >= full {
		return
	}
	r.cached = full
	if !e.cfg.InsertAfterPrefill {
		for i := from; i < full; i++ {
			e.pool.register(r.blocks[i], r.Hashes[i])
		}
		e.stored(r, from, full)
		return
	}
	// A radix tree holds each block once: what another request inserted meanwhile
	// replaces the request's own copy. Only runs of new blocks are announced.
	run := from
	for i := from; i < full; i++ {
		other, exists := e.pool.lookup(r.Hashes[i])
		if !exists {
			e.pool.register(r.blocks[i], r.Hashes[i])
			continue
		}
		e.pool.touch(other)
		e.pool.release(r.blocks[i])
		r.blocks[i] = other
		e.stored(r, run, i)
		run = i + 1
	}
	e.stored(r, run, full)
}

// stored records the event for the request's blocks from..to, if there are any.
func (e *Engine) stored(r *Request, from, to int) {
	if from >= to || e.cfg.NoEvents {
		return
	}
	event := Event{
		Kind: BlockStored, Hashes: r.Hashes[from:to:to], First: from,
		BlockSize: e.cfg.BlockSize, Request: r,
	}
	if from > 0 {
		event.Parent, event.HasParent = r.Hashes[from-1], true
	}
	if end := to * e.cfg.BlockSize; end <= len(r.Tokens) {
		event.Tokens = r.Tokens[from*e.cfg.BlockSize : end : end]
	}
	e.pool.log.add(event)
}

// execute carries out the plan: every request whose known tokens are now all
// computed gets one more.
func (e *Engine) execute(s *Step) {
	done := false
	for _, r := range s.batch {
		r.computed += r.scheduled
		r.scheduled = 0
		if r.remaining() > 0 {
			continue
		}
		if e.cfg.InsertAfterPrefill && r.generated == 0 {
			e.store(r, r.computed)
		}
		r.generated++
		e.stats.Generated++
		last := r.generated == r.Output
		s.Outputs = append(s.Outputs, Output{Request: r, Index: r.generated - 1, Finished: last})
		if last {
			e.finish(r)
			done = true
		}
	}
	if done {
		e.compact()
	}
	s.Scheduled = len(s.batch)
	if s.Scheduled > 0 {
		e.stats.Steps++
		s.Duration = e.cfg.Timing.Duration(s.Load)
	}
}

// finish ends a request; compact takes it off the batch.
func (e *Engine) finish(r *Request) {
	if e.cfg.InsertAfterPrefill {
		e.store(r, r.computed)
	}
	e.stats.Finished++
	if r.Keep {
		r.state = kept
		e.kept++
		return
	}
	e.releaseBlocks(r)
	r.state = finished
}

// compact removes the finished requests from the batch, in order.
func (e *Engine) compact() {
	kept := e.running[:0]
	for _, r := range e.running {
		if r.state == running {
			kept = append(kept, r)
		}
	}
	clear(e.running[len(kept):])
	e.running = kept
}
