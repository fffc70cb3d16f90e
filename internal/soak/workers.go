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
	rig      *rig
	injected *injected
	blocks   int
	kinds    int // as many as there are workers at a time, so that there are always the same

	busy sync.Mutex // something happens to one

	mu       sync.Mutex
	running  []*engine
	made     int            // engines, ever
	did      map[string]int // what happened, how often
	adapters []string       // that requests may ask for
}

// engine is a worker with what it serves.
type engine struct {
	*fleettest.Engine

	adapters []string
}

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
	switch n % w.kinds {
	case 1:
		c.Ranks = 2
	case 2:
		c.Dialect = fleettest.SGLang
	case 3:
		c.Dialect, c.Render, c.OpenPublisher = fleettest.TensorRTLLM, true, nil
	case 4:
		c.OpenPublisher = nil // it says nothing, and is followed by what is sent to it
	}
	e := &engine{}
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

func (w *workers) offered() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.adapters
}

// stop takes the oldest worker out and ends it once it has nothing to do.
func (w *workers) stop(ctx context.Context) (address string, err error) {
	w.mu.Lock()
	e := w.running[0]
	w.mu.Unlock()
	w.offer(e.Name())
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

// one returns a random worker.
func (w *workers) one() *engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[rand.IntN(len(w.running))] //nolint:gosec // any will do
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
