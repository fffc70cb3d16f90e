package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// workers are the engines, and what happens to them.
type workers struct {
	rig       *rig
	injected  *injected
	blocks    int
	strangers *strangers // nil if none come
	kinds     int        // as many as there are workers at a time, so that there are always the same

	busy sync.Mutex // something happens to one

	mu       sync.Mutex
	running  []*engine      // the oldest first
	made     int            // engines, ever
	did      map[string]int // what happened, how often
	happened int            // all of it together
	adapters []string       // that requests may ask for
	asked    map[string]int // requests under way, by adapter
}

// engine is a worker with what it serves.
type engine struct {
	*fleettest.Engine

	kind     int
	adapters []string
	// gap is what was done to the events of the present life that no replay makes good, ""
	// if nothing was. workers.mu guards it.
	gap string
}

// Kinds of engines; the others are vLLM with one rank.
const (
	kindRanks  = 1
	kindSGLang = 2
	kindTRTLLM = 3
	kindSilent = 4 // it says nothing, and is followed by what is sent to it
)

// window is how many adapters a worker has. Each newer worker has one new one and not the
// oldest, so that adapters come and go with workers.
const window = 4

func adapter(n int) string { return fmt.Sprintf("adapter-%d", n) }

// outputTokens is how long answers are: enough to be streams that can be cut off.
const outputTokens = 4

// start adds a worker; l is where it listens, nil for a port of its own. Kinds of engines
// come in turn.
func (w *workers) start(ctx context.Context, l net.Listener) error {
	w.mu.Lock()
	w.made++
	n := w.made
	w.mu.Unlock()
	if l == nil {
		var err error
		if l, err = listenLow(ctx); err != nil {
			return err
		}
	}
	c := fleettest.Config{
		Name: fmt.Sprintf("worker-%d", n), Model: base, Blocks: w.blocks, Speed: 40, OutputTokens: outputTokens,
		Listener: l, Record: -1, Seed: uint64(n),
	}
	events := &publishers{at: map[int]follow.Endpoint{}}
	c.OpenPublisher = events.open
	e := &engine{kind: n % w.kinds}
	switch e.kind {
	case kindRanks:
		c.Ranks = 2
	case kindSGLang:
		c.Dialect = fleettest.SGLang
	case kindTRTLLM:
		c.Dialect, c.Render, c.OpenPublisher = fleettest.TensorRTLLM, true, nil
	case kindSilent:
		c.OpenPublisher = nil
	}
	for k := range window {
		e.adapters = append(e.adapters, adapter(n+k))
		c.Adapters = append(c.Adapters, fleettest.Adapter{Name: adapter(n + k)})
	}
	var err error
	if e.Engine, err = fleettest.Start(c); err != nil {
		return errors.Join(err, l.Close())
	}
	e.Faults().FailRate(0.001, http.StatusInternalServerError, 0)
	w.mu.Lock()
	w.running = append(w.running, e)
	w.mu.Unlock()
	described := e.Worker()
	described.Class = "soak"
	w.rig.list.add(described)
	if err := await(ctx, c.Name+" is taken in", func() bool {
		m := w.rig.fleet.Snapshot().Member(c.Name)
		return m != nil && m.Routable() && m.Serves(e.adapters[0])
	}); err != nil {
		return err
	}
	w.offer("")
	return nil
}

// offer lets requests ask for the adapters that two workers have, not counting one that is
// about to leave: so one is left when it is gone.
func (w *workers) offer(leaving string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	having := map[string]int{}
	for _, e := range w.running {
		if e.Name() == leaving {
			continue
		}
		for _, a := range e.adapters {
			having[a]++
		}
	}
	w.adapters = nil
	for a, n := range having {
		if n > 1 {
			w.adapters = append(w.adapters, a)
		}
	}
	slices.Sort(w.adapters)
}

// ask returns one of the adapters that are offered, "" if none is.
func (w *workers) ask(choose func(n int) int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.adapters) == 0 {
		return ""
	}
	a := w.adapters[choose(len(w.adapters))]
	w.asked[a]++
	return a
}

// answered says that a request for an adapter is over.
func (w *workers) answered(adapter string) {
	if adapter == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked[adapter]--; w.asked[adapter] == 0 {
		delete(w.asked, adapter)
	}
}

// awaited reports whether requests are under way for adapters that are not offered any more.
func (w *workers) awaited() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for a := range w.asked {
		if !slices.Contains(w.adapters, a) {
			return true
		}
	}
	return false
}

// stop takes the oldest worker out and ends it once it has nothing to do.
func (w *workers) stop(ctx context.Context) (address string, err error) {
	w.mu.Lock()
	e := w.running[0]
	w.mu.Unlock()
	w.offer(e.Name())
	// As long as somebody asks for an adapter two have it, so that one may be killed.
	if err := await(ctx, "nobody asks for what will be gone", func() bool { return !w.awaited() }); err != nil {
		return "", err
	}
	m := w.rig.fleet.Snapshot().Member(e.Name())
	w.rig.list.remove(e.Name())
	if err := await(ctx, e.Name()+" is gone", func() bool { return w.rig.fleet.Snapshot().Member(e.Name()) == nil }); err != nil {
		return "", err
	}
	if err := pause(ctx, 100*time.Millisecond); err != nil { // whoever had just chosen it
		return "", err
	}
	if err := await(ctx, e.Name()+" has nothing to do", func() bool { return m == nil || idle(m) && e.Stats().InFlight == 0 }); err != nil {
		return "", err
	}
	w.mu.Lock()
	w.running = w.running[1:]
	w.mu.Unlock()
	return e.URL(), e.Close()
}

func idle(m *fleet.Member) bool {
	for rank := range m.Ranks() {
		if m.InFlight(rank).Requests > 0 {
			return false
		}
	}
	return true
}

// close ends all engines.
func (w *workers) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for _, e := range w.running {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

// inFlight is what the engines themselves think that they have to do.
func (w *workers) inFlight() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.running {
		st := e.Stats()
		n += st.InFlight + st.Running + st.Waiting
	}
	return n
}

// of returns the worker of a kind: there is always one.
func (w *workers) of(kind int) *engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.running {
		if e.kind == kind {
			return e
		}
	}
	return w.running[0]
}

// spoil says what is about to be done to a worker's events for good, "" for nothing: a new
// life has begun.
func (w *workers) spoil(e *engine, how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.gap = how
}

// listenLow listens on a port that the system gives to no client: while an engine is down,
// one that keeps dialling its port could be given that very port, and hold it.
func listenLow(ctx context.Context) (net.Listener, error) {
	const from, to, tries = 15000, 30000, 1000
	var listening net.ListenConfig
	for range tries {
		l, err := listening.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", from+rand.IntN(to-from))) //nolint:gosec // any will do
		if err == nil {
			return l, nil
		}
	}
	return nil, errors.New("no port is free between 15000 and 30000")
}

// await looks until something is so.
func await(ctx context.Context, what string, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	for !so() {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("%s: not within %v: %w", what, patient, err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
