package sim

// Fetch is a request that has its blocks and waits until another engine's KV is in
// them.
type Fetch struct {
	Request *Request
	// Tokens is how many come: those that the request did not find here.
	Tokens int
}

// fetch begins to fill the blocks of a request that was just started. It joins the
// batch once all is there.
func (e *Engine) fetch(s *Step, r *Request, tokens int) {
	r.state = fetching
	r.computed += tokens
	e.fetching = append(e.fetching, r)
	s.Fetches = append(s.Fetches, Fetch{Request: r, Tokens: tokens})
}

// Fetched says that a [Fetch] has ended well: the request takes part in the next
// step. It reports false for one that no longer waits, as it was cancelled.
func (e *Engine) Fetched(r *Request) bool {
	if r.state != fetching {
		return false
	}
	e.fetching = without(e.fetching, r)
	r.state = waiting
	e.ready = append(e.ready, r)
	if !e.cfg.InsertAfterPrefill {
		e.store(r, r.computed)
	}
	return true
}

// Fetching returns the number of requests that wait for KV from elsewhere.
func (e *Engine) Fetching() int { return len(e.fetching) }

// Kept returns the number of finished requests whose blocks another engine may
// still read.
func (e *Engine) Kept() int { return e.kept }

// Release gives back the blocks of a finished request that has Keep; what they hold
// can still be reused. It reports whether they were kept until now.
func (e *Engine) Release(r *Request) bool {
	if r.state != kept {
		return false
	}
	r.state = finished
	e.kept--
	e.releaseBlocks(r)
	return true
}

// admitReady takes those whose KV has come into the batch, before whoever waits.
func (e *Engine) admitReady(s *Step, budget *int) {
	n := 0
	for n < len(e.ready) && *budget > 0 && len(e.running) < e.cfg.MaxRunning {
		r := e.ready[n]
		n++
		r.state = running
		e.running = append(e.running, r)
		// All of the prompt has its blocks already.
		e.schedule(s, r, min(r.remaining(), *budget), budget)
	}
	e.ready = append(e.ready[:0], e.ready[n:]...)
}

// without removes r from a list, in place.
func without(list []*Request, r *Request) []*Request {
	for i, other := range list {
		if other == r {
			copy(list[i:], list[i+1:])
			list[len(list)-1] = nil
			return list[:len(list)-1]
		}
	}
	return list
}
