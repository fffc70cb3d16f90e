package providers

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// maxRequest bounds the request bodies that are held in memory, in bytes.
const maxRequest = 128 << 20

type roundTripper struct {
	offer *Offer
	base  http.RoundTripper
	x     Exchange
}

// RoundTrip implements http.RoundTripper.
func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	c := &call{offer: t.offer, x: &t.x, req: req, target: Target{API: t.x.API, Upstream: t.offer.model.Upstream}}
	out, err := c.prepare()
	if err != nil {
		closeBody(req)
		return nil, err
	}
	c.sent = true
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		return nil, c.lost(err)
	}
	c.x.Booking.used()
	return c.answer(resp)
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

// call is one request on its way.
type call struct {
	offer    *Offer
	x        *Exchange
	req      *http.Request
	target   Target
	exchange *dialect.Exchange // nil: the client's API is the provider's
	secret   Credential        // that was sent
	conn     atomic.Uint32     // connAsked and so on
	sent     bool              // the request was given to the base transport
}

// What is known of the connection that a request was sent by: nothing of a base that
// doesn't say.
const (
	connAsked = iota + 1
	connThere
)

func (c *call) fail(class Class, message string, err error) *Error {
	return &Error{Provider: c.offer.from.Name, Model: c.offer.model.Name, Class: class, Message: message, Err: err}
}

// prepare makes the request to send.
func (c *call) prepare() (*http.Request, error) {
	if c.offer.set.closed.Load() {
		return nil, c.fail(ClassConnect, "", ErrClosed)
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	u, err := c.offer.from.Kind.Endpoint(c.offer.url, &c.target)
	switch {
	case err == nil:
	case c.x.API == 0: // the client chose the path
		return nil, c.fail(ClassUnsupported, whyPath, err)
	default:
		c.bad(ClassServer, 0, false) // it would be the same with others
		return nil, c.fail(ClassServer, "", err)
	}
	c.query(u)
	out := (&http.Request{
		Method: c.req.Method, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: c.header(),
	}).WithContext(httptrace.WithClientTrace(c.req.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { c.conn.Store(connAsked) }, // another attempt, if the one before had sent nothing
		GotConn: func(httptrace.GotConnInfo) { c.conn.Store(connThere) },
	}))
	if body == nil {
		out.Body, out.ContentLength = c.req.Body, c.req.ContentLength
	} else {
		out.ContentLength = int64(len(body))
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
	}
	return out, c.authorize(out, body)
}

// body returns what to send, nil for the request's own, unread.
func (c *call) body() ([]byte, error) {
	switch api := c.x.API; {
	case api == 0:
		return c.pass()
	case c.offer.native(api):
		return c.renamed()
	case c.offer.translates(api):
		return c.translated()
	default:
		return nil, c.fail(ClassUnsupported, whyAPI, nil)
	}
}

// read returns the client's body.
func (c *call) read() ([]byte, error) {
	if c.req.Body == nil {
		return nil, c.fail(ClassRequest, "the request has no body", nil)
	}
	defer closeBody(c.req)
	var b bytes.Buffer
	if n := c.req.ContentLength; n > 0 {
		b.Grow(int(min(n, maxRequest)) + bytes.MinRead)
	}
	switch _, err := b.ReadFrom(io.LimitReader(c.req.Body, maxRequest+1)); {
	case err != nil:
		return nil, c.fail(ClassRequest, "the request's body could not be read", err)
	case b.Len() > maxRequest:
		return nil, c.fail(ClassRequest, "the request's body is too large", nil)
	default:
		return b.Bytes(), nil
	}
}

// renamed is the client's body with the provider's name for the model.
func (c *call) renamed() ([]byte, error) {
	body, err := c.read()
	if err != nil {
		return nil, err
	}
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		return nil, c.fail(ClassRequest, "the request's body is no JSON object", err)
	}
	c.target.Stream, _ = o.Value("stream").Bool()
	var edit jsonscan.Edit
	edit.SetString("model", c.offer.model.Upstream)
	body, err = edit.Apply(o)
	if err != nil {
		return nil, c.fail(ClassRequest, "the request's body is no JSON object", err)
	}
	return body, nil
}

