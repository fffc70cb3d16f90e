//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/integrations/extproc"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	model = "m"
	wait  = 60 * time.Second
	tick  = 5 * time.Millisecond
)

// rig is a fleet of engines, a picker and an Envoy.
type rig struct {
	t       *testing.T
	engines []*fleettest.Engine
	fleet   *fleet.Fleet
	router  *kvsteer.Router
	seen    *observer
	picker  string // address
	stop    func()
	url     string
	port    int
	envoy   *envoy
	client  *http.Client
}

type rigConfig struct {
	engine  func(i int, c *fleettest.Config)
	options []kvsteer.Option
	extproc extproc.Options
	config  string                   // of Envoy; "" is envoy.yaml
	edit    func(yaml string) string // of it
	bare    bool                     // no Envoy
	workers []fleet.Worker           // instead of fake engines
	events  follow.Transport         // theirs
	written func(ports []int)        // called before Envoy starts
	args    []string                 // of Envoy; nil forbids hot restarts
}

func newRig(t *testing.T, c rigConfig) *rig {
	t.Helper()
	r := &rig{t: t, seen: &observer{}}
	hub := follow.NewHub()
	var workers []fleet.Worker
	var events follow.Transport = hub
	if workers = c.workers; workers != nil {
		events = c.events
	}
	for i := range 3 {
		if c.workers != nil {
			break
		}
		cfg := fleettest.Config{Name: fmt.Sprintf("w%d", i), Model: model, Speed: 200, Hub: hub, OutputTokens: 8}
		if c.engine != nil {
			c.engine(i, &cfg)
		}
		e := fleettest.New(t, cfg)
		r.engines = append(r.engines, e)
		workers = append(workers, e.Worker())
	}
	var err error
	r.fleet, err = fleet.New(fleet.Options{
		Discoverer: fleet.Static(workers...), ProbeInterval: 100 * time.Millisecond, ScrapeInterval: 100 * time.Millisecond,
		ProbeTimeout: 20 * time.Second, UnhealthyAfter: 50, // a busy machine must not look like sick engines
	})
	require.NoError(t, err)
	encoder := prompt.NewEncoder(prompt.Options{Deadline: 20 * time.Second})
	r.router, err = kvsteer.New(append([]kvsteer.Option{
		kvsteer.WithFleet(r.fleet), kvsteer.WithEncoder(encoder), kvsteer.WithEvents(events), kvsteer.WithSeed(1),
		kvsteer.WithPredictor(steady{}), kvsteer.WithHooks(r.seen),
	}, c.options...)...)
	require.NoError(t, err)
	require.NoError(t, r.fleet.WaitReady(t.Context()))
	require.Eventually(t, func() bool { return r.fleet.Snapshot().Routable() == len(workers) }, wait, tick)
	if c.workers == nil {
		require.Eventually(t, r.joined, wait, tick)
	}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r.picker = l.Addr().String()
	if c.extproc.Endpoints == 0 {
		c.extproc.Endpoints = 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- extproc.New(r.router, c.extproc).Serve(ctx, l, extproc.ServeOptions{Notice: -1, Grace: wait})
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-served)
	})
	r.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true}}
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		if r.envoy != nil {
			r.envoy.kill()
		}
		r.stop()
		require.NoError(t, r.router.Close())
		require.NoError(t, encoder.Close())
		require.NoError(t, r.fleet.Close())
		require.Zero(t, r.router.InFlight(), "selections left")
	})
	if c.bare {
		return r
	}
	r.startEnvoy(c)
	return r
}

func (r *rig) joined() bool {
	d, err := r.router.Explain(r.t.Context(), &kvsteer.Request{API: kvsteer.Completions, Model: model, TokenIDs: []uint32{1}})
	return err == nil && !slices.ContainsFunc(d.Candidates, func(c kvsteer.DecisionCandidate) bool {
		return strings.Contains(c.TrustReason, "only just discovered")
	})
}

// envoy is the process.
type envoy struct {
	cmd   *exec.Cmd
	yaml  string
	admin string
	log   string
	done  chan struct{}
}

