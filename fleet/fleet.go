package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// Fleet keeps track of workers. It is safe for concurrent use. Create it with
// New and end it with Close.
type Fleet struct {
	opts    Options
	client  *http.Client
	release func()
	ctx     context.Context //nolint:containedctx // the Fleet's own life, which Close ends
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	snap    atomic.Pointer[Snapshot]
	dirty   chan struct{} // asks the publisher for a new Snapshot
	birth   string        // makes minted epochs differ from another Fleet's

	inFlight atomic.Int64
	buffers  sync.Pool

	mu      sync.Mutex // guards what follows; never held while calling out
	closed  bool
	slots   map[string]*slot
	sources []*source
	minted  uint64
	version uint64
}

// slot is a worker's name over all its instances.
type slot struct {
	member *Member
	source *source
	// restarts are the times of the last replacements on unsure evidence.
	restarts []time.Time
	drained  bool
}

// New starts a Fleet: its Discoverers are called and the workers they list are
// probed in the background. It does not wait for them; see [Fleet.WaitReady].
// The error is about opts, and about a Discoverer with a method
// Validate() error that reports one.
func New(opts Options) (*Fleet, error) {
	if err := opts.setDefaults(); err != nil {
		return nil, err
	}
	discoverers := slices.Clone(opts.Discoverers)
	if opts.Discoverer != nil {
		discoverers = slices.Insert(discoverers, 0, opts.Discoverer)
	}
	for i, d := range discoverers {
		if d == nil {
			return nil, fmt.Errorf("fleet: Options.Discoverers[%d] is nil; remove it", i)
		}
		if v, ok := d.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return nil, err
			}
		}
	}
	f := &Fleet{
		opts:  opts,
		dirty: make(chan struct{}, 1),
		birth: strconv.FormatInt(opts.Now().UnixMilli(), 36),
		slots: make(map[string]*slot),
	}
	f.client, f.release = opts.probeClient()
	// The Fleet's life is bounded by Close, not by a caller's context.
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.snap.Store(buildSnapshot(nil, 0, opts.Now()))
	f.wg.Go(f.publisher)
	if opts.OnChange != nil {
		f.Watch(opts.OnChange)
	}
	for _, d := range discoverers {
		src := &source{fleet: f, discoverer: d}
		f.sources = append(f.sources, src)
	}
	for _, src := range f.sources {
		f.wg.Go(src.run)
	}
	return f, nil
}

// Close ends all probing and watching and waits for it. Members and the last
// Snapshot stay readable, and bookings can still end. It is idempotent.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	f.wg.Wait()
	f.release()
	return nil
}

// Closed reports whether Close was called: what the Fleet says of its workers is
// then of that time.
func (f *Fleet) Closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

// Snapshot is the fleet as it was last published. It takes no lock and does not
// allocate.
func (f *Fleet) Snapshot() *Snapshot { return f.snap.Load() }

// InFlight counts the bookings that have not ended, on all members there are and
// were.
func (f *Fleet) InFlight() int64 { return f.inFlight.Load() }

// WaitReady waits until some worker can take requests. The error wraps
// ErrNotReady and ctx's, or ErrClosed.
func (f *Fleet) WaitReady(ctx context.Context) error {
	for {
		s := f.Snapshot()
		switch {
		case f.ctx.Err() != nil:
			return ErrClosed
		case s.Routable() > 0:
			return nil
		}
		select {
		case <-s.next:
		case <-f.ctx.Done():
			return ErrClosed
		case <-ctx.Done():
			return fmt.Errorf("%w: %w%s", ErrNotReady, ctx.Err(), f.whyNot())
		}
	}
}

// whyNot lists what is wrong with the workers there are, and with the
// Discoverers.
func (f *Fleet) whyNot() string {
	const most = 5
	var b strings.Builder
	members := f.Snapshot().Members()
	for i, m := range members {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(members)-most)
			break
		}
		h := m.Health()
		fmt.Fprintf(&b, "; worker %q is %v", m.Name(), h.State)
		switch {
		case h.Err != nil:
			fmt.Fprintf(&b, " (%v)", h.Err)
		case m.Draining():
			b.WriteString(" but draining")
		}
	}
	if len(members) == 0 {
		b.WriteString("; no workers are known")
	}
	if err := f.Err(); err != nil {
		fmt.Fprintf(&b, "; %v", err)
	}
	return b.String()
}

// Drain takes a worker out (on) or back in (off) by name: it gets no new
// requests, and those in flight go on. It holds over restarts of the worker
// until undone or until the name leaves the fleet, and adds to what the
// Discoverer says. The error is ErrUnknownWorker.
func (f *Fleet) Drain(name string, on bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.slots[name]
	if !ok {
		return fmt.Errorf("%w: %q", ErrUnknownWorker, name)
	}
	if s.drained == on {
		return nil
	}
	s.drained = on
	s.member.drained.Store(on)
	f.publishLocked()
	f.log(slog.LevelInfo, "worker draining changed", slog.String("worker", name), slog.Bool("draining", on))
	return nil
}

// publisher makes Snapshots of changes in members' state. It folds those that
// come while it is at work.
func (f *Fleet) publisher() {
	for {
		select {
		case <-f.dirty:
			f.mu.Lock()
			f.publishLocked()
			f.mu.Unlock()
		case <-f.ctx.Done():
			return
		}
	}
}

func (f *Fleet) markDirty() {
	select {
	case f.dirty <- struct{}{}:
	default:
	}
}

