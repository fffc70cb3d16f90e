package file

import (
	"errors"
	"log/slog"
	"time"

	"github.com/kvsteer/kvsteer/internal/watch"
	"github.com/kvsteer/kvsteer/providers"
)

const maxFileBytes = 8 << 20

// Errors about files as such. Seen by operators in Status and Follow: the path is probably
// wrong.
var (
	// ErrTooLarge: a file is longer than 8 MiB, or all together than 16, or a directory
	// has more than 1,000 files.
	ErrTooLarge = errors.New("providers/file: too large")
	// ErrNotRegular: a path is a pipe or a device.
	ErrNotRegular = errors.New("providers/file: neither a file nor a directory; correct the path")
	// ErrNoProvider: the files hold none. To have no provider, don't follow any file.
	ErrNoProvider = errors.New("providers/file: there is no document of kind InferenceProvider; correct the path, or leave it out")
)

// Options are for [Follow], [Read] and [Parse]. The zero value is fine.
type Options struct {
	// Kinds are those that spec.kind may name beside the ones of package providers:
	//
	//	Kinds: map[string]file.Factory{"Bedrock": func(o map[string]string) (providers.Kind, error) {
	//		return bedrock.New(bedrock.Options{Region: o["region"], Credentials: cfg.Credentials}), nil
	//	}},
	Kinds map[string]Factory
	// Secret makes a source of a Kubernetes Secret's key, for credentials that name one:
	// of the path where it is mounted, for example. Nil: they are refused.
	Secret func(name, key string) (providers.CredentialSource, error)
	// Adjust changes each provider before it is used: its credentials, for example. It must
	// give the same for the same, or what was learned of the provider is lost.
	Adjust func(*providers.Provider)

	// The rest is for Follow only. Also are more files and directories beside the path.
	Also []string
	// Interval between two looks. Default 1 s.
	Interval time.Duration
	// OnLoad is told how many providers there are after each change that came into force,
	// OnError of every change that did not, once. They are called by one goroutine after
	// the other and must not call Close or Reload.
	OnLoad  func(providers int)
	OnError func(error)
	// Logger gets a line for each of both. Nil: none.
	Logger *slog.Logger
	// Now tells the time, to compare with the files' time stamps. Default time.Now.
	Now func() time.Time
}

// Set takes other providers while it is in use: a [providers.Set].
type Set interface {
	Update(list []providers.Provider) error
}

// Source keeps a Set as files say, until Close. It is safe for concurrent use.
type Source struct {
	opts   Options
	set    Set
	kinds  map[string]providers.Kind // in use, by name and options
	source *watch.Source[[]string]
}

// Status says what is in force and why it may be something else than what the files say.
type Status struct {
	// Providers are the names of those in force, Files are what they are from, Loaded is
	// when.
	Providers []string
	Files     []string
	Loaded    time.Time
	// Loads counts what has come into force, that of Follow included.
	Loads uint64
	// Err is nil if the files say what is in force; else it is, or joins, *[Error], or is
	// about a file as such. Since is when it was seen.
	Err   error
	Since time.Time
}

func wrapped() watch.Errors {
	return watch.Errors{TooLarge: ErrTooLarge, NotRegular: ErrNotRegular, Advice: "correct the path or split it"}
}

// Read reads the providers of one file, once. The error is as that of [Parse], or about the
// file as such.
func Read(path string, o Options) ([]providers.Provider, error) {
	f, err := watch.Read(path, maxFileBytes, wrapped())
	if err != nil {
		return nil, err
	}
	list, err := Parse(path, f.Data, o)
	if err == nil && len(list) == 0 {
		return nil, ErrNoProvider
	}
	return list, err
}

// Follow gives set the providers of a file or a directory, and those that it changes to. It
// fails if they are wrong, because then there is nothing to be in force.
//
//	set, err := providers.New(nil, providers.Options{})
//	source, err := file.Follow("providers.yaml", set, file.Options{})
//
// Close the Source before the Set.
func Follow(path string, set Set, o Options) (*Source, error) {
	s := &Source{opts: o, set: set, kinds: map[string]providers.Kind{}}
	var err error
	s.source, err = watch.OpenSource(watch.SourceOptions[[]string]{
		Package: "providers/file", What: "a file or a directory with providers",
		Paths: append([]string{path}, o.Also...), MaxFileBytes: maxFileBytes, Errors: wrapped(),
		Interval: o.Interval, Now: o.Now, Logger: o.Logger,
		Retry: true, // a file of credentials may come later
		Load:  s.load, Loaded: s.loaded, OnError: o.OnError,
		Stays: "providers stay as they were", Again: "the files of providers say what is in force again",
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Status says how things stand. The caller must not modify what it refers to.
func (s *Source) Status() Status {
	w := s.source.Status()
	return Status{Providers: w.Now, Files: w.Files, Loaded: w.Loaded, Loads: w.Loads, Err: w.Err, Since: w.Since}
}

// Reload looks at the files now and takes what they say, without a second look. It returns
// the error that Status then has. It must not be called by a hook.
func (s *Source) Reload() error { return s.source.Reload() }

// Close ends following and waits until no hook runs. What is in force stays so. Further
// calls do nothing; the error is always nil.
func (s *Source) Close() error {
	s.source.Close()
	return nil
}

// load is called by one goroutine after the other.
func (s *Source) load(files []watch.File) (names []string, err error) {
	var found []manifest
	var errs []error
	used := map[string]providers.Kind{}
	for i := range files {
		list, err := parse(files[i].Path, files[i].Data, &s.opts, s.kinds, used)
		if err != nil {
			errs = append(errs, err)
		}
		found = append(found, list...)
	}
	switch {
	case len(errs) > 0:
		return nil, errors.Join(errs...)
	case len(found) == 0:
		return nil, ErrNoProvider
	}
	list := make([]providers.Provider, len(found))
	names = make([]string, len(found))
	for i := range found {
		list[i], names[i] = found[i].provider, found[i].provider.Name
	}
	if err := s.set.Update(list); err != nil {
		return nil, locate(err, found)
	}
	s.kinds = used
	return names, nil
}

func (s *Source) loaded(status *watch.Status[[]string], log *slog.Logger) {
	log.Info("providers are in force", "providers", len(status.Now), "files", len(status.Files))
	if status.Loads > 1 && s.opts.OnLoad != nil {
		s.opts.OnLoad(len(status.Now))
	}
}
