package discoverer_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/examples/discoverer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/fleet/httpjson"
)

// The lines between the markers stand in docs/discovery.md, indented once less;
// TestDiscoveryDocument compares them and routes a request by each.

func fromList(engine string) fleet.Discoverer {
	// DOCS begin
	d := fleet.Static(fleet.Worker{Name: "gpu-0", URL: engine})
	// DOCS end
	return d
}

func fromFile(path string) fleet.Discoverer {
	// DOCS begin
	d := &file.Discoverer{Path: path}
	// DOCS end
	return d
}

func fromJSON(address, token string) fleet.Discoverer {
	// DOCS begin
	d := &httpjson.Discoverer{
		URL: address, // "https://registry.example:8443/workers"
		Prepare: func(r *http.Request, _ http.Header) error {
			r.Header.Set("Authorization", "Bearer "+token)
			return nil
		},
	}
	// DOCS end
	return d
}

func fromConsul(address string) fleet.Discoverer {
	// DOCS begin
	d := &discoverer.Consul{
		URL:    address + "/v1/health/service/vllm?passing=1&wait=30s",
		Client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute},
	}
	// DOCS end
	return d
}

// route is the gateway of the page, and sends it a request.
func route(t *testing.T, d fleet.Discoverer) {
	t.Helper()
	workers, err := fleet.New(fleet.Options{Discoverer: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = workers.Close() })
	if err = workers.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = router.Close() })
	gateway := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {},
		Transport:    kvsteer.NewTransport(router, kvsteer.TransportOptions{}),
		ErrorHandler: kvsteer.WriteError,
	})
	t.Cleanup(gateway.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, gateway.URL+"/v1/chat/completions",
		strings.NewReader(`{"model": "demo-27b", "max_tokens": 2, "messages": [{"role": "user", "content": "Hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := gateway.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestDiscoveryDocument(t *testing.T) {
	sameAsDocument(t)
	engine := fleettest.New(t, fleettest.Config{Name: "gpu-0", Model: "demo-27b", Speed: 100})
	list, err := json.Marshal([]fleet.Worker{{Name: "gpu-0", URL: engine.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("list", func(t *testing.T) { route(t, fromList(engine.URL())) })
	t.Run("file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "fleet.json")
		if err := os.WriteFile(path, list, 0o600); err != nil {
			t.Fatal(err)
		}
		route(t, fromFile(path))
	})
	t.Run("JSON", func(t *testing.T) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = w.Write(list)
		}))
		t.Cleanup(s.Close)
		route(t, fromJSON(s.URL, "secret"))
	})
	t.Run("custom", func(t *testing.T) {
		u, err := url.Parse(engine.URL())
		if err != nil {
			t.Fatal(err)
		}
		host, _, err := net.SplitHostPort(u.Host)
		if err != nil {
			t.Fatal(err)
		}
		g := &registry{changed: make(chan struct{}), index: 7}
		if err := g.set([]fleet.Worker{{Name: "gpu-0", URL: "http://" + net.JoinHostPort(host, u.Port())}}); err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(g)
		t.Cleanup(s.Close)
		route(t, fromConsul(s.URL))
	})
}

// sameAsDocument finds every piece of this file in the page.
func sameAsDocument(t *testing.T) {
	t.Helper()
	source, err := os.ReadFile("docs_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/discovery.md")
	if err != nil {
		t.Fatal(err)
	}
	pieces := strings.Split(string(source), "\t// DOCS "+"begin\n")[1:]
	if len(pieces) == 0 {
		t.Fatal("no code is marked for the page")
	}
	for _, piece := range pieces {
		code, _, _ := strings.Cut(piece, "\t// DOCS "+"end\n")
		var plain strings.Builder
		for line := range strings.Lines(code) {
			plain.WriteString(strings.TrimPrefix(line, "\t"))
		}
		if !strings.Contains(string(page), "```go\n"+plain.String()+"```") {
			t.Errorf("docs/discovery.md does not hold this very code:\n%s", plain.String())
		}
	}
}
