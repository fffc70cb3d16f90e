package file

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/internal/watch"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

const (
	defaultInterval = time.Second
	maxFileBytes    = 8 << 20
)

// Errors about the file as such. Seen by operators: the path is probably wrong.
var (
	// ErrTooLarge: the file is longer than 8 MiB.
	ErrTooLarge = errors.New("quota/file: too large")
	// ErrNotRegular: the path is a directory, a pipe or a device.
	ErrNotRegular = errors.New("quota/file: not a file; correct the path")
)

func wrapped() watch.Errors {
	return watch.Errors{TooLarge: ErrTooLarge, NotRegular: ErrNotRegular, Advice: "correct the path"}
}

// Read reads the limits of a file. The error is as that of [Parse], or about the file as
// such.
func Read(path string) (Limits, error) {
	f, err := watch.Read(path, maxFileBytes, wrapped())
	if err != nil {
		return Limits{}, err
	}
	return Parse(path, f.Data)
}

// Limiter takes other limits while it is in use: a [quota.Limiter], or one of package
// redis.
type Limiter interface {
	Update(rules []quota.Rule, weights quota.Weights) ([]quota.Change, error)
}

// Options are for [Follow]. The zero value is fine.
type Options struct {
	// Interval between two looks. Default 1 s.
	Interval time.Duration
	// OnLoad is told what each change that came into force has changed, OnError of every
	// change that did not, once. They are called by one goroutine after the other and must
	// not call Close or Reload.
	OnLoad  func([]quota.Change)
	OnError func(error)
	// Logger gets a line for each of both, and a warning for each state that was lost. Nil: none.
	Logger *slog.Logger
	// Now tells the time, to compare with the file's time stamps. Default time.Now.
	Now func() time.Time
}

// Source keeps a Limiter as a file says, until Close. It is safe for concurrent use.
type Source struct {
	opts    Options
	limiter Limiter
	files   *watch.Files

	mu     sync.Mutex
	status Status
}

// Status says what is in force and why it may be something else than what the file says.
type Status struct {
	Rules  int
	Loaded time.Time
	// Loads counts what has come into force, that of Follow included.
	Loads uint64
	// Err is nil if the file says what is in force. Since is when it was seen.
	Err   error
	Since time.Time
}

// Follow gives l the limits of a file, and those that it changes to. It fails if they are
// wrong.
func Follow(path string, l Limiter, opts Options) (*Source, error) {
	switch {
	case path == "":
		return nil, errors.New("quota/file: the path is empty; name a file with limits")
	case opts.Interval < 0:
		return nil, fmt.Errorf("quota/file: Options.Interval is %v; give a positive duration, or 0 for %v", opts.Interval, defaultInterval)
	}
	if opts.Interval == 0 {
		opts.Interval = defaultInterval
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Source{opts: opts, limiter: l}
	var err error
	s.files, err = watch.Open(watch.Options{
		Paths: []string{path}, Interval: opts.Interval, Now: opts.Now, MaxFileBytes: maxFileBytes, Errors: wrapped(),
		Load: s.load, Failed: s.report, Restored: s.restored,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Status says how things stand.
func (s *Source) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Reload looks at the file now and takes what it says, without a second look. It returns
// the error that Status then has. It must not be called by a hook.
func (s *Source) Reload() error { return s.files.Reload() }

// Close ends following and waits until no hook runs. What is in force stays so. Further
// calls do nothing; the error is always nil.
func (s *Source) Close() error {
	s.files.Close()
	return nil
}

func (s *Source) load(files []watch.File) error {
	if len(files) != 1 {
		return fmt.Errorf("%w: one file has all rules, because their order counts", ErrNotRegular)
	}
	limits, err := Parse(files[0].Path, files[0].Data)
	if err != nil {
		return err
	}
	changes, err := s.limiter.Update(limits.Rules, limits.Weights)
	if err != nil {
		return &Error{File: files[0].Path, Problem: err.Error()}
	}
	s.mu.Lock()
	s.status = Status{Rules: len(limits.Rules), Loaded: s.opts.Now(), Loads: s.status.Loads + 1}
	first := s.status.Loads == 1
	s.mu.Unlock()
	s.opts.Logger.Info("limits are in force", "rules", len(limits.Rules), "changes", len(changes))
	for _, c := range changes {
		if c.Lost != "" {
			s.opts.Logger.Warn("a limit begins anew", "rule", c.Rule, "what", c.What, "lost", c.Lost)
		}
	}
	if !first && s.opts.OnLoad != nil {
		s.opts.OnLoad(changes)
	}
	return nil
}

func (s *Source) report(err error) {
	s.mu.Lock()
	s.status.Err, s.status.Since = err, s.opts.Now()
	s.mu.Unlock()
	s.opts.Logger.Error("limits stay as they were", "error", err)
	if s.opts.OnError != nil {
		s.opts.OnError(err)
	}
}

// restored: the file says what is in force again.
func (s *Source) restored() {
	s.mu.Lock()
	s.status.Err, s.status.Since = nil, time.Time{}
	s.mu.Unlock()
	s.opts.Logger.Info("the file of limits says what is in force again")
}
