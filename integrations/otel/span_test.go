package kvsteerotel_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	kvsteerotel "github.com/kvsteer/kvsteer/integrations/otel"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

func TestSpanOfAStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, tracer: kvsteerotel.Options{
		Attributes: func(o *kvsteer.Outcome) []attribute.KeyValue {
			return []attribute.KeyValue{attribute.Int64("test.cost", o.Cost)}
		},
	}})
	text := strings.Repeat("a prefix that two requests share ", 20)
	r.post(chat(text, true))
	require.Eventually(t, func() bool { // what the engine says that it has cached is heard of
		d, err := r.router.Explain(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(chat(text, true))})
		return err == nil && d.Winner().CachedTokens > 0 && d.Winner().TrustState == "exact"
	}, wait, tick)
	r.spans.Reset()
	r.post(chat(text, true))

	s := r.span()
	assert.Equal(t, "chat m", s.Name())
	assert.Equal(t, trace.SpanKindClient, s.SpanKind())
	assert.Equal(t, kvsteerotel.ScopeName, s.InstrumentationScope().Name)
	assert.Equal(t, codes.Unset, s.Status().Code)
	assert.False(t, s.Parent().IsValid())
	at, err := url.Parse(r.engines[0].URL())
	require.NoError(t, err)
	port, err := strconv.Atoi(at.Port())
	require.NoError(t, err)
	seen := r.engines[0].Requests()
	last := seen[len(seen)-1]
	require.Positive(t, last.CachedTokens)
	assertHas(t, s, map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "vllm", "gen_ai.request.model": "m", "gen_ai.response.model": "m",
		"gen_ai.usage.input_tokens": int64(last.PromptTokens), "gen_ai.usage.output_tokens": int64(4),
		"gen_ai.usage.cache_read.input_tokens": int64(last.CachedTokens),
		"server.address":                       "127.0.0.1", "server.port": int64(port),
		"kvsteer.worker": "w0", "kvsteer.rank": int64(0), "kvsteer.attempt": int64(1), "kvsteer.trust": "exact",
		"kvsteer.prompt.tokens": int64(last.PromptTokens), "kvsteer.prompt.source": "tokenize",
		"kvsteer.cached_tokens.predicted": int64(last.CachedTokens), "kvsteer.cached_tokens.reported": int64(last.CachedTokens),
		"kvsteer.decision": int64(2), "kvsteer.rule": "default: lowest predicted TTFT", "error.type": nil, "test.cost": int64(0),
	})
	got := attributes(s.Attributes())
	for _, key := range []string{"kvsteer.ttft.predicted", "kvsteer.ttft.observed", "gen_ai.response.time_to_first_chunk", "kvsteer.decision.duration"} {
		assert.Positive(t, got[key], key)
	}
	assert.GreaterOrEqual(t, got["gen_ai.response.time_to_first_chunk"], got["kvsteer.ttft.observed"])

	require.Len(t, s.Events(), 2)
	attempt, first := s.Events()[0], s.Events()[1]
	assert.Equal(t, "kvsteer.attempt", attempt.Name)
	assert.Equal(t, "w0", attributes(attempt.Attributes)["kvsteer.worker"])
	assert.Equal(t, "kvsteer.first_token", first.Name)
	assert.False(t, first.Time.Before(attempt.Time))
	assert.False(t, s.EndTime().Before(first.Time))
}

// What an engine does not report is absent, which is not zero.
func TestAbsentIsNotZero(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, engine: func(_ int, c *fleettest.Config) { c.NoCachedTokens = true }})
	r.post(chat("hi", false))
	got := attributes(r.span().Attributes())
	assert.Contains(t, got, "gen_ai.usage.input_tokens")
	assert.NotContains(t, got, "gen_ai.usage.cache_read.input_tokens")
	assert.NotContains(t, got, "kvsteer.cached_tokens.reported")
	r.spans.Reset()
	r.engines[0].Faults().NoUsage(true)
	r.post(chat("hi", true))
	assert.NotContains(t, attributes(r.span().Attributes()), "gen_ai.usage.input_tokens")
}

