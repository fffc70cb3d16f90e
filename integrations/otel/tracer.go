package kvsteerotel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
)

// ScopeName is the instrumentation scope of the spans.
const ScopeName = "github.com/kvsteer/kvsteer/integrations/otel"

// ErrNotHooked is what OpenTelemetry's error handler is told, once, if requests are traced
// of a Router that does not know the Tracer.
var ErrNotHooked = errors.New("kvsteerotel: the Router was made without this Tracer, so that nobody says how requests end; " +
	"pass it to kvsteer.WithHooks")

// Options are the settings of [New]. The zero value works.
type Options struct {
	// TracerProvider makes the spans. Nil means the global one, [otel.GetTracerProvider].
	TracerProvider trace.TracerProvider
	// Propagator reads and writes the headers of trace context. Nil means the global one,
	// [otel.GetTextMapPropagator], which does nothing until it is set.
	Propagator propagation.TextMapPropagator
	// PublicEndpoint: clients are not trusted with traces. The trace that a client names is
	// linked to, each request begins one of its own, and baggage is not read. A span in the request's context is
	// the gateway's, and is the parent in any case.
	PublicEndpoint bool
	// Fleet, if set, says which engine a worker is, for gen_ai.provider.name; without it the
	// name of all workers is "kvsteer". It is only read.
	Fleet *fleet.Fleet
	// Attributes, if set, adds to a span that ends, such as the tenant; what it sets counts
	// more than what is set here. It is called like a [kvsteer.HookOutcome], for requests that
	// a worker was chosen for.
	Attributes func(o *kvsteer.Outcome) []attribute.KeyValue
}

// Tracer makes spans of requests. It is a hook of the one [kvsteer.Router] whose requests it
// traces, and is safe for concurrent use. There is nothing to close: its spans end with
// their requests, also when the Router is closed.
type Tracer struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	public     bool
	fleet      *fleet.Fleet
	attributes func(o *kvsteer.Outcome) []attribute.KeyValue

	// calls finds the requests under way by the ID of their latest attempt's decision. The
	// Decision itself won't do: it is another one once a provider has left something out.
	calls  sync.Map // uint64 -> *call
	hooked atomic.Bool
	warned sync.Once
}

var (
	_ kvsteer.HookDecision = (*Tracer)(nil)
	_ kvsteer.HookOutcome  = (*Tracer)(nil)
)

// New returns a Tracer. Pass it to [kvsteer.WithHooks].
func New(o Options) *Tracer {
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.Propagator == nil {
		o.Propagator = otel.GetTextMapPropagator()
	}
	return &Tracer{
		tracer: o.TracerProvider.Tracer(ScopeName), propagator: o.Propagator,
		public: o.PublicEndpoint, fleet: o.Fleet, attributes: o.Attributes,
	}
}

// OnDecision implements [kvsteer.HookDecision].
func (t *Tracer) OnDecision(d *kvsteer.Decision) {
	if !t.hooked.Load() {
		t.hooked.Store(true)
	}
	if d.Previous == 0 {
		return // whoever asked for it says whose it is
	}
	// The request can end as soon as this returns, before whoever asked for another attempt
	// hears of it.
	if c, ok := t.calls.Load(d.Previous); ok {
		c.(*call).decided(d) //nolint:forcetypeassert // the map holds nothing else
	}
}

// OnOutcome implements [kvsteer.HookOutcome].
func (t *Tracer) OnOutcome(o *kvsteer.Outcome) {
	if c, ok := t.calls.LoadAndDelete(o.Decision.ID); ok {
		c.(*call).outcome(o) //nolint:forcetypeassert // the map holds nothing else
	}
}

// start begins the span of a request; the call is nil if it is not recorded. The context
// holds the span.
func (t *Tracer) start(ctx context.Context, headers propagation.TextMapCarrier, api kvsteer.API) (context.Context, *call) {
	op := operation(api)
	opts := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String(keyOperation, op)),
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		named := t.propagator.Extract(ctx, headers)
		if !t.public {
			ctx = named
		} else if remote := trace.SpanContextFromContext(named); remote.IsValid() {
			// Of what a stranger sends no more than the link is taken: no baggage either.
			opts = append(opts, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: remote}))
		}
	}
	ctx, span := t.tracer.Start(ctx, op, opts...)
	if !span.IsRecording() {
		return ctx, nil
	}
	c := newCall(t, span, op)
	return context.WithValue(ctx, callKey{}, c), c
}

// inject writes the trace context of ctx, in place of what is there.
func (t *Tracer) inject(ctx context.Context, headers propagation.TextMapCarrier, del func(name string)) {
	for _, name := range t.propagator.Fields() {
		if name != headerBaggage { // which the client may send through
			del(name)
		}
	}
	t.propagator.Inject(ctx, headers)
}

// headerBaggage is what W3C's baggage comes in.
const headerBaggage = "baggage"

// callKey is where a context has the call.
type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}
