//go:build e2e

package vllm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/record"
)

// process is a child that is killed with the test.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// start runs a program in a process group of its own, its output in a file.
func start(t *testing.T, name string, argv ...string) *process {
	t.Helper()
	p := &process{name: name, log: filepath.Join(outDir(t), name+".log"), done: make(chan struct{})}
	out, err := os.Create(p.log)
	require.NoError(t, err)
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		_ = out.Close()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9 for the whole group.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
}

// stop asks the program to end and waits for it.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s did not end after SIGTERM; see %s", p.name, p.log)
	}
}

func outDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KVSTEER_E2E_OUT")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "kvsteer-e2e")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

// script runs one of the folder's scripts to its end.
func script(t *testing.T, timeout time.Duration, argv ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", argv...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v:\n%s", argv, tail(out))
}

func tail(b []byte) string {
	const most = 4000
	return string(b[max(0, len(b)-most):])
}

func tailFile(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return tail(b)
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	listeners := make([]net.Listener, n) // all open at once, so that no port comes twice
	ports := make([]int, n)
	// Not of those that the system gives to clients: while an engine is down, one that
	// keeps dialling its port may be given that very port, and hold it.
	const from, to = 15000, 30000
	for i := range ports {
		require.Eventually(t, func() bool {
			ports[i] = from + rand.IntN(to-from)
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", ports[i]))
			listeners[i] = l
			return err == nil
		}, time.Minute, time.Millisecond, "a free port")
	}
	for _, l := range listeners {
		require.NoError(t, l.Close())
	}
	return ports
}

// worker is one vLLM server.
type worker struct {
	name                 string
	port, events, replay int
	process              *process
}

func (w *worker) url() string { return fmt.Sprintf("http://127.0.0.1:%d", w.port) }

func (w *worker) start(t *testing.T) {
	t.Helper()
	w.process = start(t, w.name, "bash", "worker.sh",
		"--port", fmt.Sprint(w.port), "--events-port", fmt.Sprint(w.events), "--replay-port", fmt.Sprint(w.replay),
		"--cache-mib", fmt.Sprint(cacheMiB))
}

// healthTimeout is long because a start takes half a minute on an idle machine
// and ten times that on one that is busy building something else.
const healthTimeout = 25 * time.Minute

func (w *worker) waitHealthy(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(healthTimeout)
	for time.Now().Before(deadline) {
		select {
		case <-w.process.done:
			t.Fatalf("%s ended while starting:\n%s", w.name, tailFile(w.process.log))
		default:
		}
		if status(t, w.url()+"/health") == http.StatusOK {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatalf("%s is not healthy in time:\n%s", w.name, tailFile(w.process.log))
}

func (w *worker) resetCache(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		resp, err := http.Post(w.url()+"/reset_prefix_cache", "application/json", nil)
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 3*time.Minute, 200*time.Millisecond, "%s: /reset_prefix_cache", w.name)
}

func status(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// gateway is examples/nethttp as a user would run it.
type gateway struct {
	url, log string
	process  *process
}

func startGateway(t *testing.T, binary, rule string, workers []*worker) *gateway {
	t.Helper()
	_ = os.Remove(filepath.Join(outDir(t), "decisions-"+rule+".jsonl"))
	return startGatewayAt(t, binary, rule, rule, freePorts(t, 1)[0], workers)
}

// startGatewayAt starts one at a port; its files are called by the name.
func startGatewayAt(t *testing.T, binary, rule, name string, port int, workers []*worker) *gateway {
	t.Helper()
	var fleet bytes.Buffer
	fmt.Fprintln(&fleet, "workers:")
	for _, w := range workers {
		fmt.Fprintf(&fleet, "  - name: %s\n    url: %s\n    events:\n      - events: tcp://127.0.0.1:%d\n        replay: tcp://127.0.0.1:%d\n",
			w.name, w.url(), w.events, w.replay)
	}
	fleetFile := filepath.Join(outDir(t), "fleet.yaml")
	require.NoError(t, os.WriteFile(fleetFile, fleet.Bytes(), 0o600))
	g := &gateway{
		url: fmt.Sprintf("http://127.0.0.1:%d", port),
		log: filepath.Join(outDir(t), "decisions-"+name+".jsonl"),
	}
	g.process = start(t, "gateway-"+name, binary, "-listen", fmt.Sprintf("127.0.0.1:%d", port),
		"-fleet", fleetFile, "-policy", rule, "-record", g.log)
	require.Eventually(t, func() bool { return status(t, g.url+"/healthz") == http.StatusOK },
		5*time.Minute, 100*time.Millisecond, "the gateway is ready")
	return g
}

// outcome is a request that has ended, and the decision that it went by.
type outcome struct {
	record.Outcome

	decision *kvsteer.Decision
}

func (g *gateway) read(t *testing.T) []outcome {
	t.Helper()
	f, err := os.Open(g.log)
	require.NoError(t, err)
	defer f.Close()
	var all []outcome
	decisions := map[uint64]*kvsteer.Decision{}
	require.NoError(t, record.Read(f, func(e *record.Entry) error { // a line that is being written is damaged
		switch {
		case e.Decision != nil:
			decisions[e.Decision.ID] = e.Decision
		case e.Outcome != nil:
			all = append(all, outcome{*e.Outcome, decisions[e.Outcome.Decision]})
		}
		return nil
	}))
	return all
}

// ask sends one small request and returns the status.
func (g *gateway) ask(prompt string) (int, string) {
	body, err := json.Marshal(map[string]any{"model": modelName, "prompt": prompt, "max_tokens": 4})
	if err != nil {
		return 0, err.Error()
	}
	client := http.Client{Timeout: 3 * time.Minute}
	resp, err := client.Post(g.url+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(b)
}

// trusts is the trust state of every candidate in the latest decision.
func (g *gateway) trusts(t *testing.T) map[string]string {
	t.Helper()
	all := g.read(t)
	out := map[string]string{}
	if len(all) > 0 {
		for _, c := range all[len(all)-1].decision.Candidates {
			out[c.Name] = c.TrustState
		}
	}
	return out
}

// waitExact sends requests until every worker is a candidate and exact.
func (g *gateway) waitExact(t *testing.T, workers int, within time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for i := 0; ; i++ {
		g.ask(fmt.Sprintf("probe %d", i))
		exact := 0
		trusts := g.trusts(t)
		for _, s := range trusts {
			if s == "exact" {
				exact++
			}
		}
		if exact == workers {
			return time.Since(began)
		}
		if time.Since(began) > within {
			t.Fatalf("not every worker became exact within %v: %v\n%s", within, trusts, tailFile(g.process.log))
		}
		time.Sleep(250 * time.Millisecond)
	}
}
