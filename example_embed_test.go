package kvsteer_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// The code in docs/embed.md; internal/docscheck looks for it here.

func newGateway(router *kvsteer.Router) http.Handler {
	transport := kvsteer.NewTransport(router, kvsteer.TransportOptions{
		FirstByteTimeout: 5 * time.Minute, // then the next worker is tried
		IdleTimeout:      time.Minute,     // then the answer ends with an error
		Describe: func(r *http.Request, q *kvsteer.Request) {
			q.Tenant = r.Header.Get("X-Tenant") // which your authentication has set
			if r.Header.Get("X-Batch") != "" {
				q.Priority = 10 // with WithQueue: after everybody else
			}
		},
		OnDecision: func(r *http.Request, d *kvsteer.Decision) {
			r.Header.Set("X-Worker", d.Winner().Name)
		},
	})
	return &httputil.ReverseProxy{
		Rewrite:   func(*httputil.ProxyRequest) {}, // the Transport sets the destination
		Transport: transport,
		ModifyResponse: func(resp *http.Response) error {
			resp.Header.Set("X-Worker", resp.Request.Header.Get("X-Worker"))
			return nil
		},
		ErrorHandler: kvsteer.WriteError,
	}
}

func TestGateway(t *testing.T) {
	hub := follow.NewHub() // carries KV events within the process
	a := fleettest.New(t, fleettest.Config{Name: "a", Model: "m", Speed: 100, Hub: hub})
	b := fleettest.New(t, fleettest.Config{Name: "b", Model: "m", Speed: 100, Hub: hub})
	// A busy test machine must not change where requests go: what engines report of their
	// load is late there, so that the router goes by what it counts itself.
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static(a.Worker(), b.Worker()), ScrapeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer workers.Close()
	// Nor does it tell what tokens a prompt has in a quarter of a second.
	encoder := prompt.NewEncoder(prompt.Options{Deadline: time.Minute})
	defer encoder.Close()
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithEncoder(encoder), kvsteer.WithEvents(hub))
	if err != nil {
		t.Fatal(err)
	}
	defer router.Close()
	for workers.Snapshot().Routable() < 2 { // WaitReady waits for one
		time.Sleep(time.Millisecond)
	}
	gateway := httptest.NewServer(newGateway(router))
	defer gateway.Close()

	ask := func(text string) (status int, worker string) {
		body := `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"` + text + `"}]}`
		resp, err := http.Post(gateway.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Header.Get("X-Worker")
	}

	// Whoever served a prompt serves its continuation.
	text := fleettest.Text(1, 2000) // 2,000 tokens
	_, first := ask(text)
	if _, second := ask(text + " And now?"); second != first {
		t.Errorf("the prefix was at %s, the request went to %s", first, second)
	}

	// A worker that fails is not seen by the client.
	failing := map[string]*fleettest.Engine{"a": a, "b": b}[first]
	failing.Faults().Fail(1, http.StatusInternalServerError, 0)
	if status, worker := ask(text + " Again."); status != http.StatusOK || worker == first {
		t.Errorf("status %d from %s", status, worker)
	}
	if n := router.InFlight(); n != 0 {
		t.Errorf("%d requests are still booked", n)
	}
}
