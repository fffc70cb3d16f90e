package file

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kvsteer/kvsteer/internal/watch"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

const maxFileBytes = 8 << 20

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
	source  *watch.Source[inForce]
}

// inForce is what is said of limits.
type inForce struct {
	rules   int
	changes []quota.Change
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
	s := &Source{opts: opts, limiter: l}
	var err error
	s.source, err = watch.OpenSource(watch.SourceOptions[inForce]{
		Package: "quota/file", What: "a file with limits",
		Paths: []string{path}, MaxFileBytes: maxFileBytes, Errors: wrapped(),
		Interval: opts.Interval, Now: opts.Now, Logger: opts.Logger,
		Load: s.load, Loaded: s.loaded, OnError: opts.OnError,
		Stays: "limits stay as they were", Again: "the file of limits says what is in force again",
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Status says how things stand.
func (s *Source) Status() Status {
	w := s.source.Status()
	return Status{Rules: w.Now.rules, Loaded: w.Loaded, Loads: w.Loads, Err: w.Err, Since: w.Since}
}

// Reload looks at the file now and takes what it says, without a second look. It returns
// the error that Status then has. It must not be called by a hook.
func (s *Source) Reload() error { return s.source.Reload() }

// Close ends following and waits until no hook runs. What is in force stays so. Further
// calls do nothing; the error is always nil.
func (s *Source) Close() error {
	s.source.Close()
	return nil
}

func (s *Source) load(files []watch.File) (inForce, error) {
	if len(files) != 1 {
		return inForce{}, fmt.Errorf("%w: one file has all rules, because their order counts", ErrNotRegular)
	}
	limits, err := Parse(files[0].Path, files[0].Data)
	if err != nil {
		return inForce{}, err
	}
	changes, err := s.limiter.Update(limits.Rules, limits.Weights)
	if err != nil {
		return inForce{}, &Error{File: files[0].Path, Problem: err.Error()}
	}
	return inForce{len(limits.Rules), changes}, nil
}

func (s *Source) loaded(status *watch.Status[inForce], log *slog.Logger) {
	changes := status.Now.changes
	log.Info("limits are in force", "rules", status.Now.rules, "changes", len(changes))
	for _, c := range changes {
		if c.Lost != "" {
			log.Warn("a limit begins anew", "rule", c.Rule, "what", c.What, "lost", c.Lost)
		}
	}
	if status.Loads > 1 && s.opts.OnLoad != nil {
		s.opts.OnLoad(changes)
	}
}
