package kvsteer_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
)

// worker answers requests as a test wants it, where a fake engine is too well
// behaved.
type worker struct {
	models []string // served; testModel if nil
	serve  http.HandlerFunc
	health http.HandlerFunc // always well if nil
	role   fleet.Role
}

// newScripted is newRig over such workers, named s0, s1 and so on.
func newScripted(t *testing.T, c rigConfig, workers ...worker) *rig {
	t.Helper()
	r := &rig{t: t, observed: &recorder{}}
	described := make([]fleet.Worker, 0, len(workers))
	for i, w := range workers {
		models := w.models
		if models == nil {
			models = []string{testModel}
		}
		mux := http.NewServeMux()
		health := w.health
		if health == nil {
			health = func(http.ResponseWriter, *http.Request) {}
		}
		mux.HandleFunc("GET /health", health)
		mux.HandleFunc("/", w.serve)
		for _, admin := range []string{"/metrics", "GET /v1/models", "/server_info", "/get_server_info"} {
			mux.HandleFunc(admin, http.NotFound)
		}
		srv := httptest.NewUnstartedServer(mux)
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.Start()
		t.Cleanup(srv.Close)
		described = append(described, fleet.Worker{
			Name: fmt.Sprintf("s%d", i), URL: srv.URL, Models: models, Role: w.role, Class: string(w.role),
		})
	}
	o := fleet.Options{
		Discoverer: fleet.Static(described...), ProbeInterval: 50 * time.Millisecond, ScrapeInterval: -1,
		ProbeTimeout: wait, // a busy test machine must not look like sick engines
	}
	if c.probes > 0 {
		o.ProbeInterval = c.probes
	}
	f, err := fleet.New(o)
	require.NoError(t, err)
	r.fleet = f
	opts := append([]kvsteer.Option{kvsteer.WithFleet(f), kvsteer.WithSeed(1), kvsteer.WithHooks(r.observed)}, c.options...)
	r.router, err = kvsteer.New(opts...)
	require.NoError(t, err)
	r.transport = kvsteer.NewTransport(r.router, c.transport)
	r.gateway = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: r.transport, ErrorHandler: kvsteer.WriteError,
		ErrorLog: log.New(io.Discard, "", 0),
	})
	t.Cleanup(func() {
		r.gateway.Close()
		r.transport.CloseIdleConnections()
		require.NoError(t, r.router.Close())
		require.NoError(t, f.Close())
		require.Zero(t, r.router.InFlight(), "selections left")
	})
	r.waitRoutable(len(workers))
	return r
}

// whole answers like an engine that is done.
func whole(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
}

// sseEvents answers with a stream of the given data lines.
func sseEvents(data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, d := range data {
			fmt.Fprintf(w, "data: %s\n\n", d)
			w.(http.Flusher).Flush()
		}
	}
}

// prompts calls serve for requests that carry a prompt, and answers 404 to what
// the router asks on its own account.
func prompts(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tokenize", "/v1/chat/completions/render", "/v1/completions/render":
			http.NotFound(w, r)
		default:
			// net/http notices that the client went away only once the body was read.
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			serve(w, r)
		}
	}
}
