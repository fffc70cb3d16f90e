package watch

import (
	"context"
	"sync"
	"time"
)

// Options are for [Open]. All but Paths of more than one file must be given.
type Options struct {
	// Paths are files, and directories of which all *.yaml, *.yml and *.json count, in
	// directories below as well, but for names that begin with a dot.
	Paths []string
	// Interval is between two looks.
	Interval time.Duration
	// MaxFileBytes bounds each file.
	MaxFileBytes int64
	// Now tells the time, to compare with the files' time stamps.
	Now func() time.Time
	// Errors are wrapped in those about files as such.
	Errors Errors
	// Load makes of all files what is in force, or says why it can't, and then leaves
	// what was. It must not keep the files' data.
	Load func([]File) error
	// Retry: Load depends on more than the files, so what it refused is tried again at each
	// look. It is told again only if it is refused for another reason.
	Retry bool
	// Failed is told of each change that is not in force, once; Restored that after that
	// the files are what is in force again. They, and Load, are called by one goroutine after the other.
	Failed   func(error)
	Restored func()
}

// Files follows files until Close. It is safe for concurrent use.
type Files struct {
	opts Options

	looking sync.Mutex // held for a whole look, calls of the user's code included
	good    look       // what is in force
	bad     look       // what was reported, for
	badErr  error      // this reason
	last    look       // what was seen last
	acted   bool       // on last: what was seen once only is looked at again, whatever its stamps

	stop func()
	done chan struct{}
}

// Open loads the files and keeps following them. It fails if they can't be loaded.
func Open(opts Options) (*Files, error) {
	f := &Files{opts: opts, done: make(chan struct{})}
	seen, err := f.read()
	if err == nil {
		err = f.load(&seen)
	}
	if err != nil {
		return nil, err
	}
	f.last, f.acted = seen, true
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go f.follow(ctx)
	return f, nil
}

// Close ends following and waits until none of the user's code runs. Further calls do
// nothing.
func (f *Files) Close() {
	f.stop()
	<-f.done
}

func (f *Files) follow(ctx context.Context) {
	defer close(f.done)
	ticker := time.NewTicker(f.opts.Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			f.look()
		}
	}
}

// Reload looks at the files now and takes what they say, without a second look. The
// error says why what is in force is something else. It must not be called by the
// user's code that Options hold.
func (f *Files) Reload() error {
	f.looking.Lock()
	defer f.looking.Unlock()
	seen, err := f.read()
	err = f.act(&seen, err)
	f.last, f.acted = seen, true
	return err
}

// look looks at the files, and acts on what two looks in a row have seen.
func (f *Files) look() {
	f.looking.Lock()
	defer f.looking.Unlock()
	if f.acted && f.unchanged(&f.last) && !f.retries() {
		return
	}
	seen, err := f.read()
	f.acted = seen.same(&f.last)
	if f.acted {
		_ = f.act(&seen, err) // Failed was told
	}
	seen.drop()
	f.last = seen
}

// act makes of what was seen what is in force, or reports why it can't.
func (f *Files) act(seen *look, err error) error {
	switch {
	case seen.same(&f.good):
		if f.bad.known {
			f.bad, f.badErr = look{}, nil
			f.opts.Restored()
		}
		return nil
	case seen.same(&f.bad) && (err != nil || !f.opts.Retry):
		return f.badErr // reported before
	case err == nil:
		err = f.load(seen)
	}
	if err == nil {
		f.bad, f.badErr = look{}, nil
		return nil
	}
	seen.drop()
	news := !seen.same(&f.bad) || err.Error() != f.badErr.Error()
	f.bad, f.badErr = *seen, err
	if news {
		f.opts.Failed(err)
	}
	return err
}

// retries reports whether what was refused may be taken now.
func (f *Files) retries() bool { return f.opts.Retry && f.bad.known && f.last.same(&f.bad) }

func (f *Files) load(seen *look) error {
	if err := f.opts.Load(seen.files); err != nil {
		return err
	}
	seen.drop()
	f.good = *seen
	return nil
}
