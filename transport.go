package kvsteer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Transport is an [http.RoundTripper] that sends each request to the worker that
// a [Router] chooses: it selects, rewrites, forwards, tries the next worker while
// nothing has reached the client, sees the first token and the usage pass by,
// and releases the booking on end, error, cancellation or early Close.
//
// The request's URL need only have the path; scheme and host are replaced. The
// paths of [API] are routed by prompt, GET /v1/models (and below it one model) is
// answered with the union of what the fleet serves, or what of it Describe leaves, and
// any other path goes to the least loaded worker, of those that serve the model if the
// body names one.
// Errors of the router's own are *Error; [WriteError] answers a client with them.
// A Transport is safe for concurrent use.
type Transport struct {
	router    *Router
	base      http.RoundTripper
	ask       bool // for usage in streams
	firstByte time.Duration
	idle      time.Duration
	forward   func(r *http.Request) bool
	describe  func(r *http.Request, q *Request)
	decided   func(r *http.Request, d *Decision)
}

// TransportOptions are the settings of [NewTransport]. The zero value works.
type TransportOptions struct {
	// Base does the sending. Nil means an [http.Transport] made for the purpose: no
	// proxy, no compression, many idle connections per worker.
	Base http.RoundTripper
	// KeepStreamOptions leaves stream_options as the client sent it. By default
	// usage is asked for in every OpenAI stream, so that predictions can be
	// checked, and the extra chunk is taken out again if the client had not asked.
	KeepStreamOptions bool
	// FirstByteTimeout bounds the wait for a worker's first byte in one attempt,
	// queueing and, for answers that don't stream, the whole generation included.
	// Then the next worker is tried. 0 means 30 minutes; negative means that only
	// the request's context bounds it.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds the wait for more of an answer that has begun. Then the
	// answer ends with an error: it is too late to try another worker. Engines
	// pause a stream while they preempt its request, seldom for a minute. 0 means
	// 10 minutes; negative means that only the request's context bounds it.
	IdleTimeout time.Duration
	// Describe, if set, may complete what the Transport knows of a request with a
	// prompt before a worker is chosen: its Tenant, Priority, Session and targets,
	// from what the gateway has established. It must not change API and Body. It is also
	// asked about requests without a prompt, which have no API: for their Pool and Among
	// (lists of models too) and, where they bring a body, which the policy is asked about,
	// Tenant, QoS and Tags.
	Describe func(r *http.Request, q *Request)
	// OnDecision, if set, is told of the Decision of each attempt before it is sent,
	// by the request that it is about, so that the gateway can name the worker in its
	// log or in a header of the answer. The Decision may be kept. It must not block.
	OnDecision func(r *http.Request, d *Decision)
	// Forward says which requests that carry no prompt are forwarded at all; the others
	// are answered with a CodeNotForwarded. Nil means [DefaultForward], and what providers
	// have in their Paths.
	Forward func(r *http.Request) bool
}

// errFirstByte is why an attempt is given up whose worker went silent.
var errFirstByte error = &slowError{"kvsteer: the worker sent nothing within FirstByteTimeout"}

// errIdle is why an answer is cut off that stopped in the middle.
var errIdle error = &slowError{"kvsteer: the worker sent nothing more within IdleTimeout"}

// errUnhandled is why a Selection ends whose Transport panicked.
var errUnhandled = errors.New("kvsteer: the base transport panicked")

const (
	defaultFirstByte   = 30 * time.Minute
	defaultIdle        = 10 * time.Minute
	dialTimeout        = 5 * time.Second
	tlsTimeout         = 10 * time.Second
	idlePerWorker      = 512
	idleTimeout        = 90 * time.Second
	pathModels         = "/v1/models"
	contentEventStream = "text/event-stream"
	contentJSON        = "application/json"
	// maxPrealloc is how much memory a declared Content-Length is given before any
	// of the body has come: clients may announce what they never send.
	maxPrealloc = 1 << 20
)

// NewTransport returns a Transport over r, which must not be nil. The caller closes r.
func NewTransport(r *Router, o TransportOptions) *Transport {
	if r == nil {
		panic("kvsteer: NewTransport needs a Router; was the error of New checked?")
	}
	base := o.Base
	if base == nil {
		base = NewBase()
	}
	if o.FirstByteTimeout == 0 {
		o.FirstByteTimeout = defaultFirstByte
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultIdle
	}
	return &Transport{
		router: r, base: base, ask: !o.KeepStreamOptions, firstByte: o.FirstByteTimeout, idle: o.IdleTimeout,
		forward: o.Forward, describe: o.Describe, decided: o.OnDecision,
	}
}

