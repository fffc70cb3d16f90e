package providers

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

const (
	// maxErrorBody is how much of an error's body is read, in bytes, and errorPatience how
	// long that may take.
	maxErrorBody  = 64 << 10
	errorPatience = 5 * time.Second
)

// failureBody is the body of an answer that is an error.
type failureBody struct {
	*bytes.Reader

	failure Failure
}

// Close implements io.Closer.
func (*failureBody) Close() error { return nil }

// Failure says what the error means.
func (b *failureBody) Failure() *Failure { return &b.failure }

// failure reads an answer that is an error, and makes the client's of it in out.
func (c *call) failure(resp, out *http.Response, q *Quota) {
	alarm := time.AfterFunc(errorPatience, func() { _ = resp.Body.Close() })
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what there is of it
	alarm.Stop()
	_ = resp.Body.Close()
	if plainly, err := plain(resp, io.NopCloser(bytes.NewReader(body))); err == nil {
		body, _ = io.ReadAll(io.LimitReader(plainly, maxErrorBody))
	}

	f := c.offer.from.Kind.Failure(resp.StatusCode, resp.Header, body)
	failure := Failure{Class: classOf(f, resp.StatusCode), Status: resp.StatusCode}
	if c.x.API == 0 && failure.Class == ClassModel {
		failure.Class = ClassRequest // some object that the client named
	}
	if resp.StatusCode >= http.StatusBadRequest { // a redirect says nothing of how it serves
		failure.RetryAfter = c.failed(f, &failure, q)
	}

	status, text := c.tellClient(f, &failure, body)
	out.StatusCode, out.Status = status, strconv.Itoa(status)+" "+http.StatusText(status)
	out.Body, out.ContentLength = &failureBody{bytes.NewReader(text), failure}, int64(len(text))
	out.Header.Set("Content-Length", strconv.Itoa(len(text)))
	if failure.RetryAfter > 0 && failure.Class != ClassAuth {
		out.Header.Set("Retry-After", strconv.Itoa(int(math.Ceil(failure.RetryAfter.Seconds()))))
	}
	if len(text) == 0 || !bytes.Equal(text, body) {
		out.Header.Set("Content-Type", "application/json")
	}
}

// failed notes a failure, and returns how long the provider is left alone.
func (c *call) failed(f *dialect.Failure, failure *Failure, q *Quota) time.Duration {
	// A client can bring about a 403 (by asking for what the account may not do), and must
	// not be able to close the provider for others; unless the words say that it is about
	// the credential itself.
	if failure.Class == ClassAuth && (f.Credential || failure.Status != http.StatusForbidden) {
		c.refused(authPause, c.secret)
		return authPause
	}
	return c.bad(failure.Class, q.RetryAfter, q.Told)
}

// streamFailed notes an error in a stream.
func (c *call) streamFailed(f *dialect.Failure) {
	switch class := classOf(f, http.StatusInternalServerError); {
	case class != ClassAuth:
		c.bad(class, 0, false)
	case f.Credential:
		c.refused(authPause, c.secret)
	default:
	}
}

// sayMoved is for what no API has as an error.
const sayMoved = "the provider answered with a redirect, which is not followed"

// tellClient is the status and the body for the client. What a provider says of the
// gateway's account stays here: dialect.Failure.Public has the words, for streams, too.
func (c *call) tellClient(f *dialect.Failure, failure *Failure, body []byte) (int, []byte) {
	own := func(f *dialect.Failure) (int, []byte) {
		_, text := c.failureCodec().EncodeFailure(f)
		return f.Status, text
	}
	switch failure.Class {
	case ClassAuth:
		return own((&dialect.Failure{Kind: dialect.FailAuth}).Public())
	case ClassRateLimited:
		return own((&dialect.Failure{Kind: dialect.FailRate}).Public())
	case ClassQuota:
		return own((&dialect.Failure{Kind: dialect.FailQuota}).Public())
	case ClassModel:
		return own((&dialect.Failure{Kind: dialect.FailModel}).Public())
	default:
	}
	if failure.Status < http.StatusBadRequest {
		return own(&dialect.Failure{Kind: dialect.FailServer, Status: http.StatusBadGateway, Message: sayMoved})
	}
	if c.exchange == nil {
		return failure.Status, body
	}
	return c.failureCodec().EncodeFailure(f)
}

// failureCodec is that of the client's API.
func (c *call) failureCodec() dialect.Client {
	if codec := clientCodec(c.x.API); codec != nil {
		return codec
	}
	if c.x.API == 0 && below(c.target.Path, prompt.Messages.Path()) {
		return dialect.Messages()
	}
	return dialect.Chat()
}

// classOf is the class of a failure.
func classOf(f *dialect.Failure, status int) Class {
	switch f.Kind {
	case dialect.FailRequest:
		return ClassRequest
	case dialect.FailAuth:
		return ClassAuth
	case dialect.FailModel:
		return ClassModel
	case dialect.FailContext, dialect.FailTooLarge: // another one may take it
		return ClassContext
	case dialect.FailContent:
		return ClassContent
	case dialect.FailRate:
		return ClassRateLimited
	case dialect.FailQuota:
		return ClassQuota
	case dialect.FailOverloaded:
		return ClassOverloaded
	case dialect.FailServer:
		return ClassServer
	case dialect.FailTimeout:
		return ClassTimeout
	case dialect.FailUnknown:
		return byStatus(status)
	default:
		return byStatus(status)
	}
}

func byStatus(status int) Class {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return ClassAuth
	case status == http.StatusNotFound:
		return ClassModel
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout:
		return ClassTimeout
	case status == http.StatusRequestEntityTooLarge:
		return ClassContext
	case status == http.StatusTooManyRequests:
		return ClassRateLimited
	case status == http.StatusServiceUnavailable, status == statusOverloaded:
		return ClassOverloaded
	case status >= http.StatusInternalServerError, status < http.StatusBadRequest:
		return ClassServer
	default:
		return ClassRequest
	}
}

const statusOverloaded = 529 // Anthropic's

// tracked is the provider's body: it notes what becomes of it.
type tracked struct {
	src  io.ReadCloser
	call *call
	seen bool
	over bool
}

func (b *tracked) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	whole := err == io.EOF
	if (n > 0 || whole) && !b.seen {
		b.seen = true
		b.call.good()
	}
	if err != nil && !whole && !b.over {
		b.over = true
		if b.broken(err) {
			b.call.bad(ClassServer, 0, false)
		}
	}
	return n, err
}

// broken reports whether a read failed through the provider. Once an answer has begun, a
// deadline is that of the request, however long the answer may be; only who waits for each
// piece of it, and says so by a timeout of its own as the cause, finds it silent.
func (b *tracked) broken(err error) bool {
	ctx := b.call.req.Context()
	if ctx.Err() == nil {
		return true
	}
	if b.seen && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return false
	}
	return timedOut(ctx, err)
}

// Close implements io.Closer. A reader that leaves early says nothing of the provider.
func (b *tracked) Close() error {
	b.over = true
	return b.src.Close()
}