func (f *Fleet) publishLocked() {
	members := make([]*Member, 0, len(f.slots))
	for _, s := range f.slots {
		members = append(members, s.member)
	}
	f.version++
	old := f.snap.Swap(buildSnapshot(members, f.version, f.opts.Now()))
	close(old.next)
}

// apply makes list the workers of src. It is the set function of Discoverers.
func (f *Fleet) apply(src *source, list []Worker) error {
	if len(list) > f.opts.MaxWorkers {
		return fmt.Errorf("%w: %d listed, Options.MaxWorkers is %d", ErrTooManyWorkers, len(list), f.opts.MaxWorkers)
	}
	if err := Validate(list); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	if err := f.foreignLocked(src, list); err != nil {
		return err
	}
	changed := false
	listed := make(map[string]bool, len(list))
	for i := range list {
		w := normalise(&list[i])
		listed[w.Name] = true
		changed = f.putLocked(src, &w) || changed
	}
	for name, s := range f.slots {
		if s.source == src && !listed[name] {
			f.retireLocked(s.member, "no longer listed")
			delete(f.slots, name)
			changed = true
		}
	}
	src.succeeded(len(list))
	if changed {
		f.publishLocked()
	}
	return nil
}

// foreignLocked refuses names and publishers of other sources, and more workers
// than allowed over all sources.
func (f *Fleet) foreignLocked(src *source, list []Worker) error {
	var errs []error
	claimed := make(publishers)
	for _, s := range f.slots {
		if s.source != src {
			claimed.add(s.member.Worker())
		}
	}
	for i := range list {
		check := checker{index: i, worker: list[i].Name, claimed: claimed}
		for j := range list[i].Events {
			check.publisher(j, &list[i].Events[j])
		}
		errs = append(errs, check.errs[:min(len(check.errs), maxWorkerErrors-len(errs))]...)
		if s, ok := f.slots[list[i].Name]; ok && s.source != src && len(errs) < maxWorkerErrors {
			errs = append(errs, &WorkerError{
				Index: i, Worker: list[i].Name, Field: "name",
				Problem: "already listed by another Discoverer; give each worker a name of its own",
			})
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	others := 0
	for _, s := range f.slots {
		if s.source != src {
			others++
		}
	}
	if others+len(list) > f.opts.MaxWorkers {
		return fmt.Errorf("%w: %d listed beside %d of other Discoverers, Options.MaxWorkers is %d",
			ErrTooManyWorkers, len(list), others, f.opts.MaxWorkers)
	}
	return nil
}

// putLocked adds or updates one worker and reports whether anything changed.
func (f *Fleet) putLocked(src *source, w *Worker) bool {
	s, ok := f.slots[w.Name]
	if !ok {
		s = &slot{source: src}
		f.slots[w.Name] = s
		s.member = f.startLocked(w, "", s.drained)
		return true
	}
	old := s.member.Worker()
	switch {
	case old.Equal(w):
		return false
	case old.URL != w.URL || old.Epoch != w.Epoch && !planted.EpochIgnored || old.Ranks() != w.Ranks() || !slices.Equal(old.Events, w.Events):
		f.retireLocked(s.member, "replaced")
		s.restarts = nil
		s.member = f.startLocked(w, "", s.drained)
	default:
		s.member.describe(w)
	}
	return true
}

// startLocked makes a Member for a new instance and starts to probe it. suffix
// tells an instance that is new by inference from its predecessor of the same
// declared epoch.
func (f *Fleet) startLocked(w *Worker, suffix string, drained bool) *Member {
	f.minted++
	epoch := w.Epoch + suffix
	if w.Epoch == "" {
		epoch = f.birth + "-" + strconv.FormatUint(f.minted, 10)
	}
	ctx, cancel := context.WithCancel(f.ctx)
	m := newMember(f, w, epoch, cancel)
	m.drained.Store(drained)
	p := newProber(f, m)
	f.wg.Go(func() { p.run(ctx) })
	f.log(slog.LevelInfo, "worker added", slog.String("worker", m.id), slog.String("url", w.URL))
	return m
}

func (f *Fleet) retireLocked(m *Member, why string) {
	m.gone.Store(true)
	m.cancel()
	f.log(slog.LevelInfo, "worker removed", slog.String("worker", m.id), slog.String("reason", why))
}

// Replacements on unsure evidence: more than this many in the window say that it
// is worthless.
const (
	maxRestarts   = 5
	restartWindow = 5 * time.Minute
)

// replace puts a fresh instance in m's place because the engine behind it is a
// new one. It reports false if it didn't: m left already, or was replaced so
// often that several servers must be answering at its address.
func (f *Fleet) replace(m *Member, why string, how evidence) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.slots[m.name]
	if !ok || s.member != m || f.closed {
		return false
	}
	if how == unsure {
		now := f.opts.Now()
		s.restarts = slices.DeleteFunc(s.restarts, func(t time.Time) bool { return now.Sub(t) > restartWindow })
		if len(s.restarts) >= maxRestarts {
			return false
		}
		s.restarts = append(s.restarts, now)
	}
	f.retireLocked(m, why)
	s.member = f.startLocked(m.Worker(), "+"+strconv.FormatUint(f.minted+1, 10), s.drained)
	f.publishLocked()
	return true
}

func (f *Fleet) log(level slog.Level, msg string, attrs ...slog.Attr) {
	if f.opts.Logger != nil {
		f.opts.Logger.LogAttrs(f.ctx, level, msg, attrs...) //nolint:sloglint // the callers' messages are literals
	}
}
