package fleet_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
)

// engine is a scripted inference server. Its fields may be changed under mu.
type engine struct {
	mu      sync.Mutex
	health  int
	models  string
	metrics string
	answers map[string]string // other paths
	hang    map[string]bool   // paths that don't answer
	calls   map[string]int
}

func newEngine(models ...string) *engine {
	e := &engine{health: http.StatusOK, calls: map[string]int{}, hang: map[string]bool{}, answers: map[string]string{}}
	e.models = modelsJSON(models...)
	e.metrics = metricsText(1000, 0, 0, 0)
	return e
}

func modelsJSON(models ...string) string {
	items := make([]string, len(models))
	for i, m := range models {
		name, parent, isAdapter := strings.Cut(m, "<")
		p, length := "null", "4096"
		if isAdapter {
			p, length = `"`+parent+`"`, "null"
		}
		items[i] = fmt.Sprintf(`{"id":%q,"object":"model","owned_by":"vllm","root":"/m/%s","parent":%s,"max_model_len":%s}`,
			name, name, p, length)
	}
	return `{"object":"list","data":[` + strings.Join(items, ",") + `]}`
}

func metricsText(started float64, running, waiting, prompts int) string {
	return fmt.Sprintf(`# TYPE process_start_time_seconds gauge
process_start_time_seconds %g
vllm:num_requests_running{engine="0",model_name="m"} %d.0
vllm:num_requests_waiting{engine="0",model_name="m"} %d.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:prompt_tokens_total{engine="0",model_name="m"} %d.0
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="500"} 1.0
`, started, running, waiting, prompts)
}

func (e *engine) set(fn func(e *engine)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	fn(e)
}

func (e *engine) count(path string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.calls[path]
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.calls[r.URL.Path]++
	status, body := http.StatusNotFound, ""
	switch r.URL.Path {
	case "/health":
		status = e.health
	case "/v1/models":
		if e.models != "" {
			status, body = http.StatusOK, e.models
		}
	case "/metrics":
		if e.metrics != "" {
			status, body = http.StatusOK, e.metrics
		}
	default:
		if a, ok := e.answers[r.URL.Path]; ok {
			status, body = http.StatusOK, a
		}
	}
	hang := e.hang[r.URL.Path]
	e.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// network carries requests to engines by host without sockets, so that a test
// can run in a synctest bubble.
type network struct {
	mu    sync.Mutex
	hosts map[string]http.Handler
	fail  map[string]error
}

func newNetwork() *network {
	return &network{hosts: map[string]http.Handler{}, fail: map[string]error{}}
}

func (n *network) add(host string, h http.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[host] = h
}

// down makes requests to host fail with err; nil heals it.
func (n *network) down(host string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fail[host] = err
}

func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	n.mu.Lock()
	h, err := n.hosts[r.URL.Host], n.fail[r.URL.Host]
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if h == nil {
		return nil, fmt.Errorf("no host %q", r.URL.Host)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

func (n *network) client() *http.Client { return &http.Client{Transport: n} }

// start makes a Fleet that the test closes at its end.
func start(t *testing.T, opts fleet.Options) *fleet.Fleet {
	t.Helper()
	f, err := fleet.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func ready(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, f.WaitReady(ctx))
}

// lister is a Discoverer that a test drives.
type lister struct {
	lists chan []fleet.Worker
	errs  chan error
}

func newLister() *lister {
	return &lister{lists: make(chan []fleet.Worker), errs: make(chan error)}
}

func (l *lister) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	for {
		select {
		case list := <-l.lists:
			select {
			case l.errs <- set(list):
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (l *lister) set(list ...fleet.Worker) error {
	l.lists <- list
	return <-l.errs
}

func names(members []*fleet.Member) []string {
	out := make([]string, len(members))
	for i, m := range members {
		out[i] = m.Name()
	}
	return out
}
