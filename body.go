package kvsteer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/sse"
	"github.com/kvsteer/kvsteer/internal/usage"
)

// errClientGone is why a Selection is aborted whose response was closed early.
var errClientGone = errors.New("kvsteer: the response was closed before its end")

// errInAnswer is why a Selection is aborted whose answer began well and then held
// an error. The text is the engine's, which may quote the prompt.
var errInAnswer = errors.New("kvsteer: the engine reported an error within its answer")

const readChunk = 32 << 10

// peek waits for the first bytes of a response; its body then begins with them.
// It fails if the answer broke off with them, or was empty without having said so.
func peek(resp *http.Response) error {
	buf := make([]byte, readChunk)
	for {
		n, err := resp.Body.Read(buf)
		switch {
		case err == nil && n == 0:
			continue
		case errors.Is(err, io.EOF) && n == 0 && resp.ContentLength != 0:
			return io.ErrUnexpectedEOF
		case err != nil && !errors.Is(err, io.EOF):
			return err
		default:
			resp.Body = &peeked{first: buf[:n], err: err, rest: resp.Body}
			return nil
		}
	}
}

// peeked is a body whose first bytes were read already.
type peeked struct {
	first []byte
	err   error // that came with first
	rest  io.ReadCloser
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) == 0 && p.err == nil {
		return p.rest.Read(b)
	}
	n := copy(b, p.first)
	p.first = p.first[n:]
	if len(p.first) > 0 {
		return n, nil
	}
	return n, p.err // with the last bytes: a reader may never come back for it
}

func (p *peeked) Close() error { return p.rest.Close() }

// attemptBody is the body of a worker's answer: it keeps the Selection from being
// taken for forgotten while a read waits, reports a worker that breaks off, and
// releases the attempt's context when it is closed.
type attemptBody struct {
	io.ReadCloser

	client *http.Request   // to tell whose fault an error is
	ctx    context.Context //nolint:containedctx // the attempt's, which cancel ends
	cancel context.CancelCauseFunc
	sel    *Selection
	member *fleet.Member
	// failure: the answer, however whole, is none that speaks for the worker.
	failure bool
	// idle bounds each read if it is positive; watch is the timer for it.
	idle  time.Duration
	watch *time.Timer
}

func (b *attemptBody) Read(p []byte) (int, error) {
	b.sel.hold()
	switch {
	case b.idle <= 0:
	case b.watch == nil:
		b.watch = time.AfterFunc(b.idle, func() { b.cancel(errIdle) })
	default:
		b.watch.Reset(b.idle)
	}
	n, err := b.ReadCloser.Read(p)
	if b.watch != nil {
		b.watch.Stop()
	}
	b.sel.Touch()
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		err = because(b.ctx, err)
		if left := departed(b.client); left != nil {
			err = left
		}
		blame(b.client, b.member, err)
	case !b.failure:
		b.member.ReportSuccess() // not before the end: some break off every answer
	default:
	}
	return n, err
}

// Close cancels first, so that a read under way fails as cancelled: what the
// client breaks off is not the worker's failure.
func (b *attemptBody) Close() error {
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// ending ends a Selection once, as its body ends. The mutex lets Close come
// while a Read is under way, as net/http allows.
type ending struct {
	sel *Selection

	mu       sync.Mutex
	reader   usage.Reader
	complete bool // the response said that it was whole
	failed   bool // the response holds an error in place of (more) content
	over     bool // finish was called
}

// ends makes e end sel.
func (e *ending) ends(sel *Selection) {
	e.sel = sel
	e.reader.WantIDs, _ = sel.parsed.object.Value("return_token_ids").Bool()
	e.reader.WantResponse = sel.parsed.api == Responses
}

// usage is what the response reported so far.
func (e *ending) usage() Usage {
	return usageOf(&e.reader)
}

// usageOf is what was reported to r.
func usageOf(r *usage.Reader) Usage {
	u, known := r.Usage()
	return Usage{
		Uncached: u.Uncached, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Output: u.Output, Reasoning: u.Reasoning, Known: known, CachedKnown: u.CachedKnown,
	}
}

// finish is called with the error that ended reading, or errClientGone. What
// usage was reported until then counts in any case.
func (e *ending) finish(err error) {
	e.over = true
	switch {
	case e.failed:
		err = errInAnswer
	case errors.Is(err, io.EOF) || e.complete:
		err = nil
	default:
	}
	if ids := e.reader.PromptIDs(); ids != nil {
		e.sel.reported(ids)
	}
	if id := e.reader.ResponseID(); id != "" {
		e.sel.answered(id)
	}
	e.sel.end(e.usage(), err, false)
}

// plainBody passes bytes through and ends the Selection with them: an error
// answer, or content that is not looked into.
type plainBody struct {
	io.ReadCloser

	sel   *Selection
	cause error // why the answer is no success, nil if it is one
}

func newPlainBody(src io.ReadCloser, sel *Selection, cause error) *plainBody {
	return &plainBody{ReadCloser: src, sel: sel, cause: cause}
}

func (b *plainBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF) && b.cause == nil:
		b.sel.Done(Usage{})
	case errors.Is(err, io.EOF):
		b.sel.Abort(b.cause)
	default:
		b.sel.Abort(err)
	}
	return n, err
}

