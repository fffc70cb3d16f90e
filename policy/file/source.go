package file

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/internal/watch"
	"github.com/kvsteer/kvsteer/policy"
)

// Errors about files as such. Seen by operators in Status and Open: the path is
// probably wrong.
var (
	// ErrTooLarge: a file, or all together, or a directory is larger than policies are.
	ErrTooLarge = errors.New("policy/file: too large")
	// ErrNotRegular: a path is a pipe or a device.
	ErrNotRegular = errors.New("policy/file: neither a file nor a directory; correct the path")
)

// ErrNoPolicy: the files hold no policy. Seen by operators in Status and Open: the
// path is probably wrong, or the file half written. To have no policy, don't open any.
var ErrNoPolicy = errors.New("policy/file: there is no policy of kind InferencePolicy; correct the path, or leave it out")

// Options are for [Open]. The zero value is fine.
type Options struct {
	// Also are more files and directories beside the path.
	Also []string
	// Compile is what the policies are compiled with.
	Compile policy.Options
	// Check says what policies may refer to; whatever refers to something else is
	// refused. Together is always true.
	Check policy.CheckOptions
	// Interval between two looks. Default 1 s.
	Interval time.Duration
	// OnLoad is told of every Set that came into force after that of Open, OnError of
	// every change that did not, once. They are called by one goroutine after the
	// other and must not call Close.
	OnLoad  func(*policy.Set)
	OnError func(error)
	// Logger gets a line for each of both, and for warnings. Nil: none.
	Logger *slog.Logger
	// Now tells the time, to compare with the files' time stamps. Default time.Now.
	Now func() time.Time
}

// Source is a policy that is what its files say. It is safe for concurrent use.
type Source struct {
	opts   Options
	source *watch.Source[inForce]
	set    atomic.Pointer[policy.Set]
}

// inForce is a Set with what is to be said of it.
type inForce struct {
	set      *policy.Set
	warnings []policy.Finding
}

var _ policy.Source = (*Source)(nil)

// Status says what is in force and why it may be something else than what the files
// say.
type Status struct {
	// Version is of the Set in force, Files are what it was made of, Loaded is when.
	Version string
	Files   []string
	Loaded  time.Time
	// Loads counts the Sets that have come into force, that of Open among them.
	Loads uint64
	// Warnings are about what is in force.
	Warnings []policy.Finding
	// Err is nil if the files say what is in force. If it is a *[policy.CheckError], its
	// Findings say where what is wrong. Since is when it was seen.
	Err   error
	Since time.Time
}

// Open reads the policies and keeps following them until Close. It fails if they are
// wrong, because then there is nothing to be in force; a *[policy.CheckError] says
// where they are.
func Open(path string, opts Options) (*Source, error) {
	opts.Check.Together = true
	s := &Source{opts: opts}
	var err error
	s.source, err = watch.OpenSource(watch.SourceOptions[inForce]{
		Package: "policy/file", What: "a file or a directory with policies",
		Paths: append([]string{path}, opts.Also...), MaxFileBytes: policy.MaxFileBytes,
		Errors:   watch.Errors{TooLarge: ErrTooLarge, NotRegular: ErrNotRegular, Advice: "correct the path or split it"},
		Interval: opts.Interval, Now: opts.Now, Logger: opts.Logger,
		Load: s.load, Loaded: s.loaded, OnError: opts.OnError,
		Stays: "policies stay as they were", Again: "the policies' files say what is in force again",
		Attrs: func(f inForce) []any { return []any{"version", f.set.Version()} },
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Current implements [policy.Source]: the Set in force.
func (s *Source) Current() policy.Policy { return s.set.Load() }

// Set is what is in force.
func (s *Source) Set() *policy.Set { return s.set.Load() }

// Evaluate implements [policy.Policy] by the Set in force.
func (s *Source) Evaluate(req *policy.Request, candidates []policy.Candidate, plan *policy.Plan) {
	s.set.Load().Evaluate(req, candidates, plan)
}

// Status says how things stand. The caller must not modify what it refers to.
func (s *Source) Status() Status {
	w := s.source.Status()
	return Status{
		Version: w.Now.set.Version(), Files: w.Files, Loaded: w.Loaded, Loads: w.Loads, Warnings: w.Now.warnings,
		Err: w.Err, Since: w.Since,
	}
}

// Close ends following and waits until no hook runs. What is in force stays so.
// Further calls do nothing; the error is always nil.
func (s *Source) Close() error {
	s.source.Close()
	return nil
}

// Reload looks at the files now and takes what they say, without a second look. It
// returns the error that Status then has. It must not be called by a hook.
func (s *Source) Reload() error { return s.source.Reload() }

// load compiles what was read and puts it in force.
func (s *Source) load(files []watch.File) (inForce, error) {
	set, warnings, err := s.compile(files)
	if err != nil {
		if planted.BadPolicyRules {
			s.set.Store(new(policy.Set))
		}
		return inForce{}, err
	}
	s.set.Store(set)
	return inForce{set, warnings}, nil
}

func (s *Source) loaded(status *watch.Status[inForce], log *slog.Logger) {
	for _, w := range status.Now.warnings {
		log.Warn("policy", "finding", w.String())
	}
	log.Info("policies are in force", "version", status.Now.set.Version(), "files", len(status.Files))
	if status.Loads > 1 && s.opts.OnLoad != nil {
		s.opts.OnLoad(status.Now.set)
	}
}

// compile makes a Set of all files together.
func (s *Source) compile(seen []watch.File) (*policy.Set, []policy.Finding, error) {
	var files []*policy.File
	var findings []policy.Finding
	var specs []*policy.Spec
	for i := range seen {
		if len(bytes.TrimSpace(seen[i].Data)) == 0 {
			return nil, nil, fmt.Errorf("%w: %s is empty", ErrNoPolicy, seen[i].Path) // what a half-written one looks like
		}
		f, wrong := policy.Parse(seen[i].Path, seen[i].Data)
		files, specs, findings = append(files, f), append(specs, f.Specs...), append(findings, wrong...)
	}
	check := s.opts.Check
	if len(s.opts.Compile.Models) > 0 {
		check.Models = append(slices.Clip(check.Models), s.opts.Compile.Models...)
	}
	var errs, warnings []policy.Finding
	for _, f := range append(findings, policy.Check(files, check)...) {
		switch f.Severity {
		case policy.SeverityError:
			errs = append(errs, f)
		case policy.SeverityWarning:
			warnings = append(warnings, f)
		case policy.SeverityNote:
		default:
		}
	}
	if len(errs) > 0 {
		return nil, nil, &policy.CheckError{Findings: errs}
	}
	if len(specs) == 0 {
		return nil, nil, ErrNoPolicy
	}
	set, err := policy.Compile(s.opts.Compile, specs...)
	return set, warnings, err
}
