package httpjson_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/fleet/httpjson"
)

// server answers with workers, or fails.
type server struct {
	*httptest.Server

	mu          sync.Mutex
	body        []byte
	fault       func(http.ResponseWriter, *http.Request)
	notModified int // answers
	asked       []http.Header
	times       []time.Time
}

func newServer(t *testing.T, workers []fleet.Worker) *server {
	t.Helper()
	s := &server{}
	require.NoError(t, s.set(workers))
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) set(workers []fleet.Worker) error {
	if workers == nil {
		workers = []fleet.Worker{} // null is not a list
	}
	body, err := json.Marshal(map[string][]fleet.Worker{"workers": workers})
	s.answer(body)
	return err
}

func (s *server) answer(body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.body = body
}

func (s *server) fail(fault func(http.ResponseWriter, *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Header.Clone())
	s.times = append(s.times, time.Now())
	fault, body := s.fault, s.body
	s.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	sum := sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:8]) + `"`
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		s.mu.Lock()
		s.notModified++
		s.mu.Unlock()
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write(body)
}

// discoverer asks s often.
func (s *server) discoverer() *httpjson.Discoverer {
	return &httpjson.Discoverer{
		URL: s.URL + "/workers", Interval: 5 * time.Millisecond,
		Timeout: 30 * time.Second, MaxBackoff: 20 * time.Millisecond,
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func text(body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// cut ends the connection within the body.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = w.Write([]byte(`{"workers": []}`))
}

// hang answers nothing, or a beginning and no more, until the client leaves.
func hang(beginning string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if beginning != "" {
			_, _ = w.Write([]byte(beginning))
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

// abort ends the connection without an answer.
func abort(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func faults() map[string]func(http.ResponseWriter, *http.Request) {
	return map[string]func(http.ResponseWriter, *http.Request){
		"disconnects":       abort,
		"status 500":        status(http.StatusInternalServerError),
		"status 404":        status(http.StatusNotFound),
		"status 204":        status(http.StatusNoContent),
		"redirects":         func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) },
		"is cut":            cut,
		"stalls":            hang(""),
		"stalls midway":     hang(`{"workers": [`),
		"empty body":        text(""),
		"is no JSON":        text("<html>please log in</html>"),
		"truncated JSON":    text(`{"workers": [{"name": "worker-0001"`),
		"null":              text("null"),
		"null list":         text(`{"workers": null}`),
		"another document":  text(`{"error": "try later"}`),
		"two documents":     text(`{"workers": []}{"workers": []}`),
		"workers of a sort": text(`{"workers": ["worker-0001"]}`),
	}
}

func TestConforms(t *testing.T) {
	fleettest.TestDiscoverer(t, fleettest.DiscovererHarness{
		New: func(t *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
			t.Helper()
			s := newServer(t, workers)
			turns := map[string]fleettest.DiscovererFault{}
			for name, fault := range faults() {
				turns[name] = fleettest.DiscovererFault{Turn: func(on bool) error {
					if s.fail(nil); on {
						s.fail(fault)
					}
					return nil
				}}
			}
			d := s.discoverer()
			if strings.Contains(t.Name(), "outage") { // many of them, and some never answer
				d.Timeout = 300 * time.Millisecond
			}
			return fleettest.DiscovererSource{Discoverer: d, Set: s.set, Faults: turns}
		},
	})
}
