package watch

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const defaultInterval = time.Second

// SourceOptions are for [OpenSource]. Those without a default must be given.
type SourceOptions[T any] struct {
	// Package begins errors: "policy/file". What says what the path should be, behind
	// "name": "a file or a directory with policies".
	Package, What string
	// Paths, MaxFileBytes and Errors are as in [Options].
	Paths        []string
	MaxFileBytes int64
	Errors       Errors
	// Interval is between two looks. 0 means 1 s.
	Interval time.Duration
	// Now is time.Now if it is nil, Logger silent.
	Now    func() time.Time
	Logger *slog.Logger

	// Retry is as in [Options].
	Retry bool
	// Load is as in [Options], and returns what is to be known of what is in force now.
	Load func([]File) (T, error)
	// Loaded is told of what came into force, once the status is this, to log it. It may be
	// nil.
	Loaded func(s *Status[T], log *slog.Logger)
	// OnError is told of each change that isn't in force, once. It may be nil.
	OnError func(error)
	// Stays is logged with such an error, Again when the files say what is in force after it,
	// with Attrs, which may be nil.
	Stays, Again string
	Attrs        func(T) []any
}

// Source follows files, keeps how they stand, and logs it. It is safe for concurrent use.
type Source[T any] struct {
	opts  SourceOptions[T]
	files *Files

	mu     sync.Mutex
	status Status[T]
}

// Status says what is in force and why it may be something else than what the files say.
type Status[T any] struct {
	// Now is what Load returned, Files are what it was made of, Loaded is when.
	Now    T
	Files  []string
	Loaded time.Time
	// Loads counts what has come into force, that of OpenSource included.
	Loads uint64
	// Err is nil if the files say what is in force. Since is when it was seen.
	Err   error
	Since time.Time
}

// OpenSource loads the files and keeps following them until Close. It fails if they can't
// be loaded.
func OpenSource[T any](o SourceOptions[T]) (*Source[T], error) {
	switch {
	case len(o.Paths) == 0 || o.Paths[0] == "":
		return nil, errors.New(o.Package + ": the path is empty; name " + o.What)
	case o.Interval < 0:
		return nil, fmt.Errorf("%s: Options.Interval is %v; give a positive duration, or 0 for %v", o.Package, o.Interval, defaultInterval)
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Source[T]{opts: o}
	var err error
	s.files, err = Open(Options{
		Paths: o.Paths, Interval: o.Interval, Now: o.Now, MaxFileBytes: o.MaxFileBytes, Errors: o.Errors,
		Retry: o.Retry, Load: s.load, Failed: s.failed, Restored: s.restored,
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Status says how things stand.
func (s *Source[T]) Status() Status[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Reload is that of [Files].
func (s *Source[T]) Reload() error { return s.files.Reload() }

// Close is that of [Files].
func (s *Source[T]) Close() { s.files.Close() }

func (s *Source[T]) load(files []File) error {
	now, err := s.opts.Load(files)
	if err != nil {
		return err
	}
	names := make([]string, len(files))
	for i := range files {
		names[i] = files[i].Path
	}
	s.mu.Lock()
	s.status = Status[T]{Now: now, Files: names, Loaded: s.opts.Now(), Loads: s.status.Loads + 1}
	status := s.status
	s.mu.Unlock()
	if s.opts.Loaded != nil {
		s.opts.Loaded(&status, s.opts.Logger)
	}
	return nil
}

func (s *Source[T]) failed(err error) {
	s.mu.Lock()
	s.status.Err, s.status.Since = err, s.opts.Now()
	s.mu.Unlock()
	s.opts.Logger.Error(s.opts.Stays, "error", err) //nolint:sloglint // a constant of each user
	if s.opts.OnError != nil {
		s.opts.OnError(err)
	}
}

func (s *Source[T]) restored() {
	s.mu.Lock()
	s.status.Err, s.status.Since = nil, time.Time{}
	now := s.status.Now
	s.mu.Unlock()
	var attrs []any
	if s.opts.Attrs != nil {
		attrs = s.opts.Attrs(now)
	}
	s.opts.Logger.Info(s.opts.Again, attrs...) //nolint:sloglint // as above
}