// CloseIdleConnections closes the base transport's idle connections.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	// Some engines serve a path with a slash behind it, too: it is no way round.
	api, ok := prompt.APIForPath(strings.TrimSuffix(req.URL.Path, "/"))
	switch {
	case ok && req.Method == http.MethodPost:
		return t.route(req, api)
	case req.Method == http.MethodGet && strings.TrimSuffix(req.URL.Path, "/") == pathModels:
		closeBody(req)
		resp, err := t.models(req)
		return t.listed("", resp, err)
	case req.Method == http.MethodGet && strings.HasPrefix(req.URL.Path, pathModels+"/"):
		closeBody(req)
		name := strings.TrimSuffix(strings.TrimPrefix(req.URL.Path, pathModels+"/"), "/")
		resp, err := t.model(req, name)
		return t.listed(name, resp, err)
	default:
		return t.byLoad(req)
	}
}

// route serves a request that carries a prompt.
func (t *Transport) route(req *http.Request, api API) (*http.Response, error) {
	body, err := t.readBody(req)
	if err != nil {
		return nil, t.unread(api.String(), err)
	}
	ctx := req.Context()
	q := &Request{API: api, Body: body}
	q.came(req)
	if t.describe != nil {
		t.describe(req, q)
	}
	sel, err := t.router.Select(ctx, q)
	if err != nil {
		return nil, err
	}
	handed := false
	defer func() {
		if !handed {
			sel.Abort(errUnhandled) // does nothing unless the base transport panicked
		}
	}()
	for untaken, attempts := 0, 1; ; attempts++ {
		if t.decided != nil {
			t.decided(req, sel.Decision())
		}
		resp, cause := t.attempt(req, sel)
		if resp != nil && cause == nil {
			sel.MarkAnswer(resp.Header)
			handed = true
			return resp, nil
		}
		if left := departed(req); left != nil {
			discard(resp)
			if planted.CancelKeeps {
				handed = true
				return nil, left
			}
			sel.leave(left)
			return nil, &Error{Code: CodeCanceled, Err: left}
		}
		if refused := outsideOnly(cause); refused != nil {
			discard(resp)
			sel.fail(cause)
			return nil, refused
		}
		if unsupported(cause) {
			untaken++
		}
		nextErr := sel.advance(ctx, cause) // whose fault it was is told already
		if nextErr == nil {
			discard(resp)
			continue
		}
		if resp != nil { // the worker's own answer says more than ours could
			sel.MarkAnswer(resp.Header)
			resp.Body = newAnswerBody(resp.Body, newAnswer(sel, plainAnswer, cause))
			handed = true
			return resp, nil
		}
		sel.fail(cause)
		if untaken == attempts {
			return nil, untranslated(cause)
		}
		return nil, nextErr
	}
}

