package prompt

import "context"

// flight is one run of the chain for one prompt, however many requests wait for
// it. It belongs to the Encoder rather than to the request that began it: that
// client may leave while the others stay.
type flight struct {
	done  chan struct{} // closed when enc and found are set
	enc   Encoding
	found bool
}

// join waits for the flight of a prompt, and starts it if there is none.
func (e *Encoder) join(ctx context.Context, r *Request, key cacheKey) (Encoding, bool) {
	if ctx.Err() != nil {
		return e.unasked(errCanceled), false
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return e.unasked(errClosed), false
	}
	f, ok := e.flights[key]
	if ok {
		e.joined++
	} else {
		f = &flight{done: make(chan struct{})}
		e.flights[key] = f
		e.running.Add(1)
		go e.fly(context.WithoutCancel(ctx), f, r, key)
	}
	e.mu.Unlock()
	select {
	case <-f.done:
		return f.enc, f.found
	case <-ctx.Done():
		return e.unasked(errCanceled), false
	}
}

func (e *Encoder) fly(ctx context.Context, f *flight, r *Request, key cacheKey) {
	defer e.running.Done()
	ctx, cancel := context.WithTimeout(ctx, e.opts.deadline(len(r.Object.Bytes())))
	defer cancel()
	stop := context.AfterFunc(e.root, cancel)
	defer stop()
	f.enc, f.found = e.run(ctx, r)
	if f.found {
		e.cache.put(key, f.enc)
	}
	e.mu.Lock()
	delete(e.flights, key)
	e.mu.Unlock()
	close(f.done)
}

// unasked is the answer when the sources were not waited for.
func (e *Encoder) unasked(why ReasonError) Encoding {
	var out Encoding
	for _, s := range e.chain {
		note(&out.Degraded, s.Kind(), why)
	}
	return out
}
