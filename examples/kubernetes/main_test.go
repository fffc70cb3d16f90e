package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

func ask(h http.Handler, path string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code
}

// The gateway is ready while there is a worker, until it is told to end; what is no
// probe is still served then.
func TestReadiness(t *testing.T) {
	engine := fleettest.New(t, fleettest.Config{Name: "w0", Model: "m"})
	proxy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	wants := func(h http.Handler, path string, want int) {
		t.Helper()
		if got := ask(h, path); got != want {
			t.Errorf("%s is %d, not %d", path, got, want)
		}
	}
	wants(handler(ctx, newFleet(t), proxy), "/readyz", http.StatusServiceUnavailable)

	workers := newFleet(t, fleet.Worker{Name: "w0", URL: engine.URL()})
	wait, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := workers.WaitReady(wait); err != nil {
		t.Fatal(err)
	}
	h := handler(ctx, workers, proxy)
	wants(h, "/readyz", http.StatusOK)
	stop()
	wants(h, "/readyz", http.StatusServiceUnavailable)
	wants(h, "/v1/models", http.StatusTeapot)
}

func newFleet(t *testing.T, workers ...fleet.Worker) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(fleet.Options{Discoverer: fleet.Static(workers...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // it has nothing to lose
	return f
}
