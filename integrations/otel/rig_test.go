package kvsteerotel_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	kvsteerotel "github.com/kvsteer/kvsteer/integrations/otel"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	wait = 30 * time.Second
	tick = time.Millisecond
	path = "/v1/chat/completions"
)

// rig is a fleet of fake engines, a router and a Tracer whose spans are kept.
type rig struct {
	t         testing.TB
	engines   []*fleettest.Engine
	fleet     *fleet.Fleet
	router    *kvsteer.Router
	tracer    *kvsteerotel.Tracer
	transport http.RoundTripper
	spans     *tracetest.SpanRecorder
	provider  *sdktrace.TracerProvider
	// first, if set, gives the worker of each first attempt a fault, before it is asked.
	first func(f *fleettest.Faults)
}

type rigConfig struct {
	engines   int
	engine    func(i int, c *fleettest.Config)
	worker    func(w *fleet.Worker)
	tracer    kvsteerotel.Options
	options   []kvsteer.Option
	transport kvsteer.TransportOptions
	sampler   sdktrace.Sampler
	unhooked  bool
	quiet     bool // workers are hardly ever asked how they are
}

func newRig(t testing.TB, c rigConfig) *rig {
	t.Helper()
	r := &rig{t: t, spans: tracetest.NewSpanRecorder()}
	if c.engines == 0 {
		c.engines = 2
	}
	hub := follow.NewHub()
	var workers []fleet.Worker
	for i := range c.engines {
		cfg := fleettest.Config{Name: fmt.Sprintf("w%d", i), Model: "m", Speed: 1000, OutputTokens: 4, Hub: hub}
		if c.engine != nil {
			c.engine(i, &cfg)
		}
		e := fleettest.New(t, cfg)
		r.engines = append(r.engines, e)
		w := e.Worker()
		if c.worker != nil {
			c.worker(&w)
		}
		workers = append(workers, w)
	}
	var err error
	asking := fleet.Options{
		Discoverer: fleet.Static(workers...), ProbeInterval: 100 * time.Millisecond, ProbeTimeout: wait, UnhealthyAfter: 1 << 20,
	}
	if c.quiet {
		asking.ProbeInterval, asking.ScrapeInterval = time.Hour, -1
	}
	r.fleet, err = fleet.New(asking)
	require.NoError(t, err)
	if c.sampler == nil {
		c.sampler = sdktrace.AlwaysSample()
	}
	r.provider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans), sdktrace.WithSampler(c.sampler))
	counts := &counted{TracerProvider: r.provider}
	c.tracer.TracerProvider = counts
	if c.tracer.Propagator == nil {
		c.tracer.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	if c.tracer.Fleet == nil {
		c.tracer.Fleet = r.fleet
	}
	r.tracer = kvsteerotel.New(c.tracer)
	encoder := prompt.NewEncoder(prompt.Options{Deadline: wait})
	opts := []kvsteer.Option{kvsteer.WithFleet(r.fleet), kvsteer.WithEncoder(encoder), kvsteer.WithEvents(hub), kvsteer.WithSeed(1)}
	if !c.unhooked {
		opts = append(opts, kvsteer.WithHooks(r.tracer))
	}
	r.router, err = kvsteer.New(append(opts, c.options...)...)
	require.NoError(t, err)
	if c.transport.OnDecision == nil {
		c.transport.OnDecision = func(_ *http.Request, d *kvsteer.Decision) {
			if r.first != nil && d.Attempt == 1 {
				r.first(r.engine(d.Winner().Name).Faults())
			}
		}
	}
	r.transport = r.tracer.Transport(r.router, c.transport)
	t.Cleanup(func() {
		r.transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		require.NoError(t, r.router.Close())
		require.NoError(t, encoder.Close())
		require.NoError(t, r.fleet.Close())
		require.NoError(t, r.provider.Shutdown(context.Background()))
		require.Equal(t, counts.started.Load(), counts.ended.Load(), "each span is ended once")
	})
	require.Eventually(t, func() bool { return r.fleet.Snapshot().Routable() == c.engines }, wait, tick)
	return r
}

func (r *rig) engine(name string) *fleettest.Engine {
	r.t.Helper()
	for _, e := range r.engines {
		if e.Name() == name {
			return e
		}
	}
	require.Fail(r.t, "no engine named "+name)
	return nil
}

func chat(text string, stream bool) string {
	return fmt.Sprintf(`{"model":"m","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, text)
}

func newRequest(ctx context.Context, t testing.TB, path, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://kvsteer"+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	return req
}

func drain(t testing.TB, resp *http.Response) {
	t.Helper()
	_, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
}

// post sends a request, which must go well.
func (r *rig) post(body string) {
	r.t.Helper()
	require.NoError(r.t, r.read(r.t.Context(), body))
}

// span waits for the only span there is, checks that it has ended once and that nothing is
// kept of it, and returns it.
func (r *rig) span() sdktrace.ReadOnlySpan {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return len(r.spans.Ended()) > 0 }, wait, tick, "the span ends")
	require.Len(r.t, r.spans.Ended(), 1)
	require.Len(r.t, r.spans.Started(), 1)
	require.Zero(r.t, r.tracer.UnderWay())
	return r.spans.Ended()[0]
}

func attributes(list []attribute.KeyValue) map[string]any {
	out := map[string]any{}
	for _, kv := range list {
		out[string(kv.Key)] = kv.Value.AsInterface()
	}
	return out
}

// events are a span's, by name.
func events(s sdktrace.ReadOnlySpan, name string) []map[string]any {
	var out []map[string]any
	for _, e := range s.Events() {
		if e.Name == name {
			out = append(out, attributes(e.Attributes))
		}
	}
	return out
}

func assertHas(t testing.TB, s sdktrace.ReadOnlySpan, want map[string]any) {
	t.Helper()
	got := attributes(s.Attributes())
	for k, v := range want {
		assert.Equal(t, v, got[k], k)
	}
}

// failing is a base that does something else first.
type failing func(req *http.Request) (*http.Response, error)

func (f failing) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// counted is a provider that counts the calls of End: the SDK's spans pass over the second.
type counted struct {
	trace.TracerProvider

	started, ended atomic.Int32
}

func (c *counted) Tracer(name string, o ...trace.TracerOption) trace.Tracer {
	return &countedTracer{c.TracerProvider.Tracer(name, o...), c}
}

type countedTracer struct {
	trace.Tracer

	counts *counted
}

func (c *countedTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	ctx, span := c.Tracer.Start(ctx, name, o...)
	if !span.IsRecording() {
		return ctx, span
	}
	c.counts.started.Add(1)
	span = &countedSpan{span, c.counts}
	return trace.ContextWithSpan(ctx, span), span
}

type countedSpan struct {
	trace.Span

	counts *counted
}

func (c *countedSpan) End(o ...trace.SpanEndOption) {
	c.counts.ended.Add(1)
	c.Span.End(o...)
}
