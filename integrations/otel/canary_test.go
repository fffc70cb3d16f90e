package kvsteerotel_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// A canary in the prompt, in tools, in credentials, in broken JSON, in answers, in a worker's
// URL, in the texts of errors and panics comes out nowhere in a span.
func TestCanary(t *testing.T) {
	t.Parallel()
	const canary = "CANARY-7f3a"
	r := newRig(t, rigConfig{engine: func(_ int, c *fleettest.Config) {
		c.Reply = func(fleettest.Call) string { return canary }
	}})
	bodies := []string{
		chat("secret "+canary, true), chat("secret "+canary, false),
		`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","arguments":"` + canary + `"}}]}`,
		`{"model":"m","messages":[{"role":"user","content":"` + canary,
		`{"model":"m","messages":"` + canary + `"}`,
		`{"model":"m","` + canary + `":nul}`,
		`{"model":"other","user":"` + canary + `","messages":[{"role":"user","content":"` + canary + `"}]}`,
	}
	ends := []http.RoundTripper{
		r.transport,
		r.tracer.Transport(r.router, kvsteer.TransportOptions{Base: failing(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("could not send " + canary)
		})}),
		r.tracer.Transport(r.router, kvsteer.TransportOptions{Base: failing(func(*http.Request) (*http.Response, error) {
			panic(canary)
		})}),
		r.tracer.Transport(r.router, kvsteer.TransportOptions{Base: failing(func(*http.Request) (*http.Response, error) {
			resp, err := canned(nil)
			resp.Body = io.NopCloser(strings.NewReader(`{"error":{"message":"` + canary + `"}}`))
			return resp, err
		})}),
	}
	for _, body := range bodies {
		for _, rt := range ends {
			func() {
				defer func() { _ = recover() }()
				req := newRequest(t.Context(), t, path, body)
				req.Header.Set("Authorization", "Bearer "+canary)
				req.Header.Set("X-Api-Key", canary)
				req.Header.Set("Cookie", canary)
				resp, err := rt.RoundTrip(req)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}()
		}
		if sel, err := r.tracer.Select(t.Context(), r.router, r.sel(body)); err == nil {
			_ = sel.Next(t.Context(), errors.New(canary))
			sel.Abort(errors.New(canary))
		}
	}
	require.Len(t, r.spans.Ended(), len(bodies)*(len(ends)+1))
	for _, s := range r.spans.Ended() {
		require.NotContains(t, fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status(), s.Links(), s.SpanContext()), canary)
	}
	seen := false
	for _, e := range r.engines {
		for _, q := range e.Requests() {
			seen = seen || strings.Contains(string(q.Body), canary)
		}
	}
	require.True(t, seen, "the canary has been sent at all")
}
