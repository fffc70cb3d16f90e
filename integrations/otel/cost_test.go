package kvsteerotel_test

import (
	"context"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/kvsteer/kvsteer"
	kvsteerotel "github.com/kvsteer/kvsteer/integrations/otel"
)

func noRecording() trace.TracerProvider { return noop.NewTracerProvider() }

// canned answers at once, so that only what is before it is measured.
var canned = failing(func(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)),
	}, nil
})

func roundTrip(tb testing.TB, rt http.RoundTripper) {
	tb.Helper()
	req := newRequest(tb.Context(), tb, "/v1/embeddings", `{"model":"m","input":[1,2,3]}`)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		tb.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// Without a provider that records nothing is paid but a few allocations.
func TestCostWithoutRecording(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, quiet: true})
	plain := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: canned})
	tracer := kvsteerotel.New(kvsteerotel.Options{TracerProvider: noRecording(), Propagator: propagation.TraceContext{}})
	traced := tracer.Transport(r.router, kvsteer.TransportOptions{Base: canned})
	// Whatever else allocates in the process is counted, too: the least is what counts.
	least := func(rt http.RoundTripper) float64 {
		const tries, runs = 5, 100
		n := math.Inf(1)
		for range tries {
			n = min(n, testing.AllocsPerRun(runs, func() { roundTrip(t, rt) }))
		}
		return n
	}
	without, with := least(plain), least(traced)
	require.LessOrEqual(t, with-without, 8.0, "%v allocations without, %v with", without, with)
}

func BenchmarkRequest(b *testing.B) {
	r := newRig(b, rigConfig{engines: 1, unhooked: true})
	run := func(name string, rt http.RoundTripper) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				roundTrip(b, rt)
			}
		})
	}
	run("untraced", kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: canned}))
	for name, p := range map[string]trace.TracerProvider{
		"no provider": noRecording(),
		"not sampled": sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample())),
	} {
		tracer := kvsteerotel.New(kvsteerotel.Options{TracerProvider: p, Propagator: propagation.TraceContext{}})
		run(name, tracer.Transport(r.router, kvsteer.TransportOptions{Base: canned}))
	}
	recorded := newRig(b, rigConfig{engines: 1})
	recorded.provider.UnregisterSpanProcessor(recorded.spans)
	recorded.provider.RegisterSpanProcessor(discard{})
	run("recorded", recorded.tracer.Transport(recorded.router, kvsteer.TransportOptions{Base: canned}))
}

// discard is a processor that wants spans and throws them away.
type discard struct{}

func (discard) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discard) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discard) Shutdown(context.Context) error                  { return nil }
func (discard) ForceFlush(context.Context) error                { return nil }
