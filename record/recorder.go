package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
)

// ErrClosed is returned for what is asked of a Recorder after Close.
var ErrClosed = errors.New("record: the Recorder was closed")

// Recorder writes the log. Pass it to [kvsteer.WithHooks], of one Router: decisions are
// numbered by router. Close it after the Router. All methods are safe for concurrent
// use.
type Recorder struct {
	opts  Options
	queue *queue
	out   *writer
	once  sync.Once
	done  chan struct{} // closed when the writer has ended
	err   error         // of Close
}

var (
	_ kvsteer.HookFeatures  = (*Recorder)(nil)
	_ kvsteer.HookHeaders   = (*Recorder)(nil)
	_ kvsteer.HookRejection = (*Recorder)(nil)
	_ kvsteer.HookOutcome   = (*Recorder)(nil)
)

// New returns a Recorder that writes to w, from a goroutine of its own, one Write for
// several lines. What w does with an error is tried again with the next lines; after a
// part of a line the next begins on a line of its own. The caller closes w, after the
// Recorder.
func New(w io.Writer, o Options) (*Recorder, error) {
	if w == nil {
		return nil, errors.New("record: New takes no nil io.Writer")
	}
	if o.MaxBytes != 0 {
		return nil, errors.New("record: Options.MaxBytes is about files; use Open")
	}
	return start(&plain{w: w}, o)
}

// Open returns a Recorder that appends to the file of that path, which it makes if it
// is not there, readable for its owner only. If it can't be opened the error says so at
// once; the header comes with the first entry. Several may append to one file, as the
// routers before and after a change of configuration do.
func Open(path string, o Options) (*Recorder, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	f := &file{path: path, most: o.MaxBytes, keep: o.Keep}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return start(f, o)
}

func start(to sink, o Options) (*Recorder, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	r := &Recorder{opts: o, queue: newQueue(o.Buffer), done: make(chan struct{})}
	r.out = newWriter(to, &r.opts)
	go r.run()
	return r, nil
}

// OnDecision implements [kvsteer.HookDecision].
func (r *Recorder) OnDecision(d *kvsteer.Decision) {
	if r.sampled(d) {
		r.queue.put(&item{at: r.opts.Now(), decision: d})
	}
}

// WantsFeatures implements [kvsteer.HookFeatures].
func (r *Recorder) WantsFeatures() {}

// WantsHeaders implements [kvsteer.HookHeaders].
func (r *Recorder) WantsHeaders() []string { return slices.Clone(r.opts.Headers) }

// OnRejection implements [kvsteer.HookRejection].
func (r *Recorder) OnRejection(d *kvsteer.Decision, err *kvsteer.Error) {
	if d == nil || !r.sampled(d) {
		return
	}
	why := kvsteer.CodeRejectedByPolicy
	if err != nil {
		why = err.Code
	}
	r.queue.put(&item{at: r.opts.Now(), decision: d, rejected: why.String()})
}

// OnOutcome implements [kvsteer.HookOutcome].
func (r *Recorder) OnOutcome(o *kvsteer.Outcome) {
	if !r.sampled(o.Decision) {
		return
	}
	out := Outcome{
		Decision: o.Decision.ID, TTFT: o.TTFT, Duration: o.Duration, Usage: o.Usage,
		CachedPredicted: o.CachedPredicted, Error: kind(o.Err), Reaped: o.Reaped, Left: o.Left,
	}
	if o.Moved {
		out.Moved, out.Served = true, o.Served.Worker
	}
	r.queue.put(&item{at: r.opts.Now(), outcome: out})
}

// kind names an error without what it says.
func kind(err error) string {
	if err == nil {
		return ""
	}
	code := kvsteer.CodeOf(err)
	switch {
	case code != 0:
		return code.String()
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	default:
		return "failed"
	}
}

// sampled reports whether a request is to be recorded. Draw is that of the session, if
// the request has one, and the same for all attempts.
func (r *Recorder) sampled(d *kvsteer.Decision) bool {
	if r.opts.Sample <= 1 {
		return true
	}
	return scatter(d.Request.Draw)%uint64(r.opts.Sample) == 0
}

// scatter makes another number of x, so that what is sampled has nothing to do with
// how policies split requests by the same number (the finaliser of SplitMix64).
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Status says how recording goes. Counts are since the Recorder began.
type Status struct {
	// Decisions, rejections among them, and Outcomes were written, in so many Bytes.
	Decisions, Outcomes, Bytes uint64
	// Dropped entries found the buffer full, Failed ones could not be encoded or
	// written. The log says where either are missing, as soon as it can be written.
	Dropped, Failed uint64
	// Waiting entries are in the buffer.
	Waiting int
	// Errors counts failed attempts to write, or to begin another file. LastError is the
	// last of them, at LastErrorAt; Failing: nothing was written since.
	Errors      uint64
	LastError   error
	LastErrorAt time.Time
	Failing     bool
}

// Status says how recording goes.
func (r *Recorder) Status() Status {
	s := r.out.status()
	s.Waiting, s.Dropped = r.queue.counts()
	return s
}

// Flush waits until everything that came before is written, or could not be; the error
// is then that of writing, or that of ctx.
func (r *Recorder) Flush(ctx context.Context) error { return r.ask(ctx, false) }

// Reopen closes the file and opens one of the same name, after what came before was
// written: for logrotate and the like, when they have renamed it. It fails for a
// Recorder of [New].
func (r *Recorder) Reopen(ctx context.Context) error { return r.ask(ctx, true) }

func (r *Recorder) ask(ctx context.Context, reopen bool) error {
	a := ask{reopen: reopen, done: make(chan error, 1)}
	if !r.queue.request(a) {
		return ErrClosed
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close writes what waits and ends the Recorder; what comes later is dropped. It waits
// for Options.CloseTimeout at most: a Write that hangs can't be ended, and the
// goroutine in it then ends when that returns. The error says what did not get into
// the log because writing failed or took too long. It is idempotent.
func (r *Recorder) Close() error {
	r.once.Do(func() {
		r.queue.close()
		timer := time.NewTimer(r.opts.CloseTimeout)
		defer timer.Stop()
		select {
		case <-r.done:
		case <-timer.C:
			r.out.abandon()
			held, _ := r.queue.counts()
			r.err = fmt.Errorf("record: %d entries were not written within %s", held, r.opts.CloseTimeout)
			return
		}
		s := r.out.status()
		if s.Failed > 0 || s.Failing {
			r.err = fmt.Errorf("record: %d entries are not in the log, the last error: %w", s.Failed, s.LastError)
		}
	})
	return r.err
}
