package record_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
)

// asks is a policy that wants to know headers.
type asks struct{ policy.Default }

func (asks) Needs() policy.Needs { return policy.Needs{Headers: []string{"X-Secret", "Authorization"}} }

// A canary in prompts, tool arguments, headers, credentials, session names, broken JSON
// and in what engines say about errors is in no log.
func TestCanary(t *testing.T) {
	const canary = "CANARY-9c41"
	hub := follow.NewHub()
	engine := fleettest.New(t, fleettest.Config{
		Name: "w0", Model: "m", Speed: 1000, Hub: hub, OutputTokens: 4, Reply: func(fleettest.Call) string { return canary },
	})
	at, err := url.Parse(engine.Worker().URL)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	// An engine that fails, and quotes the prompt.
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost || strings.Contains(req.URL.Path, "tokenize") {
			proxy.ServeHTTP(w, req)
			return
		}
		body, _ := io.ReadAll(req.Body)
		w.Header().Set("X-Echo", canary)
		http.Error(w, "can't do "+string(body), http.StatusInternalServerError)
	}))
	defer failing.Close()
	bad := engine.Worker()
	bad.Name, bad.URL, bad.Events = "w1", failing.URL, nil
	f, err := fleet.New(fleet.Options{Discoverer: fleet.Static(engine.Worker(), bad), UnhealthyAfter: 1000, ProbeTimeout: 20 * time.Second})
	require.NoError(t, err)
	defer f.Close()
	var log, said bytes.Buffer
	rec, err := record.New(&log, record.Options{Logger: slog.New(slog.NewTextHandler(&said, nil)), CloseTimeout: time.Minute})
	require.NoError(t, err)
	router, err := kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithEvents(hub), kvsteer.WithHooks(rec), kvsteer.WithPolicy(asks{}))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return f.Snapshot().Routable() == 2 }, 30*time.Second, time.Millisecond)
	transport := kvsteer.NewTransport(router, kvsteer.TransportOptions{})
	gateway := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: transport, ErrorHandler: kvsteer.WriteError,
	})

	chat := `{"model":"m","session_id":"` + canary + `","user":"` + canary + `","metadata":{"x":"` + canary + `"},"stream":true,` +
		`"messages":[{"role":"user","content":"say ` + canary + `"}],` +
		`"tools":[{"type":"function","function":{"name":"f","arguments":"` + canary + `"}}]}`
	for i, body := range []string{
		chat, chat, chat, chat, strings.Replace(chat, `"stream":true`, `"stream":false`, 1),
		chat[:len(chat)-9], `{"model":"m","messages":"` + canary + `"}`, `{"model":"` + canary + `","messages":[]}`,
		`{"model":"m","prompt":"` + canary + `","` + canary + `":nul}`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+"/v1/chat/completions?key="+canary, strings.NewReader(body))
		require.NoError(t, err)
		for _, name := range []string{"Authorization", "X-Secret", "X-Session-Id", "Cookie"} {
			req.Header.Set(name, "Bearer "+canary)
		}
		resp, err := gateway.Client().Do(req)
		require.NoError(t, err)
		if i == 1 {
			_, _ = io.ReadAll(resp.Body)
		}
		require.NoError(t, resp.Body.Close())
		sel, err := router.Select(t.Context(), &kvsteer.Request{
			API: kvsteer.ChatCompletions, Body: []byte(body), Header: req.Header,
		})
		if err != nil {
			continue
		}
		sel.Abort(errors.New("engine says: " + canary))
	}
	gateway.Close()
	transport.CloseIdleConnections()
	require.NoError(t, router.Close())
	require.NoError(t, rec.Close())
	s := rec.Status()
	require.Greater(t, s.Decisions, uint64(8))
	require.Greater(t, s.Outcomes, uint64(8))
	require.NotContains(t, log.String(), canary)
	require.NotContains(t, log.String(), "Bearer")
	require.NotContains(t, said.String(), canary)
	failed := 0
	for _, e := range entries(t, log.Bytes()) {
		if e.Outcome != nil && e.Outcome.Error == "failed" {
			failed++
		}
	}
	require.Positive(t, failed)
}
