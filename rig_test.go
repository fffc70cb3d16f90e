package kvsteer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func TestMain(m *testing.M) { leak.Main(m) }

const testModel = "m"

// rig is a fleet of fake engines with a router, and a gateway made of
// httputil.ReverseProxy in front: what a user builds.
type rig struct {
	t        *testing.T
	engines  []*fleettest.Engine
	fleet    *fleet.Fleet
	router   *kvsteer.Router
	gateway  *httptest.Server
	observed *recorder
	// transport is what the gateway sends with.
	transport *kvsteer.Transport
}

type rigConfig struct {
	engines   int
	engine    func(i int, c *fleettest.Config)
	worker    func(i int, w *fleet.Worker)
	options   []kvsteer.Option
	transport kvsteer.TransportOptions
	probes    time.Duration // between health checks of scripted workers
	// unseen: the load that engines report is not looked at. On a busy machine reports are
	// late: a request counts as another client's when it is over.
	unseen bool
}

func newRig(t *testing.T, c rigConfig) *rig {
	t.Helper()
	r := &rig{t: t, observed: &recorder{}}
	hub := follow.NewHub()
	var workers []fleet.Worker
	for i := range c.engines {
		cfg := fleettest.Config{Name: fmt.Sprintf("w%d", i), Model: testModel, Speed: 1000, Hub: hub, OutputTokens: 4}
		if c.engine != nil {
			c.engine(i, &cfg)
		}
		e := fleettest.New(t, cfg)
		r.engines = append(r.engines, e)
		w := e.Worker()
		if c.worker != nil {
			c.worker(i, &w)
		}
		workers = append(workers, w)
	}
	o := fleet.Options{
		Discoverer: fleet.Static(workers...), ProbeInterval: 50 * time.Millisecond, ScrapeInterval: 20 * time.Millisecond,
		// A busy test machine must not look like sick engines.
		ProbeTimeout: wait, UnhealthyAfter: 50,
	}
	if c.unseen {
		o.ScrapeInterval = -1
	}
	f, err := fleet.New(o)
	require.NoError(t, err)
	r.fleet = f
	// A machine that runs everything at once must not turn exact prompts into
	// estimates.
	encoder := prompt.NewEncoder(prompt.Options{Deadline: wait})
	opts := append([]kvsteer.Option{
		kvsteer.WithFleet(f), kvsteer.WithEncoder(encoder), kvsteer.WithEvents(hub), kvsteer.WithSeed(1), kvsteer.WithHooks(r.observed),
		kvsteer.WithPredictor(steady{kvsteer.NewPredictor(kvsteer.PredictorOptions{})}),
	}, c.options...)
	r.router, err = kvsteer.New(opts...)
	require.NoError(t, err)
	transport := kvsteer.NewTransport(r.router, c.transport)
	r.transport = transport
	r.gateway = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: transport, ErrorHandler: kvsteer.WriteError,
		ErrorLog: log.New(io.Discard, "", 0), // it logs every answer that broke off
	})
	t.Cleanup(func() {
		r.gateway.Close()
		transport.CloseIdleConnections()
		require.NoError(t, r.router.Close())
		require.NoError(t, encoder.Close())
		require.NoError(t, f.Close())
		require.Zero(t, r.router.InFlight(), "selections left")
	})
	if c.engines > 0 {
		r.waitRoutable(c.engines)
		if len(c.options) == 0 { // a policy among them may be broken, a clock stand still
			r.waitJoined()
		}
	}
	return r
}

// steady is the default Predictor, except that it learns nothing: what a busy machine
// makes of a worker's first answers would send the next request elsewhere.
type steady struct{ kvsteer.Predictor }

func (steady) Observe(*kvsteer.Features, time.Duration) {}

func (r *rig) waitRoutable(n int) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.fleet.Snapshot().Routable() == n },
		30*time.Second, time.Millisecond, "%d routable workers", n)
}

// waitJoined waits until the router has heard of every worker: the fleet tells it
// in the background.
func (r *rig) waitJoined() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		d, err := r.router.Explain(r.t.Context(), &kvsteer.Request{
			API: kvsteer.Completions, Model: testModel, TokenIDs: []uint32{1},
		})
		return err == nil && !slices.ContainsFunc(d.Candidates, func(c kvsteer.DecisionCandidate) bool {
			return strings.Contains(c.TrustReason, "only just discovered")
		})
	}, 30*time.Second, time.Millisecond, "the router knows every worker")
}

