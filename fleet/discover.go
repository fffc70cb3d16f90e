package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// Pauses between two calls of a Discoverer that fails. The longest is short,
// because a Discoverer that fails at once (a bad file) costs next to nothing and
// the correction should be seen soon.
const (
	firstDiscoverPause = time.Second
	maxDiscoverPause   = 5 * time.Second
)

// errDiscovererEnded: Discover returned without an error before its context
// ended. Seen in Fleet.Err by whoever wrote the Discoverer.
var errDiscovererEnded = errors.New("it returned before its context ended; it must go on to watch")

// Static is a Discoverer of a fixed list. New refuses an invalid one.
func Static(workers ...Worker) Discoverer {
	return &static{workers: cloneAll(workers)}
}

func cloneAll(workers []Worker) []Worker {
	out := make([]Worker, len(workers))
	for i := range workers {
		out[i] = workers[i].Clone()
	}
	return out
}

type static struct{ workers []Worker }

func (s *static) Discover(ctx context.Context, set func([]Worker) error) error {
	if err := set(cloneAll(s.workers)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Validate makes New fail for a list that set would refuse.
func (s *static) Validate() error { return Validate(s.workers) }

// source runs one Discoverer.
type source struct {
	fleet      *Fleet
	discoverer Discoverer

	mu     sync.Mutex // taken after fleet.mu
	status SourceStatus
	sets   uint64
	told   []string // texts of the errors reported since the last good list
	// repaired: the last good list came after an error and that is not logged yet.
	repaired bool
}

// maxTold bounds source.told; a Discoverer whose every error reads differently is
// reported each time.
const maxTold = 16

// SourceStatus is how one Discoverer fares.
type SourceStatus struct {
	// Workers in its last good list, and when that came; zero before the first.
	Workers int
	SetAt   time.Time
	// Err is its last error, nil after a good list; ErrAt is when it first came.
	Err   error
	ErrAt time.Time
}

// Status is how the Discoverers fare, in the order of Options.
func (f *Fleet) Status() []SourceStatus {
	out := make([]SourceStatus, len(f.sources))
	for i, src := range f.sources {
		src.mu.Lock()
		out[i] = src.status
		src.mu.Unlock()
	}
	return out
}

// Err joins the present errors of Discoverers: why the list in force may be out
// of date. It is nil when all have given a good list last.
func (f *Fleet) Err() error {
	var errs []error
	for _, st := range f.Status() {
		errs = append(errs, st.Err)
	}
	return errors.Join(errs...)
}

func (s *source) run() {
	pause := firstDiscoverPause
	for {
		before := s.setCount()
		var refused atomic.Pointer[error]
		err := s.discoverer.Discover(s.fleet.ctx, func(list []Worker) error {
			err := s.fleet.apply(s, list)
			if err != nil && !errors.Is(err, ErrClosed) {
				// A Discoverer may drop the error and wait for the next list.
				refused.Store(&err)
				s.failed(err, true)
			}
			s.logRepair()
			return err
		})
		if s.fleet.ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errDiscovererEnded
		}
		// What was refused and comes back, perhaps with its place in a file, is one
		// problem.
		known := refused.Load()
		s.failed(err, known == nil || !wraps(err, *known))
		if planted.OutageEmpties {
			_ = s.fleet.apply(s, nil)
		}
		if s.setCount() != before {
			pause = firstDiscoverPause
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.fleet.ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, maxDiscoverPause)
	}
}

func (s *source) setCount() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets
}

// succeeded is called with fleet.mu held.
func (s *source) succeeded(workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.repaired = s.status.Err != nil
	s.sets++
	s.status = SourceStatus{Workers: workers, SetAt: s.fleet.opts.Now()}
	s.told = nil
}

// logRepair says, without fleet.mu, that a list was good after an error.
func (s *source) logRepair() {
	s.mu.Lock()
	repaired, workers := s.repaired, s.status.Workers
	s.repaired = false
	s.mu.Unlock()
	if repaired {
		s.fleet.log(slog.LevelInfo, "discovery works again", slog.Int("workers", workers))
	}
}

// failed records err, and reports it if it may be news and none with its text
// has been since the last good list.
func (s *source) failed(err error, news bool) {
	s.mu.Lock()
	inForce := "there is no list of workers yet"
	if !s.status.SetAt.IsZero() {
		inForce = "the last list stays in force"
	}
	err = fmt.Errorf("fleet: discovery failed, %s: %w", inForce, err)
	text := err.Error()
	news = news && !slices.Contains(s.told, text)
	if s.status.Err == nil || news {
		s.status.ErrAt = s.fleet.opts.Now()
	}
	s.status.Err = err
	if news && len(s.told) < maxTold {
		s.told = append(s.told, text)
	}
	s.mu.Unlock()
	if !news {
		return
	}
	s.fleet.log(slog.LevelWarn, "discovery failed", slog.Any("error", err))
	if s.fleet.opts.OnError != nil {
		s.fleet.opts.OnError(err)
	}
}

// wraps reports whether err has come of the refusal of a list. Of a joined error
// a Discoverer may have wrapped the parts.
func wraps(err, refusal error) bool {
	if parts, ok := refusal.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(parts.Unwrap(), func(part error) bool { return errors.Is(err, part) })
	}
	return errors.Is(err, refusal)
}
