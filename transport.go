package kvsteer

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Transport is an [http.RoundTripper] that sends each request to the worker that
// a [Router] chooses: it selects, rewrites, forwards, tries the next worker while
// nothing has reached the client, sees the first token and the usage pass by,
// and releases the booking on end, error, cancellation or early Close.
//
// The request's URL need only have the path; scheme and host are replaced. The
// paths of [API] are routed by prompt, GET /v1/models is answered with the union
// of what the fleet serves, and any other path goes to the least loaded worker.
// Errors of the router's own are *Error; [WriteError] answers a client with them.
// A Transport is safe for concurrent use.
type Transport struct {
	router    *Router
	base      http.RoundTripper
	ask       bool // for usage in streams
	firstByte time.Duration
	forward   func(r *http.Request) bool
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
	// Forward says which requests that carry no prompt go to a worker at all; the
	// others are answered with a CodeNotForwarded. Nil means [DefaultForward].
	Forward func(r *http.Request) bool
}

// errFirstByte is why an attempt is given up whose worker went silent.
var errFirstByte = errors.New("kvsteer: the worker sent nothing within FirstByteTimeout")

const (
	defaultFirstByte   = 30 * time.Minute
	dialTimeout        = 5 * time.Second
	idlePerWorker      = 512
	idleTimeout        = 90 * time.Second
	headerInternal     = "X-Kvsteer-" // internal headers: stripped from what clients send
	pathModels         = "/v1/models"
	contentEventStream = "text/event-stream"
)

// NewTransport returns a Transport over r. The caller closes r.
func NewTransport(r *Router, o TransportOptions) *Transport {
	base := o.Base
	if base == nil {
		base = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			MaxIdleConnsPerHost: idlePerWorker,
			IdleConnTimeout:     idleTimeout,
			DisableCompression:  true,
		}
	}
	if o.FirstByteTimeout == 0 {
		o.FirstByteTimeout = defaultFirstByte
	}
	if o.Forward == nil {
		o.Forward = DefaultForward
	}
	return &Transport{
		router: r, base: base, ask: !o.KeepStreamOptions, firstByte: o.FirstByteTimeout, forward: o.Forward,
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
	api, ok := prompt.APIForPath(req.URL.Path)
	switch {
	case ok && req.Method == http.MethodPost:
		return t.route(req, api)
	case req.Method == http.MethodGet && strings.TrimSuffix(req.URL.Path, "/") == pathModels:
		closeBody(req)
		return t.models(req)
	default:
		return t.byLoad(req)
	}
}

// route serves a request that carries a prompt.
func (t *Transport) route(req *http.Request, api API) (*http.Response, error) {
	body, err := t.readBody(req)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	sel, err := t.router.Select(ctx, &Request{API: api, Body: body, Header: req.Header})
	if err != nil {
		return nil, err
	}
	for {
		resp, cause := t.attempt(req, sel)
		if resp != nil && cause == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			discard(resp)
			sel.Abort(context.Cause(ctx))
			return nil, canceled(ctx)
		}
		nextErr := sel.Next(ctx, cause)
		if nextErr == nil {
			discard(resp)
			continue
		}
		if resp != nil { // the worker's own answer says more than ours could
			resp.Body = newPlainBody(resp.Body, sel, cause)
			return resp, nil
		}
		sel.Abort(cause)
		return nil, nextErr
	}
}

