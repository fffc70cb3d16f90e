//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/integrations/extproc"
	policyfile "github.com/kvsteer/kvsteer/policy/file"
)

// load keeps requests going until it is told to stop; it counts those that failed.
type load struct {
	wg         sync.WaitGroup
	done       chan struct{}
	good, bad  atomic.Int64
	lastFailed atomic.Pointer[answer]
}

func (r *rig) load(n int) *load {
	l := &load{done: make(chan struct{})}
	for i := range n {
		l.wg.Go(func() {
			for j := 0; ; j++ {
				select {
				case <-l.done:
					return
				default:
				}
				a, err := r.try(r.t.Context(), http.MethodPost, "/v1/chat/completions", chat(fleettest.Text(uint64(i*1000+j), 100), j%2 == 0, 20))
				if err == nil && a.status == http.StatusOK {
					l.good.Add(1)
					continue
				}
				if err != nil {
					a.body = err.Error()
				}
				l.bad.Add(1)
				l.lastFailed.Store(&a)
			}
		})
	}
	return l
}

// after waits for n more good requests.
func (l *load) after(t *testing.T, n int64) {
	t.Helper()
	from := l.good.Load()
	require.Eventually(t, func() bool { return l.good.Load() >= from+n }, wait, tick, "requests go on; last failure: %+v", l.lastFailed.Load())
}

func (l *load) stop() {
	close(l.done)
	l.wg.Wait()
}

// An engine that dies takes with it the requests that it was answering, and no others:
// with the picker's list Envoy tries the next one.
func TestEnginesDie(t *testing.T) {
	r := newRig(t, rigConfig{config: "envoy-retries.yaml", extproc: extproc.Options{Endpoints: 3}})
	l := r.load(8)
	l.after(t, 50)
	require.NoError(t, r.engines[0].Kill())
	l.after(t, 200)
	require.LessOrEqual(t, l.bad.Load(), int64(8), "only what the engine was answering: %+v", l.lastFailed.Load())
	require.Contains(t, r.stat("cluster.workers.upstream_rq_retry_overflow"), ": 0\n", "no retry was refused")
	l.stop() // what began before the engine is back may still fail by its death
	require.NoError(t, r.engines[0].Revive())
	require.Eventually(t, func() bool { return r.engines[0].Stats().Requests > 0 && r.fleet.Snapshot().Routable() == 3 }, wait, tick)
	l = r.load(8)
	l.after(t, 100)
	l.stop()
	require.Zero(t, l.bad.Load(), "none after that: %+v", l.lastFailed.Load())
	r.idle()
}

// Without a second endpoint in the list, a retry must not end up with a worker that the
// picker did not name.
func TestRetriesStayInTheList(t *testing.T) {
	r := newRig(t, rigConfig{config: "envoy-retries.yaml", extproc: extproc.Options{Endpoints: 1}})
	refuse := func(on bool) {
		for _, e := range r.engines {
			if on {
				e.Faults().Fail(1, http.StatusServiceUnavailable, 0)
			} else {
				e.Faults().Clear()
			}
		}
	}
	refuse(true)
	a := r.post("/v1/chat/completions", chat("x", false, 1))
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	asked := 0
	for _, e := range r.engines {
		for _, req := range e.Requests() {
			if req.Path == "/v1/chat/completions" {
				asked++
			}
		}
	}
	require.Equal(t, 1, asked)
	refuse(false)
	r.idle()
}

// Envoy's retry is seen: the booking follows to who answered.
func TestEnvoyRetriesAreSeen(t *testing.T) {
	var log lines
	r := newRig(t, rigConfig{config: "envoy-retries.yaml", extproc: extproc.Options{Endpoints: 3}, options: []kvsteer.Option{
		kvsteer.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
	}})
	for _, e := range r.engines[:2] {
		e.Faults().Fail(1, http.StatusServiceUnavailable, 0)
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			a, err := r.try(t.Context(), http.MethodPost, "/v1/chat/completions", chat("x y z", true, 400))
			if err != nil || a.status != http.StatusOK {
				t.Errorf("%v %+v", err, a)
			}
		})
	}
	wg.Wait()
	r.idle()
	for _, o := range r.seen.all() {
		require.NoError(t, o.Err)
		require.True(t, o.Usage.Known)
	}
	refused := 0
	for _, e := range r.engines {
		for _, req := range e.Requests() {
			if req.Status == http.StatusServiceUnavailable {
				refused++
			}
		}
	}
	require.Positive(t, refused)
	require.Positive(t, log.count("answered by another worker than the first choice"))
}

