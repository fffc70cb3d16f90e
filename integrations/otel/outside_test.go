package kvsteerotel_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"

	"github.com/kvsteer/kvsteer"
	kvsteerotel "github.com/kvsteer/kvsteer/integrations/otel"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

// anybody takes whoever serves the model.
type anybody struct{}

func (anybody) Evaluate(_ *policy.Request, all []policy.Candidate, plan *policy.Plan) {
	plan.Rule = "open"
	for i := range all {
		plan.Order = append(plan.Order, i)
	}
}

// outside is a rig with a model that only a provider has, and that provider.
func outside(t *testing.T) (*rig, *providertest.Server) {
	t.Helper()
	srv := providertest.New(t, providertest.Anthropic, providertest.Options{Key: "k"})
	set, err := providers.New([]providers.Provider{{
		Name: "cloud", Kind: providers.Anthropic{}, URL: srv.BaseURL(), Credentials: providers.Static("k"),
		Models: []providers.Model{{Name: "big"}},
	}}, providers.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })
	return newRig(t, rigConfig{
		engines: 1, options: []kvsteer.Option{kvsteer.WithProviders(set), kvsteer.WithPolicy(anybody{})},
	}), srv
}

// A seed is nothing that this provider has: the Decision is another one once it is left out.
const big = `{"model":"big","seed":5,"messages":[{"role":"user","content":"hi"}]}`

func withBaggage(ctx context.Context, t *testing.T) context.Context {
	t.Helper()
	member, err := baggage.NewMember("user", "CANARY")
	require.NoError(t, err)
	b, err := baggage.New(member)
	require.NoError(t, err)
	return baggage.ContextWithBaggage(ctx, b)
}

// A provider is told neither of the trace nor of its baggage, whoever sends; a worker is.
func TestProvidersGetNoTrace(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(t *testing.T, r *rig, body string){
		"by a Transport": func(t *testing.T, r *rig, body string) {
			t.Helper()
			req := newRequest(withBaggage(t.Context(), t), t, path, body)
			req.Header.Set("Traceparent", clientParent)
			req.Header.Set("Baggage", "session=CANARY")
			resp, err := r.transport.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			drain(t, resp)
		},
		"by hand": func(t *testing.T, r *rig, body string) {
			t.Helper()
			sel, err := r.tracer.Select(withBaggage(t.Context(), t), r.router, r.sel(body))
			require.NoError(t, err)
			base := kvsteer.NewBase()
			defer base.CloseIdleConnections()
			sent := r.tracer.Base(base)
			req := newRequest(sel.Context(), t, path, string(sel.Body()))
			sel.Propagate(req.Header)
			if via := sel.Target().Via; via != nil {
				sent = via(sent)
			} else {
				req.URL.Host = sel.Target().URL.Host
			}
			resp, err := sent.RoundTrip(req)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, resp.StatusCode)
			answer := sel.Answer(resp.StatusCode, resp.Header)
			b, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			answer.Pass(b)
			answer.End()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, srv := outside(t)
			send(t, r, big)
			for _, header := range []string{"Traceparent", "Tracestate", "Baggage"} {
				assert.Empty(t, srv.Last().Header.Values(header), header)
			}
			s := r.span()
			assertHas(t, s, map[string]any{"gen_ai.provider.name": "anthropic", "error.type": nil})

			send(t, r, chat("hi", false))
			got := r.engines[0].Requests()[0].Header
			assert.Contains(t, got.Get("Traceparent"), clientTrace)
			assert.Contains(t, got.Get("Baggage"), "CANARY", "a worker is ours")
		})
	}
}

// Of a stranger's headers a link is taken, and no baggage.
func TestStrangersBaggageIsNotRead(t *testing.T) {
	t.Parallel()
	for _, public := range []bool{false, true} {
		r := newRig(t, rigConfig{tracer: kvsteerotel.Options{PublicEndpoint: public}})
		q := r.sel(chat("hi", false))
		q.Header.Set("Baggage", "user=stranger")
		sel, err := r.tracer.Select(t.Context(), r.router, q)
		require.NoError(t, err)
		read := baggage.FromContext(sel.Context()).Member("user").Value()
		sel.Done(kvsteer.Usage{})
		if public {
			assert.Empty(t, read)
			assert.Len(t, r.span().Links(), 1)
		} else {
			assert.Equal(t, "stranger", read)
		}
	}
}

// A worker that can't be dialled in time is unreachable: nobody has cancelled.
func TestADialThatTimesOutIsUnreachable(t *testing.T) {
	t.Parallel()
	slow := &http.Transport{DialContext: (&net.Dialer{Timeout: time.Nanosecond}).DialContext}
	r := newRig(t, rigConfig{engines: 1, transport: kvsteer.TransportOptions{Base: slow}})
	require.Error(t, r.read(t.Context(), chat("hi", false)))
	assertHas(t, r.span(), map[string]any{"error.type": "unreachable"})
}

// A span ends though its request does while another attempt is chosen for it.
func TestEndedDuringNext(t *testing.T) {
	t.Parallel()
	failed := kvsteer.StatusError(http.StatusServiceUnavailable)
	t.Run("before it is known of", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, rigConfig{})
		sel, err := r.tracer.Select(t.Context(), r.router, r.sel(chat("hi", false)))
		require.NoError(t, err)
		require.NoError(t, sel.Selection.Next(t.Context(), failed)) // as far as Next is when the other comes
		sel.Abort(nil)
		assertHas(t, r.span(), map[string]any{"kvsteer.attempt": int64(2), "error.type": "canceled"})
		require.Len(t, events(r.span(), "kvsteer.attempt"), 2)
	})
	t.Run("whenever", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, rigConfig{})
		const n = 300
		for range n {
			sel, err := r.tracer.Select(t.Context(), r.router, r.sel(chat("hi", false)))
			require.NoError(t, err)
			var wg sync.WaitGroup
			wg.Go(func() { _ = sel.Next(t.Context(), failed) }) // it may have ended
			wg.Go(func() { sel.Abort(nil) })
			wg.Wait()
		}
		require.Len(t, r.spans.Ended(), n)
		require.Zero(t, r.tracer.UnderWay())
	})
}