// translated is the client's body in the provider's API.
func (c *call) translated() ([]byte, error) {
	body, err := c.read()
	if err != nil {
		return nil, err
	}
	wanted := dialect.RequestOptions{MaxTokens: int64(c.offer.model.MaxOutput)}
	if k, ok := c.offer.from.Kind.(OpenAI); ok {
		wanted.OldMaxTokens = k.oldMaxTokens(c.offer.url, c.offer.model.Upstream)
	}
	x, err := dialect.NewExchange(clientCodec(c.x.API), c.offer.codec, body, dialect.Options{
		Model: c.offer.model.Upstream, Asked: c.x.Asked, KeepModel: c.offer.from.KeepModel,
		Request: wanted,
		Created: c.offer.set.clock().Unix(), ID: fmt.Sprintf("%016x%08x", rand.Uint64(), rand.Uint32()), //nolint:gosec // unique, not secret
	})
	var unsupported *dialect.UnsupportedError
	var bad *dialect.BodyError
	switch {
	case errors.As(err, &unsupported):
		return nil, c.fail(ClassUnsupported, unsupported.Field+" can't be carried over to "+unsupported.Service+": "+unsupported.Reason, nil)
	case errors.As(err, &bad):
		return nil, c.fail(ClassRequest, strings.TrimPrefix(bad.Error(), "dialect: "), nil)
	case err != nil:
		return nil, c.fail(ClassRequest, "the request can't be read", err)
	default:
	}
	if c.x.Warn != nil {
		for _, w := range x.Warnings() {
			c.x.Warn(w.Field, w.Reason)
		}
	}
	c.exchange = x
	c.target.API, c.target.Stream = c.offer.target, x.Stream()
	return x.Body(), nil
}

// pass lets a body through as it is, to a path that has no API; but for the model's name,
// where the Offer has one.
func (c *call) pass() ([]byte, error) {
	path := c.req.URL.EscapedPath()
	if !strings.HasPrefix(path, versionPath) || !straight(path) || !straight(c.req.URL.Path) {
		return nil, c.fail(ClassRequest, "the path is not one of the API's", nil)
	}
	c.target.Path = path
	if err := c.mayPass(); err != nil {
		return nil, err
	}
	m := &c.offer.model
	switch {
	case m.Name == "" || c.req.Body == nil || c.req.Body == http.NoBody:
		return nil, nil // the request's own body
	case maybeJSON(c.req.Header):
		return c.renamed()
	case m.Upstream == m.Name:
		return nil, nil
	default:
		return nil, c.fail(ClassUnsupported, whyName, nil)
	}
}

const whyPath = "the provider doesn't serve this path"

const whyName = "the provider has another name for the model, which can be put only in JSON"

// maybeJSON reports whether a service may read the body as JSON: what has no type, too.
func maybeJSON(h http.Header) bool {
	kind := mediaType(h)
	return kind == "" || strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json")
}