// startEnvoy runs Envoy with a configuration of examples/extproc, at other addresses.
func (r *rig) startEnvoy(c rigConfig) {
	r.t.Helper()
	name := c.config
	if name == "" {
		name = "envoy.yaml"
	}
	raw, err := os.ReadFile("../../../examples/extproc/" + name)
	require.NoError(r.t, err)
	ports := freePorts(r.t, 2)
	yaml := string(raw)
	if c.edit != nil {
		yaml = c.edit(yaml)
	}
	swap := func(from, to string) {
		require.Contains(r.t, yaml, from, name)
		yaml = strings.ReplaceAll(yaml, from, to)
	}
	swap("port_value: 8080", fmt.Sprintf("port_value: %d", ports[0]))
	swap("port_value: 9901", fmt.Sprintf("port_value: %d", ports[1]))
	_, port, err := net.SplitHostPort(r.picker)
	require.NoError(r.t, err)
	swap("port_value: 9002", "port_value: "+port)
	if strings.Contains(yaml, "port_value: 8001") {
		line := "              - endpoint: { address: { socket_address: { address: 127.0.0.1, port_value: 8002 } } }\n"
		swap(line, line+strings.Replace(line, "8002", "8003", 1))
		for i, e := range r.engines {
			swap(fmt.Sprintf("port_value: 800%d", i+1), "port_value: "+e.URL()[strings.LastIndex(e.URL(), ":")+1:])
		}
	}
	r.port = ports[0]
	if c.written != nil {
		c.written(ports)
	}
	r.envoy = runEnvoy(r.t, yaml, fmt.Sprintf("http://127.0.0.1:%d", ports[1]), c.args...)
	r.url = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	r.picked()
}

// picked waits until requests go through.
func (r *rig) picked() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		resp, err := r.client.Get(r.url + "/version")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, wait, 50*time.Millisecond, "Envoy routes; its log is %s", r.envoy.log)
}

func runEnvoy(t *testing.T, yaml, admin string, args ...string) *envoy {
	t.Helper()
	if args == nil {
		args = []string{"--disable-hot-restart"}
	}
	path, err := exec.Command("bash", "../../../scripts/envoy.sh").Output()
	require.NoError(t, err, "scripts/envoy.sh")
	dir := t.TempDir()
	file := filepath.Join(dir, "envoy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o600))
	e := &envoy{yaml: yaml, admin: admin, log: filepath.Join(dir, "envoy.log"), done: make(chan struct{})}
	out, err := os.Create(e.log)
	require.NoError(t, err)
	level := os.Getenv("ENVOY_LOG")
	if level == "" {
		level = "warning"
	}
	//nolint:gosec // the binary is that of scripts/envoy.sh
	e.cmd = exec.Command(strings.TrimSpace(string(path)), append([]string{"-c", file, "--concurrency", "2", "-l", level}, args...)...)
	e.cmd.Stdout, e.cmd.Stderr = out, out
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, e.cmd.Start())
	go func() {
		_ = e.cmd.Wait()
		_ = out.Close()
		close(e.done)
	}()
	t.Cleanup(func() {
		e.kill()
		if t.Failed() {
			b, _ := os.ReadFile(e.log)
			t.Logf("the end of Envoy's log:\n%s", b[max(0, len(b)-6000):])
		}
	})
	return e
}

func (e *envoy) kill() {
	_ = e.cmd.Process.Kill()
	<-e.done
}

func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	var open []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		open = append(open, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range open {
		require.NoError(t, l.Close())
	}
	return ports
}

// idle checks that nothing is in flight anywhere.
func (r *rig) idle() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		n := r.router.InFlight()
		for _, m := range r.fleet.Snapshot().Members() {
			n += m.InFlight(0).Requests + m.InFlight(0).PrefillTokens
		}
		return n == 0
	}, wait, tick, "in flight is zero")
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (r *rig) post(path, body string, header ...string) answer {
	r.t.Helper()
	a, err := r.try(r.t.Context(), http.MethodPost, path, body, header...)
	require.NoError(r.t, err)
	return a
}

func (r *rig) try(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	var src io.Reader = http.NoBody
	if body != "" {
		src = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, src)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header[header[i]] = append(req.Header[header[i]], header[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return answer{}, err
	}
	return answer{resp.StatusCode, resp.Header, b.String()}, nil
}

// observer keeps decisions and outcomes.
type observer struct {
	mu        sync.Mutex
	brief     bool // keep times only
	times     []time.Duration
	decisions []*kvsteer.Decision
	outcomes  []*kvsteer.Outcome
}

func (o *observer) OnDecision(d *kvsteer.Decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.times = append(o.times, d.Took)
	if !o.brief {
		o.decisions = append(o.decisions, d)
	}
}

func (o *observer) OnOutcome(c *kvsteer.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.brief {
		o.outcomes = append(o.outcomes, c)
	}
}

func (o *observer) workers() (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range o.decisions {
		names = append(names, d.Candidates[d.Chosen].Name)
	}
	return names
}

// took are the times of the decisions.
func (o *observer) took() []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.times)
}

func (o *observer) all() []*kvsteer.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.outcomes)
}

// steady predicts the same whenever it is asked the same: measured times would make two
// runs differ.
type steady struct{}

func (steady) Predict(f []kvsteer.Features, out []kvsteer.Prediction) {
	for i := range f {
		ttft := time.Duration(f[i].Uncached) * time.Millisecond
		out[i] = kvsteer.Prediction{TTFT: ttft, Prefill: ttft}
	}
}

func (steady) Observe(*kvsteer.Features, time.Duration) {}
