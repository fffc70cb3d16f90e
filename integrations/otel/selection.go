package kvsteerotel

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvsteer/kvsteer"
)

// Selection is a [kvsteer.Selection] with a span, which ends when it does: by Done, Abort,
// an Answer, or forgotten. Its own Next must be called, not the inner one's. It is safe for
// concurrent use.
type Selection struct {
	*kvsteer.Selection

	tracer *Tracer
	call   *call           // nil: not recorded
	ctx    context.Context //nolint:containedctx // is what it hands out
}

// Select is r.Select with a span around it and what follows. The parent is the span in ctx,
// or, if there is none, what the headers of q name. r must have the Tracer among its hooks.
// The errors are those of [kvsteer.Router.Select], and have ended the span.
func (t *Tracer) Select(ctx context.Context, r *kvsteer.Router, q *kvsteer.Request) (*Selection, error) {
	if q == nil {
		q = &kvsteer.Request{} // the router says what is wrong with it
	}
	spanned, c := t.start(ctx, propagation.HeaderCarrier(q.Header), q.API)
	if c == nil {
		sel, err := r.Select(ctx, q)
		if err != nil {
			return nil, err
		}
		return &Selection{Selection: sel, tracer: t, ctx: spanned}, nil
	}
	returned := false
	defer func() {
		if !returned {
			c.broken()
		}
	}()
	c.asked(q)
	sel, err := r.Select(spanned, q)
	returned = true
	if err != nil {
		c.refused(err)
		return nil, err
	}
	c.decided(sel.Decision())
	return &Selection{Selection: sel, tracer: t, call: c, ctx: spanned}, nil
}

// Context is the context of Select with the span in it, for the requests to the worker: what
// is made of it is the span's child, and a client with [Tracer.Base] passes it on.
func (s *Selection) Context() context.Context { return s.ctx }

// Propagate writes the trace context into the headers of a request to the worker, in place of
// what the client sent. [Tracer.Base] does it, too.
func (s *Selection) Propagate(h http.Header) {
	if trace.SpanContextFromContext(s.ctx).IsValid() {
		s.tracer.inject(s.ctx, propagation.HeaderCarrier(h), h.Del)
	}
}

// Next is [kvsteer.Selection.Next]; the attempt that failed and the next one are events of
// the span.
func (s *Selection) Next(ctx context.Context, cause error) error {
	if s.call == nil {
		return s.Selection.Next(ctx, cause)
	}
	if cause != nil {
		s.call.failed(sendType(ctx, ctx, cause))
	}
	if err := s.Selection.Next(ctx, cause); err != nil {
		return err
	}
	s.call.decided(s.Decision())
	return nil
}