// straight reports whether a path is one that no server takes for another.
func straight(path string) bool { return clean(path) != "" && !strings.Contains(path, `\`) }

// mayPass reports an error for a path that is not the Offer's.
func (c *call) mayPass() error {
	if c.offer.model.Name == "" {
		for _, p := range c.offer.from.Paths {
			if below(c.target.Path, p) {
				return nil
			}
		}
		return c.fail(ClassUnsupported, "the path is not one of the provider's", nil)
	}
	for api := prompt.Chat; api.Path() != ""; api++ {
		if below(c.target.Path, api.Path()) && !c.offer.native(api) {
			return c.fail(ClassUnsupported, whyAPI, nil)
		}
	}
	return nil
}

// below reports whether a path is another one, or below it.
func below(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '/')
}

// query hands on what the client's query may say.
func (c *call) query(u *url.URL) {
	given := c.req.URL.RawQuery
	switch {
	case given == "" || c.exchange != nil:
		return
	case c.x.API == prompt.Messages && c.req.URL.Query().Get("beta") == "true":
		given = "beta=true"
	case c.x.API != 0:
		return
	default:
	}
	if u.RawQuery != "" {
		given = u.RawQuery + "&" + given
	}
	u.RawQuery = given
}

// authorize puts the credential on.
func (c *call) authorize(out *http.Request, body []byte) error {
	ctx := c.req.Context()
	secret, err := c.offer.account.credential(ctx)
	if err == nil {
		c.secret = secret
		err = c.sign(ctx, out, body)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return c.lost(err)
	default:
		c.refused(sourcePause, secret)
		return c.fail(ClassAuth, "", err)
	}
}

// sign lets the kind put the credential on. One that asks a source of its own has as long as
// others, and its panic is an error.
func (c *call) sign(ctx context.Context, out *http.Request, body []byte) (err error) {
	ctx, cancel := context.WithTimeout(ctx, c.offer.set.opts.CredentialTimeout)
	defer cancel()
	defer func() {
		if recover() != nil { // what it says may hold a secret
			err = errPanic
		}
	}()
	return c.offer.from.Kind.Authorize(ctx, out, body, c.secret)
}

// refused closes the provider for a while, for want of a credential that it takes.
func (c *call) refused(pause time.Duration, secret Credential) {
	if c.offer.account.refuse(c.offer.set.clock(), pause, secret) {
		c.offer.set.tell(StateChange{Provider: c.offer.from.Name, Reason: whyAuth, RetryAfter: pause})
	}
}

// lost is what to return where no answer came. A client that has left is nobody's fault.
func (c *call) lost(err error) *Error {
	ctx := c.req.Context()
	class := ClassConnect
	switch {
	case !c.sent, ctx.Err() == nil && c.conn.Load() == connAsked:
	case timedOut(ctx, err):
		class = ClassTimeout
	case c.conn.Load() == connThere, !dialled(err):
		class = ClassServer
	default:
	}
	if ctx.Err() == nil || class == ClassTimeout {
		c.bad(class, 0, false)
	}
	if c.sent && class != ClassConnect && c.conn.Load() != connAsked {
		c.x.Booking.used()
	}
	return c.fail(class, "", plainly(err))
}

// timedOut reports whether somebody stopped waiting for the first byte. That a connection
// was not there in time is no such thing.
func timedOut(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if dialled(err) {
		return false
	}
	var slow interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &slow) && slow.Timeout()
}

// dialled reports whether an error is that of a connection which was not made.
func dialled(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns) || errors.As(err, &cert) || errors.As(err, &plain)
}

// bad notes a failure. It returns how long the provider is left alone.
func (c *call) bad(class Class, wait time.Duration, told bool) time.Duration {
	d, change := c.offer.state.bad(c.x.Booking, class, wait, told, c.offer.set.clock())
	c.offer.tell(change)
	return d
}

// good notes that the provider serves.
func (c *call) good() {
	c.offer.tell(c.offer.state.good(c.x.Booking, c.offer.set.clock()))
}

// answer makes of the provider's answer the client's.
func (c *call) answer(resp *http.Response) (*http.Response, error) {
	var q Quota
	c.offer.from.Kind.Quota(resp.Header, c.offer.set.clock(), &q)
	c.offer.state.told(&q)
	out := &http.Response{
		Status: resp.Status, StatusCode: resp.StatusCode, Proto: resp.Proto, ProtoMajor: resp.ProtoMajor, ProtoMinor: resp.ProtoMinor,
		Header: answerHeader(resp.Header), ContentLength: resp.ContentLength, Request: c.req, TLS: resp.TLS,
	}
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices {
		c.failure(resp, out, &q)
		return out, nil
	}
	c.offer.state.taken()
	body, err := plain(resp, &tracked{src: resp.Body, call: c})
	if err != nil {
		_ = resp.Body.Close()
		c.bad(ClassServer, 0, false)
		return nil, c.fail(ClassServer, "", err)
	}
	if resp.Header.Get("Content-Encoding") != "" {
		out.ContentLength = -1
	}
	streams := c.streams(resp)
	if streams {
		c.x.Booking.stream()
	}
	out.Body = body
	if c.exchange != nil {
		err = c.translate(out, streams)
	} else {
		err = c.restore(out, streams)
	}
	if err != nil {
		_ = body.Close()
		return nil, err
	}
	if out.ContentLength >= 0 {
		out.Header.Set("Content-Length", strconv.FormatInt(out.ContentLength, 10))
	} else {
		out.Header.Del("Content-Length")
	}
	return out, nil
}

// streams reports whether an answer comes event by event.
func (c *call) streams(resp *http.Response) bool {
	if _, other := c.offer.from.Kind.(Framer); other && c.exchange != nil {
		return c.exchange.Stream()
	}
	return mediaType(resp.Header) == "text/event-stream"
}
