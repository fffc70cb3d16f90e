//go:build e2e

package kvsteercaddy

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// process is a real Caddy with two sites. Behind the first are three engines that take no
// time, behind the second three that take a twentieth of a GPU's.
type process struct {
	t          *testing.T
	dir, grace string
	cmd        *exec.Cmd
	ended      chan error
	fast, slow site
	client     *http.Client // of both sites
	admin      *http.Client
	logs       *syncBuffer
	held       []net.Listener // the sites' ports, until Caddy needs them
}

type site struct {
	url, fleet string
	engines    []*fleettest.Engine
	answers    *atomic.Int64 // that have begun
}

func startCaddy(t *testing.T, grace string) *process {
	t.Helper()
	dir, err := os.MkdirTemp("", "kvsteer") //nolint:usetesting // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "caddy"), "./cmd/caddy")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	p := &process{t: t, dir: dir, grace: grace, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, logs: &syncBuffer{}}
	p.admin = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "admin"))
	}}}
	p.fast = p.site("fast", math.Inf(1))
	p.slow = p.site("slow", 20)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Caddyfile"), []byte(p.caddyfile("")), 0o600))

	p.cmd = exec.Command(filepath.Join(dir, "caddy"), "run", "--config", filepath.Join(dir, "Caddyfile"), "--adapter", "caddyfile")
	p.cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	p.cmd.Stderr, p.cmd.Stdout = p.logs, p.logs
	for _, l := range p.held {
		require.NoError(t, l.Close())
	}
	require.NoError(t, p.cmd.Start())
	p.ended = make(chan error, 1)
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill() // it may have ended just now
			<-p.ended                //nolint:errcheck // it says that it was killed
		}
		if t.Failed() {
			t.Log(p.logs.tail(8000))
		}
	})
	for _, s := range []site{p.fast, p.slow} {
		require.Eventually(t, func() bool {
			status, _ := p.get(s, "/healthz")
			return status == http.StatusOK
		}, patience, moment)
	}
	require.Eventually(t, func() bool { // all of them
		n := 0
		for _, r := range p.status() {
			for _, w := range r.Workers {
				if w.Routable && len(w.Models) > 0 {
					n++
				}
			}
		}
		return n == len(p.fast.engines)+len(p.slow.engines)
	}, patience, moment)
	return p
}

func (p *process) site(name string, speed float64) site {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(p.t, err)
	p.held = append(p.held, l) // else an engine may get the port
	s := site{url: "http://" + l.Addr().String(), fleet: filepath.Join(p.dir, name+".json"), answers: new(atomic.Int64)}
	var list struct {
		Workers []any `json:"workers"`
	}
	for i := range 3 {
		e := fleettest.New(p.t, fleettest.Config{
			Name: "w" + strconv.Itoa(i), Model: "m", Speed: speed, ZMQ: true, MaxModelLen: 4 << 20, Blocks: 1 << 20, Record: -1,
		})
		s.engines = append(s.engines, e)
		w := e.Worker()
		w.Epoch = ""
		list.Workers = append(list.Workers, w)
	}
	text, err := json.Marshal(list)
	require.NoError(p.t, err)
	require.NoError(p.t, os.WriteFile(s.fleet, text, 0o600))
	return s
}

// caddyfile is the configuration, with more options for both sites, whose names are SITE in
// them.
func (p *process) caddyfile(options string) string {
	return strings.NewReplacer(
		"MORE1", strings.NewReplacer("SITE", "fast", "DIR", p.dir).Replace(options), "MORE2", strings.NewReplacer("SITE", "slow", "DIR", p.dir).Replace(options),
		"DIR", p.dir, "GRACE", p.grace, "FAST", p.fast.url, "SLOW", p.slow.url,
	).Replace(`{
	admin unix/DIR/admin
	persist_config off
	auto_https off
	shutdown_delay 10s
	grace_period GRACE
}
(why) {
	header >X-Worker {http.kvsteer.worker}
	header >X-Cached {http.kvsteer.cached_tokens}
	header >X-Trust {http.kvsteer.trust}
}
FAST {
	import why
	log
	kvsteer {
		fleet DIR/fast.json
		record DIR/fast.log
		MORE1
	}
}
SLOW {
	import why
	log
	kvsteer {
		fleet DIR/slow.json
		record DIR/slow.log
		MORE2
	}
}
`)
}

func (p *process) reload(options string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "http://admin/load", strings.NewReader(p.caddyfile(options)))
	require.NoError(p.t, err)
	req.Header.Set("Content-Type", "text/caddyfile")
	req.Header.Set("Cache-Control", "must-revalidate") // also if nothing has changed
	resp, err := p.admin.Do(req)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, resp.StatusCode, string(text))
}

func (p *process) ask(path string) string {
	p.t.Helper()
	resp, err := p.admin.Get("http://admin" + path)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return string(text)
}

func (p *process) status() []routerStatus {
	p.t.Helper()
	var all struct{ Routers []routerStatus }
	require.NoError(p.t, json.Unmarshal([]byte(p.ask("/kvsteer/status")), &all))
	return all.Routers
}

// goroutines counts those of the process.
func (p *process) goroutines() int {
	p.t.Helper()
	m := regexp.MustCompile(`goroutine profile: total (\d+)`).FindStringSubmatch(p.ask("/debug/pprof/goroutine?debug=1"))
	require.Len(p.t, m, 2)
	n, err := strconv.Atoi(m[1])
	require.NoError(p.t, err)
	return n
}

// idle waits until nothing is in flight anywhere, and only routers of the configuration
// in force are left.
func (p *process) idle() {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		all := p.status()
		for _, r := range all {
			if r.InFlight+r.Waiting > 0 {
				return false
			}
			for _, w := range r.Workers {
				if w.InFlight > 0 {
					return false
				}
			}
		}
		for _, e := range append(p.fast.engines[:3:3], p.slow.engines...) {
			if e.Stats().InFlight > 0 {
				return false
			}
		}
		return len(all) == 2
	}, 2*patience, 10*moment, "nothing is in flight, and two routers are left")
}

// get is the status and the body of a GET, 0 when nobody answers.
func (p *process) get(s site, path string) (int, string) {
	resp, err := p.client.Get(s.url + path)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text)
}

// post sends a request, again if the connection was closed before anything came, as
// Caddy does with some when it reloads: sigterm makes sure that none of those had been
// decided. An answer that breaks off is an error.
func (p *process) post(ctx context.Context, s site, path, body string) (answer, error) {
	resp, err := p.begin(ctx, s, path, body)
	for err != nil && ctx.Err() == nil {
		resp, err = p.begin(ctx, s, path, body)
	}
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

func (p *process) begin(ctx context.Context, s site, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err == nil && resp.StatusCode == http.StatusOK {
		s.answers.Add(1)
	}
	return resp, err
}

func (p *process) terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// syncBuffer is what the process says.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) tail(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.b.String()
	return text[max(0, len(text)-n):]
}
