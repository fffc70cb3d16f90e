package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"
)

// run is one soak.
type run struct {
	config   *config
	progress io.Writer
	rig      *rig
	workers  *workers
	load     *load
	began    time.Time
	drained  time.Duration // waited, before samples, for what was under way
	rested   time.Duration // took for samples
	samples  []sample
	left     []string
	known    bool // that something is left in flight at rest
	profiled bool
}

// soak runs one and reports what it has shown. An error means that it could not be run.
func soak(ctx context.Context, c config, progress io.Writer) (*report, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	before := runtime.NumGoroutine()
	r, err := newRig(ctx, &c)
	if err != nil {
		return nil, err
	}
	s := &run{config: &c, progress: progress, rig: r}
	s.workers = &workers{rig: r, injected: newInjected(), blocks: c.blocks, kinds: c.workers, did: map[string]int{}}
	s.load = newLoad(r, s.workers, &c)
	out, err := s.do(ctx)
	s.load.wg.Wait()
	s.load.client.CloseIdleConnections()
	err = errors.Join(err, r.close(), s.workers.close())
	if err != nil {
		return nil, err
	}
	// What was started has ended; those of connections need a moment to see it.
	if await(context.Background(), "goroutines end", func() bool { return runtime.NumGoroutine() <= before }) != nil {
		s.left = append(s.left, fmt.Sprintf("%d goroutines more than before are left after everything was closed", runtime.NumGoroutine()-before))
	}
	out.left = s.left
	return out, nil
}

func (s *run) do(ctx context.Context) (*report, error) {
	c := s.config
	for range c.workers {
		if err := s.workers.start(ctx, nil); err != nil {
			return nil, err
		}
	}
	if c.fill {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	beside := make(chan struct{})
	watched := newWatch(c.length)
	go func() {
		defer close(beside)
		watched.run(ctx, s)
	}()
	churned := make(chan error, 1)
	churning, still := context.WithCancel(ctx)
	defer still()
	go func() {
		err := s.workers.churn(churning, c.churn)
		if err != nil {
			stop(err)
		}
		churned <- err
	}()

	s.began = time.Now()
	s.load.asking.began = s.began
	n := int(c.length.Seconds() * c.rate)
	every := max(1, int(c.rest.Seconds()*c.rate))
	ran, err := s.load.run(ctx, n, c.rate, every, func() (bool, error) { return s.rest(ctx) })
	still()
	err = errors.Join(err, <-churned)
	stop(nil)
	<-beside
	if err != nil {
		return nil, err
	}
	if err := s.settled(); err != nil {
		return nil, err
	}
	return s.report(ran, watched), nil
}

// rest takes a sample once nothing is under way; false while something happens to a worker.
func (s *run) rest(ctx context.Context) (bool, error) {
	if !s.workers.busy.TryLock() {
		return false, nil
	}
	defer s.workers.busy.Unlock()
	stopped := time.Now()
	if err := await(ctx, "every client has its answer", func() bool { return s.load.inFlight.Load() == 0 }); err != nil {
		return false, err
	}
	from := time.Now()
	s.drained += from.Sub(stopped)
	if !s.known {
		wait, cancel := context.WithTimeout(ctx, s.config.settle)
		err := await(wait, "nothing is in flight", func() bool { return len(s.inFlight()) == 0 })
		cancel()
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		if err != nil {
			s.known = true
			s.left = append(s.left, fmt.Sprintf("at rest, after %v: %v", s.age(from), s.inFlight()))
		}
	}
	s.load.client.CloseIdleConnections()
	s.rig.transport.CloseIdleConnections()
	s.rig.asks.CloseIdleConnections()
	if err := s.calm(ctx); err != nil {
		return false, err
	}
	got, err := s.rig.take(s.age(from))
	if err != nil {
		return false, err
	}
	s.samples = append(s.samples, got)
	fmt.Fprintf(s.progress, "%v, failed %d\n", &got, s.load.failedSoFar())
	if err := errors.Join(s.rig.prune(), s.profileHeap(&got)); err != nil {
		return false, err
	}
	s.rested += time.Since(from)
	return true, nil
}

// age is for how long there has been load.
func (s *run) age(at time.Time) time.Duration { return at.Sub(s.began) - s.rested - s.drained }

// calm waits until goroutines and sockets that are about to end have ended.
func (s *run) calm(ctx context.Context) error {
	const equal, most = 4, 200
	const look = 20 * time.Millisecond
	lastGoroutines, lastFiles, same := 0, 0, 0
	for range most {
		if err := pause(ctx, look); err != nil {
			return err
		}
		g, f := runtime.NumGoroutine(), openFiles()
		if g != lastGoroutines || f != lastFiles {
			lastGoroutines, lastFiles, same = g, f, 0
			continue
		}
		if same++; same == equal {
			break
		}
	}
	return nil
}

// inFlight is what there should be none of while no client waits.
func (s *run) inFlight() []string {
	var all []string
	add := func(what string, n int) {
		if n != 0 {
			all = append(all, fmt.Sprintf("%s: %d", what, n))
		}
	}
	st := s.rig.router.Stats()
	add("live Selections", st.InFlight)
	add("requests that wait in the router", st.Waiting+st.Lingering)
	add("bookings on workers", int(s.rig.fleet.InFlight()))
	add("requests under way for the limits", s.rig.limits.Totals().Running)
	add("requests under way in the engines", s.workers.inFlight())
	return all
}

// settled checks that all accounts are closed in the end.
func (s *run) settled() error {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	defer cancel()
	if err := s.rig.ledger.Flush(ctx); err != nil {
		return err
	}
	if !s.known {
		_ = await(ctx, "nothing is in flight", func() bool { return len(s.inFlight()) == 0 }) // else it is told now
	}
	for _, what := range s.inFlight() {
		s.left = append(s.left, "in the end, "+what)
	}
	if err := s.rig.ledger.Flush(ctx); err != nil {
		return err
	}
	t := s.rig.limits.Totals()
	for m := range t.Reserved {
		if reserved, settled, refunded := t.Reserved[m], t.Settled[m], t.Refunded[m]; reserved != settled+refunded {
			s.left = append(s.left, fmt.Sprintf("limits, meter %d: reserved %d, settled %d, refunded %d", m, reserved, settled, refunded))
		}
	}
	b := &s.rig.books
	if reserved, ended := b.reserved.Load(), b.settled.Load()+b.voided.Load(); reserved != ended || b.lost.Load() != 0 {
		s.left = append(s.left, fmt.Sprintf("ledger: %d records of reservations, %d of their ends, %d lost", reserved, ended, b.lost.Load()))
	}
	return nil
}

func (s *run) report(ran time.Duration, w *watch) *report {
	l := s.load
	judged := after(s.samples, s.config.warm)
	out := &report{
		config: *s.config, ran: ran, drained: s.drained, rested: s.rested, sent: l.sent, counts: l.counts, failures: l.failures,
		lateP50: l.late.quantile(0.5), lateP99: l.late.quantile(0.99), lateMost: l.late.most,
		tookP50: l.took.quantile(0.5), tookP99: l.took.quantile(0.99), tookMost: l.took.most,
		tenants: l.asking.newest(), made: s.workers.made, did: s.workers.did, samples: judged, underLoad: w.String(),
	}
	if len(judged) < fewest {
		s.left = append(s.left, fmt.Sprintf("only %d samples after the warm-up, of at least %d: nothing can be said", len(judged), fewest))
		return out
	}
	out.judged = judge(judged, s.config.growth)
	return out
}