// As many requests as there are may be tried anew at the same time; of those that Envoy
// isn't told about it tries three.
func TestManyRetriesAtOnce(t *testing.T) {
	r := newRig(t, rigConfig{config: "envoy-retries.yaml", extproc: extproc.Options{Endpoints: 3}})
	for _, e := range r.engines[:2] {
		e.Faults().FailRate(1, http.StatusServiceUnavailable, 0)
	}
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			a, err := r.try(t.Context(), http.MethodPost, "/v1/chat/completions", chat("x y z", true, 400))
			if err != nil || a.status != http.StatusOK {
				t.Errorf("%v %d %.200s", err, a.status, a.body)
			}
		})
	}
	wg.Wait()
	r.idle()
}

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) count(what string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, what) {
			n++
		}
	}
	return n
}

// stat is what Envoy says of its statistics of a name, "" if it says nothing.
func (r *rig) stat(name string) string {
	resp, err := http.Get(r.envoy.admin + "/stats?filter=" + name)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return string(text)
}

// Envoy reads its listener from a file anew while requests pass.
func TestEnvoyReloads(t *testing.T) {
	dir := t.TempDir()
	lds := filepath.Join(dir, "lds.yaml")
	r := newRig(t, rigConfig{bare: true})
	var listener string
	r.startEnvoy(rigConfig{edit: func(yaml string) string {
		// The listener moves into a file of its own, which Envoy watches.
		from, to := strings.Index(yaml, "  listeners:\n"), strings.Index(yaml, "  clusters:\n")
		listener = yaml[from:to]
		return "node: { id: e2e, cluster: e2e }\ndynamic_resources:\n  lds_config:\n    path_config_source: { path: " + lds +
			" }\n# port_value: 8080\n" + yaml[:from] + yaml[to:]
	}, written: func(ports []int) { writeLDS(t, lds, listener, ports[0], "30s") }})
	l := r.load(6)
	l.after(t, 30)
	for i := range 3 {
		writeLDS(t, lds, listener, r.port, fmt.Sprintf("%ds", 3600+i))
		l.after(t, 60)
		require.Eventually(t, func() bool {
			return strings.Contains(r.stat("listener_manager.listener_modified"), fmt.Sprintf("listener_modified: %d", i+1))
		}, wait, tick, "Envoy has taken it")
	}
	l.after(t, 60)
	l.stop()
	require.Zero(t, l.bad.Load(), "%+v", l.lastFailed.Load())
	r.idle()
}

// Policies change while requests pass through Envoy.
func TestPoliciesReload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "policy.yaml")
	only := func(name string) {
		next := file + ".next"
		require.NoError(t, os.WriteFile(next, []byte("apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\n"+
			"metadata: {name: only}\nspec: {rules: [{name: only, route: {select: [{order: ["+name+"]}]}}]}\n"), 0o600))
		require.NoError(t, os.Rename(next, file))
	}
	only("w0")
	source, err := policyfile.Open(file, policyfile.Options{})
	require.NoError(t, err)
	defer source.Close()
	r := newRig(t, rigConfig{options: []kvsteer.Option{kvsteer.WithPolicy(source)}})
	l := r.load(4)
	for _, name := range []string{"w0", "w1", "w2"} {
		only(name)
		require.Eventually(t, func() bool {
			names := r.seen.workers()
			return len(names) > 20 && strings.Join(names[len(names)-10:], "") == strings.Repeat(name, 10)
		}, wait, tick, name)
	}
	l.stop()
	require.Zero(t, l.bad.Load(), "%+v", l.lastFailed.Load())
	r.idle()
}

// writeLDS puts the listener into a file as Envoy reads it, with another idle timeout.
func writeLDS(t *testing.T, path, listener string, port int, timeout string) {
	t.Helper()
	lines := strings.Split(listener, "\n")[1:]
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "    ")
	}
	text := strings.Join(lines, "\n")
	text = strings.Replace(text, "- name: http", "- \"@type\": type.googleapis.com/envoy.config.listener.v3.Listener\n  name: http", 1)
	text = strings.Replace(text, "port_value: 8080", fmt.Sprintf("port_value: %d", port), 1)
	text = strings.Replace(text, "stream_idle_timeout: 1800s", "stream_idle_timeout: "+timeout, 1)
	next := path + ".next"
	require.NoError(t, os.WriteFile(next, []byte("version_info: \""+timeout+"\"\nresources:\n"+text), 0o600))
	require.NoError(t, os.Rename(next, path))
}
