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
	unsure   unsure
	left     []string
	known    bool // that something is left in flight at rest
	declined int  // times that a sample was due and could not be taken
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
	s := &run{config: &c, progress: progress, rig: r, unsure: unsure{}}
	s.workers = &workers{
		rig: r, injected: r.injected, blocks: c.blocks, kinds: c.workers, did: map[string]int{}, asked: map[string]int{},
	}
	if c.fill {
		s.workers.strangers = newStrangers(s.workers.generation())
	}
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
		s.rig.idle = peak(idleGoroutines)
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
	ran, err := s.load.run(ctx, n, c.rate, every, func() (bool, error) { return s.rest(ctx, every) })
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
// If something always does, on a machine that is late, it waits for the end of that.
func (s *run) rest(ctx context.Context, patience int) (bool, error) {
	stopped := time.Now()
	if !s.workers.busy.TryLock() {
		if s.declined++; s.declined < patience {
			return false, nil
		}
		s.workers.busy.Lock()
	}
	defer s.workers.busy.Unlock()
	s.declined = 0
	if err := await(ctx, "every client has its answer", func() bool { return s.load.inFlight.Load() == 0 }); err != nil {
		return false, err
	}
	if err := s.written(ctx); err != nil {
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
	s.look(&got)
	s.samples = append(s.samples, got)
	n, news := s.load.failedSoFar()
	fmt.Fprintf(s.progress, "%v, sent %d, failed %d\n", &got, s.load.sent, n)
	for _, why := range news {
		fmt.Fprintln(s.progress, "  "+why)
	}
	if err := errors.Join(s.rig.prune(), s.profileHeap(&got)); err != nil {
		return false, err
	}
	s.rested += time.Since(from)
	return true, nil
}

// written waits until the ledger's records are on disk: what waits for that is under way, too.
func (s *run) written(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	if err := s.rig.ledger.Flush(ctx); err != nil {
		return fmt.Errorf("at rest, the ledger's records: %w", err)
	}
	return nil
}

// look sees how well caches are known. After the warm-up each that is not, for no reason and
// for too long, is told of.
func (s *run) look(got *sample) {
	s.workers.mu.Lock()
	got.happened = s.workers.happened
	s.workers.mu.Unlock()
	var late []string
	got.known, late = s.unsure.sort(got.caches, s.workers.why, got.at, s.config.heal)
	got.caches = nil
	const enough = 20
	if len(s.left) < enough && got.at >= s.config.warm {
		s.left = append(s.left, late...)
	}
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
		retried: l.retried, unexplained: l.unexplained, causes: l.causes,
		lateP50: l.late.quantile(0.5), lateP99: l.late.quantile(0.99), lateMost: l.late.most,
		tookP50: l.took.quantile(0.5), tookP99: l.took.quantile(0.99), tookMost: l.took.most,
		tenants: l.asking.newest(), made: s.workers.made, did: s.workers.did, samples: judged, underLoad: w.String(),
	}
	if len(judged) < fewest {
		s.left = append(s.left, fmt.Sprintf("only %d samples after the warm-up, of at least %d: nothing can be said", len(judged), fewest))
		return out
	}
	groups, whole := periods(judged, s.workers.generation())
	out.periods, out.whole, out.judged = len(groups), whole, judge(groups, s.config.growth)
	for i := range judged {
		out.known.add(judged[i].known)
	}
	return out
}