// attempt sends the request to the Selection's current target and waits for the
// first byte of the answer. A response with a cause is one that another worker
// might better.
func (t *Transport) attempt(req *http.Request, sel *Selection) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	var timer *time.Timer
	if t.firstByte > 0 {
		timer = time.AfterFunc(t.firstByte, func() { cancel(errFirstByte) })
		defer timer.Stop()
	}
	sel.hold()
	defer sel.Touch()
	member := sel.drive(cancel)
	req, err := t.prefill(ctx, req, sel)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	out, swallow := t.outgoing(req.WithContext(ctx), sel)
	target := sel.Target()
	resp, err := target.through(t.base).RoundTrip(out)
	if err != nil {
		if planted.KeyInError {
			err = fmt.Errorf("%w for %s", err, out.Header.Get("Authorization"))
		}
		err = because(ctx, err)
		cancel(nil)
		blame(req, member, err)
		return nil, err
	}
	relocate(resp, target.URL)
	strip(resp.Trailer)
	if planted.AnswersTwice {
		resp.Body = planted.Again(resp.Body, out, target.through(t.base))
	}
	failed := failureOf(resp)
	body := &attemptBody{
		ReadCloser: resp.Body, client: req, resp: resp, ctx: ctx, cancel: cancel, sel: sel, member: member,
		failure: retryable(resp.StatusCode),
	}
	resp.Body = body
	switch {
	case failed != nil && failed.Class.FallsBack():
		return resp, &outsideError{target.Provider, *failed}
	case failed != nil: // nobody else is to be asked
	case body.failure:
		cause := &statusError{status: resp.StatusCode}
		if resp.StatusCode != http.StatusTooManyRequests { // which is no sign of ill health
			blame(req, member, cause)
		}
		return resp, cause
	}
	if resp.StatusCode == http.StatusOK {
		// Nothing reaches the client before the first byte is here, so that until then
		// another worker can be tried.
		err = peek(resp)
	}
	if err == nil && timer != nil && !timer.Stop() {
		err = errFirstByte // it went off at the last moment, and cancelled what is to come
	}
	body.idle = t.idle
	if err != nil {
		_ = body.Close() // err says more
		blame(req, member, err)
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		resp.Body = newAnswerBody(resp.Body, newAnswer(sel, plainAnswer, &statusError{status: resp.StatusCode}))
		return resp, nil
	}
	a := newAnswer(sel, answerKindOf(resp.StatusCode, resp.Header), nil)
	if a.kind == eventAnswer {
		a.swallow = swallow
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	}
	resp.Body = newAnswerBody(resp.Body, a)
	return resp, nil
}

// departed returns why the request's sender no longer waits, nil while it does.
func departed(req *http.Request) error {
	if req.Context().Err() != nil {
		return context.Cause(req.Context())
	}
	select {
	case <-req.Cancel: //nolint:staticcheck // deprecated, but http.Client's Timeout may close it before its context ends
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// blame reports a failure to the fleet, unless it is the sender's own doing.
func blame(req *http.Request, m *fleet.Member, err error) {
	if m != nil && departed(req) == nil && !errors.Is(err, errReaped) {
		m.ReportFailure(err)
	}
}

// because prefers the reason for which we cancelled to the error that followed, which does
// not quote the worker.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return unquoted(err)
}

// outgoing builds the request for the current target. swallow says that usage
// was asked for on our own account.
func (t *Transport) outgoing(req *http.Request, sel *Selection) (out *http.Request, swallow bool) {
	target := sel.Target()
	body := sel.Body()
	if t.ask {
		body, swallow = sel.withUsage()
	}
	if planted.BodyEncodedAnew {
		body = planted.Encode(body)
	}
	swallow = swallow && !planted.UsagePassed
	out = readdress(req, target.base())
	// The body is here already, so there is nothing to wait for.
	out.Header.Del("Expect")
	repeatOnceMore(out.Header)
	// Usage and the first token are read from the body as it passes.
	out.Header.Set("Accept-Encoding", "identity")
	maps.Copy(out.Header, target.Header)
	for _, name := range target.Remove {
		out.Header.Del(name)
	}
	setBody(out, body)
	return out, swallow
}

// repeatOnceMore lets net/http send a request again over a new connection. A worker
// that restarted has closed connections that we keep for it, which shows only
// after the request was written. What another worker may be asked instead, this one
// may be asked again: a key without value says so to net/http, and is not sent.
func repeatOnceMore(h http.Header) {
	const key = "X-Idempotency-Key"
	if _, ok := h[key]; !ok {
		h[key] = nil
	}
}

func (t *Transport) readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	defer closeBody(req)
	limit := t.router.opts.maxBody
	if req.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var body []byte
	if n := req.ContentLength; n > 0 {
		body = make([]byte, 0, min(n, maxPrealloc)+1) // one more, so that the end is seen without growing
	}
	body, err := appendAll(body, io.LimitReader(req.Body, limit+1))
	switch {
	case err != nil && req.Context().Err() != nil:
		return nil, canceled(req.Context())
	case err != nil:
		var tooBig *http.MaxBytesError
		if errors.As(err, &tooBig) {
			return nil, tooLarge(tooBig.Limit)
		}
		return nil, badRequest(err, "the body could not be read")
	case int64(len(body)) > limit:
		return nil, tooLarge(limit)
	default:
		return body, nil
	}
}

// retryable reports whether another worker might answer where this one did not.
func retryable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	default:
		return false
	}
}
