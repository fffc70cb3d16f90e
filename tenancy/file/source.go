package file

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kvsteer/kvsteer/internal/watch"
	"github.com/kvsteer/kvsteer/tenancy"
)

// maxFileBytes bounds a file: 40,000 keys and more.
const maxFileBytes = 8 << 20

// Errors about files as such. Seen by operators in Status and Open: the path is
// probably wrong.
var (
	// ErrTooLarge: a file is longer than 8 MiB, or all together than 16, or a directory
	// has more than 1,000 files.
	ErrTooLarge = errors.New("tenancy/file: too large")
	// ErrNotRegular: a path is a pipe or a device.
	ErrNotRegular = errors.New("tenancy/file: neither a file nor a directory; correct the path")
	// ErrNoFile: there is none in a directory.
	ErrNoFile = errors.New("tenancy/file: there is no file *.yaml, *.yml or *.json; correct the path")
)

// Options are for [Open]. The zero value is fine.
type Options struct {
	// Also are more files and directories beside the path.
	Also []string
	// Interval between two looks. Default 1 s.
	Interval time.Duration
	// OnLoad is told how many keys there are after each change that came into force,
	// OnError of every change that did not, once. They are called by one goroutine
	// after the other and must not call Close or Reload.
	OnLoad  func(keys int)
	OnError func(error)
	// Logger gets a line for each of both. Nil: none.
	Logger *slog.Logger
	// Now tells the time, by which keys expire, and to compare with the files' time
	// stamps. Default time.Now.
	Now func() time.Time
}

// Source is a [tenancy.Resolver] by the API keys that its files say. It is safe for
// concurrent use, and ends with Close.
type Source struct {
	opts   Options
	source *watch.Source[int] // how many keys
	keys   *tenancy.Keys
}

var _ tenancy.Resolver = (*Source)(nil)

// Status says what is in force and why it may be something else than what the files
// say.
type Status struct {
	// Keys is how many are in force, Files are what they are from, Loaded is when.
	Keys   int
	Files  []string
	Loaded time.Time
	// Loads counts what has come into force, that of Open included.
	Loads uint64
	// Err is nil if the files say what is in force; else it is, or joins, *[Error], or
	// is about a file as such. Since is when it was seen.
	Err   error
	Since time.Time
}

// Open reads the keys and keeps following them until Close. It fails if they are wrong,
// because then there is nothing to be in force.
func Open(path string, opts Options) (*Source, error) {
	none, err := tenancy.NewKeys(tenancy.KeysOptions{Now: opts.Now})
	if err != nil {
		return nil, err
	}
	s := &Source{opts: opts, keys: none}
	s.source, err = watch.OpenSource(watch.SourceOptions[int]{
		Package: "tenancy/file", What: "a file or a directory with keys",
		Paths: append([]string{path}, opts.Also...), MaxFileBytes: maxFileBytes,
		Errors:   watch.Errors{TooLarge: ErrTooLarge, NotRegular: ErrNotRegular, Advice: "correct the path or split it"},
		Interval: opts.Interval, Now: opts.Now, Logger: opts.Logger,
		Load: s.load, Loaded: s.loaded, OnError: opts.OnError,
		Stays: "API keys stay as they were", Again: "the files of API keys say what is in force again",
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Resolve implements [tenancy.Resolver] by the keys in force, as [tenancy.Keys] does. It
// doesn't block.
func (s *Source) Resolve(ctx context.Context, p *tenancy.Presented) (*tenancy.Identity, error) {
	return s.keys.Resolve(ctx, p)
}

// Status says how things stand. The caller must not modify what it refers to.
func (s *Source) Status() Status {
	w := s.source.Status()
	return Status{Keys: w.Now, Files: w.Files, Loaded: w.Loaded, Loads: w.Loads, Err: w.Err, Since: w.Since}
}

// Reload looks at the files now and takes what they say, without a second look: for who
// knows that everything is written. It returns the error that Status then has. It must
// not be called by a hook.
func (s *Source) Reload() error { return s.source.Reload() }

// Close ends following and waits until no hook runs. What is in force stays so. Further
// calls do nothing; the error is always nil.
func (s *Source) Close() error {
	s.source.Close()
	return nil
}

func (s *Source) load(files []watch.File) (n int, err error) {
	if len(files) == 0 {
		return 0, ErrNoFile
	}
	var keys []tenancy.Key
	var places []place
	var errs []error
	for i := range files {
		k, at, err := parse(files[i].Path, files[i].Data)
		if err != nil {
			errs = append(errs, err)
		}
		keys, places = append(keys, k...), append(places, at...)
	}
	if len(errs) > 0 {
		return 0, errors.Join(errs...)
	}
	if err := s.keys.Replace(keys); err != nil {
		return 0, locate(err, places)
	}
	return len(keys), nil
}

func (s *Source) loaded(status *watch.Status[int], log *slog.Logger) {
	log.Info("API keys are in force", "keys", status.Now, "files", len(status.Files))
	if status.Loads > 1 && s.opts.OnLoad != nil {
		s.opts.OnLoad(status.Now)
	}
}