func (b *plainBody) Close() error {
	b.sel.Abort(errClientGone)
	return b.ReadCloser.Close()
}

// jsonBody passes a JSON response through and reads its usage at the end.
type jsonBody struct {
	ending

	src   io.ReadCloser
	kept  []byte
	large bool // beyond maxKept
}

// maxKept bounds how much of a JSON response is kept to read its usage from; the
// usage of a longer one is unknown.
const maxKept = 8 << 20

func newJSONBody(src io.ReadCloser, sel *Selection) *jsonBody {
	b := &jsonBody{src: src}
	b.ends(sel)
	return b
}

func (b *jsonBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return n, err
	}
	if b.large = b.large || len(b.kept)+n > maxKept; b.large {
		b.kept = nil
	} else {
		b.kept = append(b.kept, p[:n]...)
	}
	if err != nil {
		b.conclude(err)
	}
	return n, err
}

// conclude reads what was kept. A decoder stops at the end of the value and never
// asks for the EOF after it: a whole value is a whole answer. b.mu is held.
func (b *jsonBody) conclude(err error) {
	if b.over {
		return
	}
	if v, bad := jsonscan.ParseValue(b.kept, 0); bad == nil && v.Kind() == jsonscan.KindObject {
		b.complete = true
		b.failed = b.reader.Read(b.kept).Has(usage.Failed)
	}
	b.kept = nil
	b.finish(err)
}

func (b *jsonBody) Close() (err error) {
	defer func() { err = b.src.Close() }() // even if a hook panics
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conclude(errClientGone)
	return nil
}

// streamBody passes server-sent events through, watching for the first token,
// the usage and the end.
type streamBody struct {
	ending

	src io.ReadCloser
	// swallow takes out the usage chunk that only we asked for; events are then
	// forwarded whole, else bytes as they come.
	swallow bool
	scan    sse.Scanner
	chunk   []byte // read but not yet scanned
	pending []byte // scanned; from sent on not yet forwarded
	sent    int
	err     error
}

func newStreamBody(src io.ReadCloser, sel *Selection, swallow bool) *streamBody {
	b := &streamBody{src: src, swallow: swallow}
	b.ends(sel)
	if swallow {
		b.chunk = make([]byte, readChunk)
	}
	return b
}

func (b *streamBody) Read(p []byte) (int, error) {
	if !b.swallow {
		n, err := b.src.Read(p)
		b.observe(p[:n], err)
		return n, err
	}
	for b.sent == len(b.pending) {
		if b.err != nil {
			return 0, b.err
		}
		n, err := b.src.Read(b.chunk)
		b.observe(b.chunk[:n], err)
		b.err = err
	}
	n := copy(p, b.pending[b.sent:])
	b.sent += n
	return n, nil
}

// observe looks at what came; when swallowing it also decides what goes on.
func (b *streamBody) observe(p []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending, b.sent = b.pending[:0], 0
	b.scan.Feed(p, b.event)
	if err != nil {
		b.scan.Flush(b.event)
		b.finish(err)
	}
}

func (b *streamBody) event(ev sse.Event) {
	drop := false
	if ev.HasData {
		if ev.Done() {
			b.complete = true
		}
		c := b.reader.Read(ev.Data)
		if c.Has(usage.Content) {
			b.sel.FirstToken()
		}
		b.failed = b.failed || c.Has(usage.Failed)
		drop = c.Has(usage.UsageOnly)
		switch string(ev.Name) {
		case "message_stop", "response.completed", "response.incomplete", "response.failed":
			b.complete = true
		default:
		}
	}
	if b.swallow && !drop {
		b.pending = append(b.pending, ev.Raw...)
	}
}

func (b *streamBody) Close() (err error) {
	defer func() { err = b.src.Close() }() // even if a hook panics
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.finish(errClientGone)
	}
	return nil
}