func TestOperations(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	for path, c := range map[string]struct{ body, name string }{
		"/v1/chat/completions":  {chat("hi", false), "chat m"},
		"/v1/chat/completions/": {chat("hi", false), "chat m"},
		"/v1/completions":       {`{"model":"m","prompt":"hi"}`, "text_completion m"},
		"/v1/messages":          {`{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`, "chat m"},
		"/v1/responses":         {`{"model":"m","input":"hi"}`, "chat m"},
		"/v1/embeddings":        {`{"model":"m","input":"hi"}`, "embeddings m"},
	} {
		r.spans.Reset()
		resp, err := r.transport.RoundTrip(newRequest(t.Context(), t, path, c.body))
		require.NoError(t, err, path)
		drain(t, resp)
		s := r.span()
		assert.Equal(t, c.name, s.Name(), path)
	}
	// What carries no prompt has no span.
	r.spans.Reset()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://kvsteer/v1/models", nil)
	require.NoError(t, err)
	resp, err := r.transport.RoundTrip(req)
	require.NoError(t, err)
	drain(t, resp)
	assert.Empty(t, r.spans.Started())
}

// Real propagation, through a gateway into the engine: the client's trace goes on there as a
// child of the gateway's span.
func TestWorkersGetTheTrace(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	gateway := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: r.transport, ErrorHandler: kvsteer.WriteError,
	})
	defer gateway.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+path, strings.NewReader(chat("hi", true)))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", clientParent)
	req.Header.Set("Tracestate", "vendor=1")
	req.Header.Set("Baggage", "a=b")
	resp, err := gateway.Client().Do(req)
	require.NoError(t, err)
	drain(t, resp)

	s := r.span()
	assert.Equal(t, clientTrace, s.SpanContext().TraceID().String())
	assert.Equal(t, clientSpan, s.Parent().SpanID().String())
	h := r.engines[0].Requests()[0].Header
	assert.Equal(t, []string{"00-" + clientTrace + "-" + s.SpanContext().SpanID().String() + "-01"}, h.Values("Traceparent"))
	assert.Equal(t, []string{"vendor=1"}, h.Values("Tracestate"))
	assert.Equal(t, []string{"a=b"}, h.Values("Baggage"))
}

// The gateway's own span, as otelhttp makes one, is the parent, whatever the client says.
func TestTheGatewaysSpanIsTheParent(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, tracer: kvsteerotel.Options{PublicEndpoint: true}})
	ctx, parent := r.provider.Tracer("gateway").Start(t.Context(), "POST")
	req := newRequest(ctx, t, path, chat("hi", false))
	req.Header.Set("Traceparent", clientParent)
	req.Header.Set("Tracestate", "vendor=1")
	resp, err := r.transport.RoundTrip(req)
	require.NoError(t, err)
	drain(t, resp)
	parent.End()
	require.Len(t, r.spans.Ended(), 2)
	s := r.spans.Ended()[0]
	assert.Equal(t, parent.SpanContext().SpanID(), s.Parent().SpanID())
	assert.Empty(t, s.Links())
	h := r.engines[0].Requests()[0].Header
	assert.Contains(t, h.Get("Traceparent"), s.SpanContext().SpanID().String())
	assert.Empty(t, h.Values("Tracestate"), "the client's belongs to the client's trace")
	assert.Equal(t, clientParent, req.Header.Get("Traceparent"), "the caller's request is left alone")
}

func TestPublicEndpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, tracer: kvsteerotel.Options{PublicEndpoint: true}})
	req := newRequest(t.Context(), t, path, chat("hi", false))
	req.Header.Set("Traceparent", clientParent)
	resp, err := r.transport.RoundTrip(req)
	require.NoError(t, err)
	drain(t, resp)
	s := r.span()
	assert.NotEqual(t, clientTrace, s.SpanContext().TraceID().String())
	assert.False(t, s.Parent().IsValid())
	require.Len(t, s.Links(), 1)
	assert.Equal(t, clientTrace, s.Links()[0].SpanContext.TraceID().String())
	assert.Contains(t, r.engines[0].Requests()[0].Header.Get("Traceparent"), s.SpanContext().TraceID().String())
}