// waitTrust waits until every worker's cache is known as well as t says.
func (r *rig) waitTrust(want kvcache.Trust) {
	r.t.Helper()
	var last *kvsteer.Decision
	defer func() {
		if r.t.Failed() {
			r.t.Log(last)
		}
	}()
	require.Eventually(r.t, func() bool {
		d, err := r.router.Explain(r.t.Context(), chatRequest("are we there", false))
		last = d
		if err != nil {
			return false
		}
		for i := range d.Candidates {
			if d.Candidates[i].Trust != want {
				return false
			}
		}
		return len(d.Candidates) > 0
	}, 30*time.Second, time.Millisecond, "trust %s everywhere", want)
}

// idle checks that nothing is in flight anywhere, as soon as the ends are through.
func (r *rig) idle() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		if r.router.InFlight() != 0 {
			return false
		}
		for _, m := range r.fleet.Snapshot().Members() {
			for rank := range m.Ranks() {
				if m.InFlight(rank).Requests != 0 || m.InFlight(rank).PrefillTokens != 0 {
					return false
				}
			}
		}
		return true
	}, 30*time.Second, time.Millisecond, "in flight is zero")
}

// engine returns the fake engine behind a worker's name.
func (r *rig) engine(name string) *fleettest.Engine {
	r.t.Helper()
	for _, e := range r.engines {
		if e.Name() == name {
			return e
		}
	}
	require.Fail(r.t, "no engine named "+name)
	return nil
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (r *rig) post(path, body string) answer {
	r.t.Helper()
	a, err := r.try(r.t.Context(), path, body)
	require.NoError(r.t, err)
	return a
}

func (r *rig) try(ctx context.Context, path, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.gateway.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.gateway.Client().Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}, err
}

func chatBody(content string, stream bool) string {
	b, err := json.Marshal(map[string]any{
		"model": testModel, "stream": stream,
		"messages": []map[string]string{{"role": "user", "content": content}},
	})
	if err != nil {
		panic(err)
	}
	return string(b)
}

func chatRequest(content string, stream bool) *kvsteer.Request {
	return &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(chatBody(content, stream))}
}

// recorder is a hook that keeps everything.
type recorder struct {
	mu        sync.Mutex
	decisions []*kvsteer.Decision
	outcomes  []*kvsteer.Outcome
	trust     []kvsteer.TrustChange
	rejected  []*kvsteer.Decision
	reaped    int
}

func (h *recorder) OnDecision(d *kvsteer.Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decisions = append(h.decisions, d)
}

func (h *recorder) OnOutcome(o *kvsteer.Outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes = append(h.outcomes, o)
}

func (h *recorder) OnRejection(d *kvsteer.Decision, _ *kvsteer.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rejected = append(h.rejected, d)
}

func (h *recorder) rejections() []*kvsteer.Decision {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.rejected)
}

func (h *recorder) OnTrust(c kvsteer.TrustChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trust = append(h.trust, c)
}

func (h *recorder) OnReap(uint64, time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reaped++
}

func (h *recorder) lastOutcome(t *testing.T) *kvsteer.Outcome {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	require.NotEmpty(t, h.outcomes)
	return h.outcomes[len(h.outcomes)-1]
}

func (h *recorder) outcomeCount() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.outcomes)
}

// nextOutcome waits for the outcome after the first n.
func (h *recorder) nextOutcome(t *testing.T, n int) *kvsteer.Outcome {
	t.Helper()
	require.Eventually(t, func() bool { return h.outcomeCount() > n }, 30*time.Second, time.Millisecond)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.outcomes[n]
}

// syncBuffer is a bytes.Buffer for concurrent writers.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// testClock stands still until it is advanced.
type testClock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *testClock { return &testClock{at: time.Now()} }

func (c *testClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *testClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// What tests wait for comes long before wait has passed; they look every tick.
const (
	wait = 30 * time.Second
	tick = time.Millisecond
)

// postTo sends a chat request past the gateway, to an engine itself.
func postTo(t *testing.T, url, body string) int {
	t.Helper()
	status, err := tryPost(url, body)
	require.NoError(t, err)
	return status
}

// tryPost is postTo for other goroutines than the test's.
func tryPost(url, body string) (int, error) {
	resp, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
