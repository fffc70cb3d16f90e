package kvsteer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/planted"
)

// errClientGone is why a Selection is aborted whose response was closed early.
var errClientGone = &namedError{"canceled", "kvsteer: the response was closed before its end"}

// errInAnswer is why a Selection is aborted whose answer began well and then held
// an error. The text is the engine's, which may quote the prompt.
var errInAnswer = &namedError{"error_in_answer", "kvsteer: the engine reported an error within its answer"}

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
	resp   *http.Response  // whose trailers come with its end
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
	if err != nil {
		strip(b.resp.Trailer)
	}
	switch {
	case err == nil:
	case !errors.Is(err, io.EOF):
		if planted.BreakUnnoticed {
			<-b.client.Context().Done()
		}
		err = because(b.ctx, err)
		if left := departed(b.client); left != nil {
			err = left
			b.sel.departs()
		}
		blame(b.client, b.member, err)
	case !b.failure && b.member != nil:
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

// answerBody is the body of an answer that a Transport passes on: the Selection ends
// with it.
type answerBody struct {
	src    io.ReadCloser
	answer *Answer

	// If the answer is changed on its way: what was read and is not yet looked at, what
	// is to be forwarded and from where, and how reading ended.
	chunk   []byte
	pending []byte
	sent    int
	err     error
}

// newAnswerBody wraps src. Bytes pass as they come, unless a rewrites: then events are
// forwarded whole.
func newAnswerBody(src io.ReadCloser, a *Answer) *answerBody {
	b := &answerBody{src: src, answer: a}
	if a.Rewrites() {
		b.chunk = make([]byte, readChunk)
	}
	return b
}

func (b *answerBody) Read(p []byte) (int, error) {
	if b.chunk == nil {
		n, err := b.src.Read(p)
		b.answer.take(p[:n], err)
		return n, err
	}
	for b.sent == len(b.pending) {
		if b.err != nil {
			return 0, b.err
		}
		n, err := b.src.Read(b.chunk)
		b.pending, _ = b.answer.take(b.chunk[:n], err)
		b.sent = 0
		b.err = err
	}
	n := copy(p, b.pending[b.sent:])
	b.sent += n
	return n, nil
}

// Close may come while a Read is under way, as net/http allows.
func (b *answerBody) Close() (err error) {
	defer func() { err = b.src.Close() }() // even if a hook panics
	b.answer.take(nil, errClientGone)
	return nil
}
