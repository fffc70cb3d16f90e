package kvsteerotel

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/abroad"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Transport returns a [kvsteer.Transport] over r whose requests are traced. r must have the
// Tracer among its hooks. It has CloseIdleConnections, as http.Client looks for.
func (t *Tracer) Transport(r *kvsteer.Router, o kvsteer.TransportOptions) http.RoundTripper {
	if o.Base == nil {
		o.Base = kvsteer.NewBase()
	}
	o.Base = t.Base(o.Base)
	describe, decided := o.Describe, o.OnDecision
	o.Describe = func(req *http.Request, q *kvsteer.Request) {
		if describe != nil {
			describe(req, q)
		}
		if c := callOf(req.Context()); c != nil {
			c.asked(q)
		}
	}
	o.OnDecision = func(req *http.Request, d *kvsteer.Decision) {
		if c := callOf(req.Context()); c != nil {
			c.decided(d)
		}
		if decided != nil {
			decided(req, d)
		}
	}
	return &around{tracer: t, next: kvsteer.NewTransport(r, o)}
}

// around has a span around each request that carries a prompt.
type around struct {
	tracer *Tracer
	next   *kvsteer.Transport
}

func (a *around) CloseIdleConnections() { a.next.CloseIdleConnections() }

func (a *around) RoundTrip(req *http.Request) (*http.Response, error) {
	api, ok := prompt.APIForPath(strings.TrimSuffix(req.URL.Path, "/"))
	if !ok || req.Method != http.MethodPost {
		return a.next.RoundTrip(req)
	}
	ctx, c := a.tracer.start(req.Context(), propagation.HeaderCarrier(req.Header), api)
	if c == nil {
		if trace.SpanContextFromContext(ctx).IsValid() { // to be passed on, though nobody records it
			req = req.WithContext(ctx)
		}
		return a.next.RoundTrip(req)
	}
	returned := false
	defer func() {
		if !returned {
			c.broken()
		}
	}()
	resp, err := a.next.RoundTrip(req.WithContext(context.WithValue(ctx, clientKey{}, req.Context())))
	returned = true
	if err != nil {
		c.refused(err)
	}
	return resp, err
}

// clientKey is where a context has the one that bounds the whole request, not one attempt.
type clientKey struct{}

// Base returns next such that the requests that go through it carry the trace context of
// their own context to the worker, and such that what fails is seen in the span. Providers are
// told nothing: what is in a trace's baggage is no business of others. A
// [Tracer.Transport] has it; others give it to the client that they send with. Where a span for each
// attempt is wanted too, next is the transport that makes them.
func (t *Tracer) Base(next http.RoundTripper) http.RoundTripper { return &base{tracer: t, next: next} }

type base struct {
	tracer *Tracer
	next   http.RoundTripper
}

func (b *base) CloseIdleConnections() {
	if c, ok := b.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (b *base) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if trace.SpanContextFromContext(ctx).IsValid() && !abroad.Marked(ctx) {
		out := req.WithContext(ctx) // a RoundTripper does not change what it is given
		out.Header = req.Header.Clone()
		if out.Header == nil {
			out.Header = http.Header{}
		}
		b.tracer.inject(ctx, propagation.HeaderCarrier(out.Header), out.Header.Del)
		req = out
	}
	c := callOf(ctx)
	if c == nil {
		return b.next.RoundTrip(req)
	}
	returned := false
	defer func() {
		if !returned {
			c.failed(typePanic)
		}
	}()
	resp, err := b.next.RoundTrip(req)
	returned = true
	switch {
	case err != nil:
		c.failed(sendType(clientOf(ctx), ctx, err))
	case resp.StatusCode >= http.StatusBadRequest:
		c.failed(strconv.Itoa(resp.StatusCode))
	default:
		resp.Body = &watched{ReadCloser: resp.Body, call: c, ctx: ctx}
	}
	return resp, err
}

// clientOf is the context that bounds the whole request: ctx itself, where nobody has
// bounded an attempt.
func clientOf(ctx context.Context) context.Context {
	if client, ok := ctx.Value(clientKey{}).(context.Context); ok {
		return client
	}
	return ctx
}

// watched is an answer's body, whose breaking off is noted.
type watched struct {
	io.ReadCloser

	call *call
	ctx  context.Context //nolint:containedctx // the attempt's
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.call.failed(sendType(clientOf(w.ctx), w.ctx, err))
	}
	return n, err
}
