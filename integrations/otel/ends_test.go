package kvsteerotel_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/policy"
)

// nobody is a policy that lets nothing through.
type nobody struct{}

func (nobody) Evaluate(_ *policy.Request, _ []policy.Candidate, plan *policy.Plan) {
	plan.Rule = "closed"
}

// However a request ends, its span ends then, once, and says how.
func TestEveryPathEndsTheSpanOnce(t *testing.T) {
	t.Parallel()
	all := func(r *rig, f func(*fleettest.Faults)) {
		for _, e := range r.engines {
			f(e.Faults())
		}
	}
	for name, c := range map[string]struct {
		config    rigConfig
		do        func(r *rig)
		errorType any      // of the span, nil if it went well
		failed    []string // error.type of the attempts before the last
		attempts  int      // events
		tokens    int      // first token events
	}{
		"a stream": {
			do:       func(r *rig) { require.NoError(r.t, r.read(r.t.Context(), chat("hi", true))) },
			attempts: 1, tokens: 1,
		},
		"no stream": {
			do:       func(r *rig) { require.NoError(r.t, r.read(r.t.Context(), chat("hi", false))) },
			attempts: 1,
		},
		"closed early": {
			do: func(r *rig) {
				all(r, func(f *fleettest.Faults) { f.Hang(fleettest.HangMidStream) })
				resp, err := r.transport.RoundTrip(newRequest(r.t.Context(), r.t, path, chat("hi", true)))
				require.NoError(r.t, err)
				_, err = io.ReadFull(resp.Body, make([]byte, 1))
				require.NoError(r.t, err)
				require.NoError(r.t, resp.Body.Close())
				require.NoError(r.t, resp.Body.Close(), "twice")
			},
			errorType: "canceled", attempts: 1, tokens: -1,
		},
		"closed at once": {
			do: func(r *rig) {
				resp, err := r.transport.RoundTrip(newRequest(r.t.Context(), r.t, path, chat("hi", true)))
				require.NoError(r.t, err)
				require.NoError(r.t, resp.Body.Close())
			},
			errorType: "canceled", attempts: 1, tokens: -1,
		},
		"canceled before the first byte": {
			do: func(r *rig) {
				all(r, func(f *fleettest.Faults) { f.Hang(fleettest.HangBeforeHeaders) })
				ctx, cancel := context.WithCancel(r.t.Context())
				defer cancel()
				go func() {
					assert.Eventually(r.t, func() bool { return r.router.InFlight() > 0 }, wait, tick)
					cancel()
				}()
				require.Error(r.t, r.read(ctx, chat("hi", true)))
			},
			errorType: "canceled", attempts: 1,
		},
		"canceled in the stream": {
			do: func(r *rig) {
				all(r, func(f *fleettest.Faults) { f.Hang(fleettest.HangMidStream) })
				ctx, cancel := context.WithCancel(r.t.Context())
				defer cancel()
				resp, err := r.transport.RoundTrip(newRequest(ctx, r.t, path, chat("hi", true)))
				require.NoError(r.t, err)
				cancel()
				_, err = io.Copy(io.Discard, resp.Body)
				require.Error(r.t, err)
				require.NoError(r.t, resp.Body.Close())
			},
			errorType: "canceled", attempts: 1, tokens: -1,
		},
		"canceled before it began": {
			do: func(r *rig) {
				ctx, cancel := context.WithCancel(r.t.Context())
				cancel()
				require.Error(r.t, r.read(ctx, chat("hi", true)))
			},
			errorType: "canceled",
		},
		"its time is up": {
			do: func(r *rig) {
				all(r, func(f *fleettest.Faults) { f.Hang(fleettest.HangBeforeHeaders) })
				ctx, cancel := context.WithTimeout(r.t.Context(), 100*time.Millisecond)
				defer cancel()
				require.Error(r.t, r.read(ctx, chat("hi", true)))
			},
			errorType: "timeout", attempts: -1,
		},
		"tried again": {
			do: func(r *rig) {
				r.first = func(f *fleettest.Faults) { f.Fail(1, http.StatusServiceUnavailable, 0) }
				require.NoError(r.t, r.read(r.t.Context(), chat("hi", true)))
			},
			failed: []string{"503"}, attempts: 2, tokens: 1,
		},
		"everybody fails": {
			do: func(r *rig) {
				all(r, func(f *fleettest.Faults) { f.Fail(9, http.StatusInternalServerError, 0) })
				require.NoError(r.t, r.read(r.t.Context(), chat("hi", true)), "the worker's own answer is passed on")
			},
			errorType: "500", failed: []string{"500"}, attempts: 2,
		},
		"a client's fault": {
			do: func(r *rig) {
				require.NoError(r.t, r.read(r.t.Context(), `{"model":"m","max_tokens":-1,"messages":[{"role":"user","content":"hi"}]}`))
			},
			errorType: "400", attempts: 1,
		},
		"died before the first token": {
			do: func(r *rig) {
				r.first = func(f *fleettest.Faults) { f.DieMidStream(1, 0) }
				require.NoError(r.t, r.read(r.t.Context(), chat("hi", true)))
			},
			failed: []string{"broken_off"}, attempts: 2, tokens: 1,
		},
		"died in the stream": {
			do: func(r *rig) {
				all(r, func(f *fleettest.Faults) { f.DieMidStream(9, 2) })
				require.Error(r.t, r.read(r.t.Context(), chat("hi", true)))
			},
			errorType: "broken_off", attempts: 1, tokens: 1,
		},
		"unreachable": {
			config: rigConfig{engines: 1, transport: kvsteer.TransportOptions{Base: failing(func(req *http.Request) (*http.Response, error) {
				req.URL.Host = "127.0.0.1:1" // a port that nobody listens on
				return http.DefaultTransport.RoundTrip(req)
			})}},
			do:        func(r *rig) { require.Error(r.t, r.read(r.t.Context(), chat("hi", true))) },
			errorType: "unreachable", attempts: 1,
		},
		"silent": {
			config: rigConfig{transport: kvsteer.TransportOptions{FirstByteTimeout: 50 * time.Millisecond}},
			do: func(r *rig) {
				all(r, func(f *fleettest.Faults) { f.Hang(fleettest.HangBeforeHeaders) })
				require.Error(r.t, r.read(r.t.Context(), chat("hi", true)))
			},
			errorType: "timeout", failed: []string{"timeout"}, attempts: 2,
		},
		"stalled": {
			config: rigConfig{transport: kvsteer.TransportOptions{IdleTimeout: 50 * time.Millisecond}},
			do: func(r *rig) {
				all(r, func(f *fleettest.Faults) { f.Hang(fleettest.HangMidStream) })
				require.Error(r.t, r.read(r.t.Context(), chat("hi", true)))
			},
			errorType: "timeout", attempts: 1, tokens: -1,
		},
		"unknown model": {
			do: func(r *rig) {
				require.Error(r.t, r.read(r.t.Context(), `{"model":"other","messages":[]}`))
				assertHas(r.t, r.span(), map[string]any{"gen_ai.request.model": "other"})
			},
			errorType: "unknown_model",
		},
		"no JSON": {
			do:        func(r *rig) { require.Error(r.t, r.read(r.t.Context(), `{"model":`)) },
			errorType: "bad_request",
		},
		"rejected by policy": {
			config: rigConfig{options: []kvsteer.Option{kvsteer.WithPolicy(nobody{})}},
			do: func(r *rig) {
				require.Error(r.t, r.read(r.t.Context(), chat("hi", false)))
				assertHas(r.t, r.span(), map[string]any{"gen_ai.request.model": "m", "kvsteer.rule": "closed"})
			},
			errorType: "rejected_by_policy",
		},
		"the router is closed": {
			do: func(r *rig) {
				require.NoError(r.t, r.router.Close())
				require.Error(r.t, r.read(r.t.Context(), chat("hi", false)))
			},
			errorType: "router_closed",
		},
		"an error in the answer": {
			config: rigConfig{transport: kvsteer.TransportOptions{Base: failing(func(*http.Request) (*http.Response, error) {
				resp, err := canned(nil)
				resp.Body = io.NopCloser(strings.NewReader(`{"error":{"message":"no"}}`))
				return resp, err
			})}},
			do:        func(r *rig) { require.NoError(r.t, r.read(r.t.Context(), chat("hi", false))) },
			errorType: "error_in_answer", attempts: 1,
		},
		"the base panics": {
			config: rigConfig{transport: kvsteer.TransportOptions{Base: failing(func(*http.Request) (*http.Response, error) { panic("oh") })}},
			do: func(r *rig) {
				assert.PanicsWithValue(r.t, "oh", func() { _ = r.read(r.t.Context(), chat("hi", false)) })
			},
			errorType: "panic", attempts: 1,
		},
		"the gateway's code panics": {
			config: rigConfig{transport: kvsteer.TransportOptions{Describe: func(*http.Request, *kvsteer.Request) { panic("oh") }}},
			do: func(r *rig) {
				assert.PanicsWithValue(r.t, "oh", func() { _ = r.read(r.t.Context(), chat("hi", false)) })
			},
			errorType: "panic",
		},
		"the gateway's code panics later": {
			config: rigConfig{transport: kvsteer.TransportOptions{OnDecision: func(*http.Request, *kvsteer.Decision) { panic("oh") }}},
			do: func(r *rig) {
				assert.PanicsWithValue(r.t, "oh", func() { _ = r.read(r.t.Context(), chat("hi", false)) })
			},
			errorType: "_OTHER", attempts: 1,
		},
		"forgotten": {
			config: rigConfig{options: []kvsteer.Option{kvsteer.WithMaxIdle(time.Second)}},
			do: func(r *rig) {
				resp, err := r.transport.RoundTrip(newRequest(r.t.Context(), r.t, path, chat("hi", true)))
				r.span()        // without a look at the answer
				if err == nil { // else a machine that pauses has forgotten it before
					_ = resp.Body.Close()
				}
			},
			errorType: "abandoned", attempts: 1, tokens: -1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.config)
			c.do(r)
			s := r.span()
			assertHas(t, s, map[string]any{"error.type": c.errorType})
			if c.errorType == nil {
				assert.Equal(t, codes.Unset, s.Status().Code)
			} else {
				assert.Equal(t, codes.Error, s.Status().Code)
				assert.Empty(t, s.Status().Description, "texts may quote prompts")
			}
			if c.attempts >= 0 {
				assert.Len(t, events(s, "kvsteer.attempt"), c.attempts)
			}
			if c.tokens >= 0 {
				assert.Len(t, events(s, "kvsteer.first_token"), c.tokens)
			}
			var failed []string
			for _, e := range events(s, "kvsteer.attempt.failed") {
				failed = append(failed, e["error.type"].(string))
			}
			assert.Equal(t, c.failed, failed)
			require.Eventually(t, func() bool { return r.router.InFlight() == 0 }, wait, tick)
		})
	}
}

// read sends a request and reads the answer to its end.
func (r *rig) read(ctx context.Context, body string) error {
	r.t.Helper()
	resp, err := r.transport.RoundTrip(newRequest(ctx, r.t, path, body))
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(r.t, resp.Body.Close())
	return err
}
