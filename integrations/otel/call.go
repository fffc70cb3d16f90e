package kvsteerotel

import (
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/internal/planted"
)

// The events of a span.
const (
	eventAttempt    = "kvsteer.attempt"
	eventFailed     = "kvsteer.attempt.failed"
	eventFirstToken = "kvsteer.first_token"
)

// call is a request whose span is recorded.
type call struct {
	tracer    *Tracer
	span      trace.Span
	operation string
	began     time.Time

	mu sync.Mutex
	// model, or the body that names it, until a decision does.
	model string
	body  []byte
	// decision is the latest attempt's, which began then.
	decision *kvsteer.Decision
	attempt  time.Time
	// failure is the name of what went wrong with that attempt, "" if nothing did.
	failure string
	ended   bool
}

func newCall(t *Tracer, span trace.Span, operation string) *call {
	return &call{tracer: t, span: span, operation: operation, began: time.Now()}
}

// asked keeps what names the model if nobody is chosen.
func (c *call) asked(q *kvsteer.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.model, c.body = q.Model, q.Body
}

// decided begins an attempt, once for each.
func (c *call) decided(d *kvsteer.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.decision != nil && c.decision.ID == d.ID {
		return
	}
	if c.decision == nil {
		c.span.SetName(c.operation + " " + clip(d.Model))
		c.span.SetAttributes(attribute.String(keyRequestModel, clip(d.Model)))
	} else {
		c.tracer.calls.Delete(c.decision.ID)
		c.span.AddEvent(eventFailed, trace.WithAttributes(failed(c.decision, c.failure)...))
	}
	c.decision, c.attempt, c.failure = d, time.Now(), ""
	c.model, c.body = "", nil
	c.span.AddEvent(eventAttempt, trace.WithTimestamp(c.attempt), trace.WithAttributes(attempted(d)...))
	if !c.tracer.hooked.Load() {
		c.tracer.warned.Do(func() { otel.Handle(ErrNotHooked) })
		c.span.SetAttributes(decided(d)...)
		c.end()
		return
	}
	c.tracer.calls.Store(d.ID, c)
}

// failed notes what went wrong with the current attempt.
func (c *call) failed(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = name
}

// outcome ends a request that a worker was chosen for.
func (c *call) outcome(o *kvsteer.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if o.TTFT > 0 {
		at := c.attempt.Add(o.TTFT)
		c.span.AddEvent(eventFirstToken, trace.WithTimestamp(at))
		c.span.SetAttributes(attribute.Float64(keyTimeToFirstChunk, at.Sub(c.began).Seconds()))
	}
	c.span.SetAttributes(decided(o.Decision)...)
	c.span.SetAttributes(c.tracer.served(o)...)
	switch {
	case o.Reaped:
		c.fail(typeAbandoned)
	case o.Err != nil:
		c.fail(c.endType(o))
		if planted.PromptInSpan {
			c.span.SetStatus(codes.Error, o.Err.Error())
		}
	}
	if add := c.tracer.attributes; add != nil {
		defer c.end() // whatever becomes of it
		c.span.SetAttributes(add(o)...)
		return
	}
	c.end()
}

// refused ends a request that has not ended yet because nobody was chosen.
func (c *call) refused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	if c.decision == nil {
		c.span.SetAttributes(c.refusal(err)...)
	}
	c.fail(c.typeOf(err))
	c.end()
}

// broken ends a request that a panic went through.
func (c *call) broken() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.fail(typePanic)
		c.end()
	}
}

// refusal says what is known of a request that was refused.
func (c *call) refusal(err error) []attribute.KeyValue {
	e := asError(err)
	if e == nil {
		return nil
	}
	var out []attribute.KeyValue
	if e.Rule != "" {
		out = append(out, attribute.String(keyRule, e.Rule))
	}
	switch e.Code {
	case kvsteer.CodeBadRequest, kvsteer.CodeTooLarge, kvsteer.CodeUnauthenticated:
		return out // the router has not looked into the body either, or can't
	default:
	}
	if c.model == "" {
		if o, bad := jsonscan.Parse(c.body, 0); bad == nil {
			c.model, _ = o.Value("model").Str()
		}
	}
	if c.model != "" {
		out = append(out, attribute.String(keyRequestModel, clip(c.model)))
	}
	return out
}

// fail marks the span. The text of an error may quote a prompt, so that there is none.
func (c *call) fail(name string) {
	c.span.SetAttributes(attribute.String(keyErrorType, name))
	c.span.SetStatus(codes.Error, "")
}

// end is called with mu held.
func (c *call) end() {
	if c.decision != nil {
		c.tracer.calls.Delete(c.decision.ID)
	}
	c.ended, c.body = true, nil
	c.span.End()
}