// A trace that is not sampled is passed on as such; one without a provider as it came.
func TestNotRecording(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1, sampler: sdktrace.NeverSample()})
	r.post(chat("hi", false))
	assert.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-00$`, r.engines[0].Requests()[0].Header.Get("Traceparent"))
	assert.Zero(t, r.tracer.UnderWay())

	for name, p := range map[string]propagation.TextMapPropagator{
		"a propagator": propagation.TraceContext{}, "none": propagation.NewCompositeTextMapPropagator(),
	} {
		none := kvsteerotel.New(kvsteerotel.Options{TracerProvider: noRecording(), Propagator: p})
		rt := none.Transport(r.router, kvsteer.TransportOptions{})
		req := newRequest(t.Context(), t, path, chat("hi", false))
		req.Header.Set("Traceparent", clientParent)
		resp, err := rt.RoundTrip(req)
		require.NoError(t, err)
		drain(t, resp)
		rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
		all := r.engines[0].Requests()
		assert.Equal(t, clientParent, all[len(all)-1].Header.Get("Traceparent"), name)
	}
}

// Whatever a client names its model: spans stay small, valid, and few by name.
func TestModelNamesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	for _, model := range []string{strings.Repeat("é", 1<<19), "x" + strings.Repeat("界", 50)} {
		r.spans.Reset()
		require.Error(t, r.read(t.Context(), fmt.Sprintf(`{"model":%q,"messages":[]}`, model)))
		s := r.span()
		assert.Equal(t, "chat", s.Name(), "what nobody serves does not name a span")
		name, _ := attributes(s.Attributes())["gen_ai.request.model"].(string)
		assert.NotEmpty(t, name)
		assert.LessOrEqual(t, len(name), 100)
		assert.True(t, utf8.ValidString(name))
	}
	assert.Equal(t, "ab", kvsteerotel.Clip("a\xffb"))
}

// Many at once: each span is whole, and none is mixed up with another.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const n = 200
	r := newRig(t, rigConfig{engines: 3, options: []kvsteer.Option{kvsteer.WithMaxAttempts(3)}})
	r.engines[0].Faults().FailRate(0.3, http.StatusServiceUnavailable, 0)
	var (
		wg   sync.WaitGroup
		errs [n]error
	)
	for i := range n {
		wg.Go(func() {
			errs[i] = r.read(t.Context(), chat(strings.Repeat("x ", i), i%2 == 0))
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs[:]...))
	require.Len(t, r.spans.Ended(), n)
	require.Len(t, r.spans.Started(), n)
	require.Zero(t, r.tracer.UnderWay())
	byTrace := map[string]string{} // span -> worker
	for _, s := range r.spans.Ended() {
		got := attributes(s.Attributes())
		byTrace[s.SpanContext().SpanID().String()], _ = got["kvsteer.worker"].(string)
		assert.Len(t, events(s, "kvsteer.attempt"), int(got["kvsteer.attempt"].(int64)))
	}
	require.Len(t, byTrace, n)
	for _, e := range r.engines {
		for _, q := range e.Requests() {
			parts := strings.Split(q.Header.Get("Traceparent"), "-")
			if len(parts) == 4 && q.Status == http.StatusOK { // none, if the router asks for itself
				assert.Equal(t, e.Name(), byTrace[parts[2]])
			}
		}
	}
}

// slowDecoders predicts that workers that decode are slow at prompts.
type slowDecoders struct{}

func (slowDecoders) Predict(in []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range in {
		own := time.Duration(in[i].Uncached) * time.Millisecond
		if in[i].Class == string(fleet.RoleDecode) {
			own *= 10
		}
		out[i] = kvsteer.Prediction{TTFT: own, Prefill: own, Externality: own}
	}
}

func (slowDecoders) Observe(*kvsteer.Features, time.Duration) {}

// Two workers for one request: one span, which both hear of.
func TestTwoLegs(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{
		engine:  func(i int, c *fleettest.Config) { c.Role = []fleet.Role{fleet.RolePrefill, fleet.RoleDecode}[i] },
		worker:  func(w *fleet.Worker) { w.Class = string(w.Role) },
		options: []kvsteer.Option{kvsteer.WithPredictor(slowDecoders{})},
	})
	r.post(chat(strings.Repeat("a long prompt ", 400), true))
	s := r.span()
	assertHas(t, s, map[string]any{"kvsteer.worker": "w1", "kvsteer.prefill_worker": "w0", "error.type": nil})
	require.Len(t, events(s, "kvsteer.attempt"), 1)
	for _, e := range r.engines {
		require.Len(t, e.Requests(), 1)
		assert.Contains(t, e.Requests()[0].Header.Get("Traceparent"), s.SpanContext().SpanID().String(), e.Name())
	}
}

// The exporter that users begin with gets whole spans too.
func TestInMemoryExporter(t *testing.T) {
	t.Parallel()
	memory := tracetest.NewInMemoryExporter()
	r := newRig(t, rigConfig{engines: 1})
	r.provider.RegisterSpanProcessor(sdktrace.NewBatchSpanProcessor(memory, sdktrace.WithBatchTimeout(time.Hour)))
	r.post(chat("hi", true))
	require.NoError(t, r.provider.ForceFlush(t.Context()))
	require.Len(t, memory.GetSpans(), 1)
	assert.Equal(t, "chat m", memory.GetSpans()[0].Name)
}