// attempt sends the request to the Selection's current target and waits for the
// first byte of the answer. A response with a cause is one that another worker
// might better.
func (t *Transport) attempt(req *http.Request, sel *Selection) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	if t.firstByte > 0 {
		timer := time.AfterFunc(t.firstByte, func() { cancel(errFirstByte) })
		defer timer.Stop()
	}
	sel.hold()
	defer sel.touch()
	out, swallow := t.outgoing(req.WithContext(ctx), sel)
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		err = because(ctx, err)
		cancel(nil)
		blame(req, sel, err)
		return nil, err
	}
	resp.Body = &cancelBody{ReadCloser: resp.Body, cancel: cancel}
	if retryable(resp.StatusCode) {
		return resp, &statusError{status: resp.StatusCode}
	}
	sel.reportSuccess()
	if resp.StatusCode != http.StatusOK {
		resp.Body = newPlainBody(resp.Body, sel, nil)
		return resp, nil
	}
	// Nothing reaches the client before the first byte is here, so that until then
	// another worker can be tried.
	first, err := peek(resp.Body)
	if len(first) == 0 && err != nil && !(errors.Is(err, io.EOF) && resp.ContentLength == 0) {
		discard(resp)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		err = because(ctx, err)
		blame(req, sel, err)
		return nil, err
	}
	watch(resp, &peeked{first: first, err: err, rest: resp.Body}, sel, swallow)
	return resp, nil
}

// blame reports a failure to the fleet, unless it is the client's own doing.
func blame(req *http.Request, sel *Selection, err error) {
	if req.Context().Err() == nil {
		sel.reportFailure(err)
	}
}

// because prefers the reason for which we cancelled to the error that followed.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// watch puts body into resp such that the Selection learns what passes and ends
// with it.
func watch(resp *http.Response, body io.ReadCloser, sel *Selection, swallow bool) {
	switch mediaType(resp.Header) {
	case contentEventStream:
		resp.Body = newStreamBody(body, sel, swallow)
		resp.ContentLength = -1
		resp.Header.Del("Content-Length")
	case "application/json":
		resp.Body = newJSONBody(body, sel)
	default:
		resp.Body = newPlainBody(body, sel, nil)
	}
}

// outgoing builds the request for the current target. swallow says that usage
// was asked for on our own account.
func (t *Transport) outgoing(req *http.Request, sel *Selection) (out *http.Request, swallow bool) {
	target := sel.Target()
	body := sel.Body()
	if t.ask {
		body, swallow = askForUsage(sel.parsed.req.API, sel.parsed.object, body)
	}
	out = req.Clone(req.Context())
	out.URL = join(target.URL, req.URL)
	out.Host = ""
	out.RequestURI = ""
	strip(out.Header)
	// Usage and the first token are read from the body as it passes.
	out.Header.Set("Accept-Encoding", "identity")
	for k, vs := range target.Header {
		out.Header[k] = vs
	}
	setBody(out, body)
	return out, swallow
}

// askForUsage sets stream_options.include_usage in a streaming OpenAI request
// that does not ask for it, and reports whether it did.
func askForUsage(api API, o jsonscan.Object, body []byte) ([]byte, bool) {
	if api != ChatCompletions && api != Completions {
		return body, false
	}
	if on, ok := o.Value("stream").Bool(); !ok || !on {
		return body, false
	}
	if inner, ok := o.Value("stream_options").Field("include_usage"); ok {
		if on, isBool := inner.Bool(); isBool && on {
			return body, false
		}
	}
	var e jsonscan.Edit
	e.SetIn("stream_options", "include_usage", []byte("true"))
	edited, err := e.Apply(o)
	if err != nil {
		return body, false // stream_options is no object: the engine will say so
	}
	return edited, true
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
		body = make([]byte, 0, n+1) // one more, so that the end is seen without growing
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

// statusError is why an answered attempt is given up.
type statusError struct{ status int }

func (e *statusError) Error() string { return "the worker answered " + http.StatusText(e.status) }

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

// strip removes from a client's headers what only the router may say.
func strip(h http.Header) {
	for k := range h {
		if len(k) >= len(headerInternal) && strings.EqualFold(k[:len(headerInternal)], headerInternal) ||
			strings.EqualFold(k, headerRank) {
			delete(h, k)
		}
	}
}

// join puts the request's path and query behind the worker's base address.
func join(base, req *url.URL) *url.URL {
	u := *base
	prefix := strings.TrimSuffix(base.Path, "/")
	u.Path = prefix + req.Path
	u.RawPath = ""
	if req.RawPath != "" || base.RawPath != "" {
		u.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + req.EscapedPath()
	}
	u.RawQuery = req.RawQuery
	return &u
}
