package kvsteer

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/kvsteer/kvsteer/internal/sse"
	"github.com/kvsteer/kvsteer/internal/usage"
)

// errClientGone is why a Selection is aborted whose response was closed early.
var errClientGone = errors.New("kvsteer: the response was closed before its end")

const readChunk = 32 << 10

// peek waits for the first bytes of a response.
func peek(body io.Reader) ([]byte, error) {
	buf := make([]byte, readChunk)
	for {
		n, err := body.Read(buf)
		if n > 0 || err != nil {
			return buf[:n], err
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
	if len(p.first) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	if p.err != nil {
		return 0, p.err
	}
	return p.rest.Read(b)
}

func (p *peeked) Close() error { return p.rest.Close() }

// cancelBody releases the context of an attempt when its body is closed.
type cancelBody struct {
	io.ReadCloser

	cancel context.CancelCauseFunc
}

func (b *cancelBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}

// ending ends a Selection once, as its body ends. The mutex lets Close come
// while a Read is under way, as net/http allows.
type ending struct {
	sel *Selection

	mu       sync.Mutex
	reader   usage.Reader
	complete bool // the response said that it was whole
}

// usage is what the response reported so far.
func (e *ending) usage() Usage {
	u, known := e.reader.Usage()
	return Usage{
		Uncached: u.Uncached, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
		Output: u.Output, Reasoning: u.Reasoning, Known: known, CachedKnown: u.CachedKnown,
	}
}

// finish is called with the error that ended reading, or errClientGone.
func (e *ending) finish(err error) {
	if errors.Is(err, io.EOF) || e.complete {
		e.sel.Done(e.usage())
		return
	}
	e.sel.Abort(err)
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
	b.sel.touch()
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

	src  io.ReadCloser
	kept []byte
	over bool
}

// maxKept bounds how much of a JSON response is kept to read its usage from; the
// usage of a longer one is unknown.
const maxKept = 8 << 20

func newJSONBody(src io.ReadCloser, sel *Selection) *jsonBody {
	return &jsonBody{ending: ending{sel: sel}, src: src}
}

func (b *jsonBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sel.touch()
	if b.over = b.over || len(b.kept)+n > maxKept; b.over {
		b.kept = nil
	} else {
		b.kept = append(b.kept, p[:n]...)
	}
	if err != nil {
		b.reader.Read(b.kept)
		b.finish(err)
	}
	return n, err
}

func (b *jsonBody) Close() error {
	b.mu.Lock()
	b.finish(errClientGone)
	b.mu.Unlock()
	return b.src.Close()
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
	b := &streamBody{ending: ending{sel: sel}, src: src, swallow: swallow}
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
	b.sel.touch()
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

func (b *streamBody) Close() error {
	b.mu.Lock()
	b.finish(errClientGone)
	b.mu.Unlock()
	return b.src.Close()
}
