package debug_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/debug"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/policy"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is for a machine that does everything at once.
const patience = 30 * time.Second

// rig is a gateway over fake engines with a console.
type rig struct {
	t       *testing.T
	engines []*fleettest.Engine
	fleet   *fleet.Fleet
	router  *kvsteer.Router
	seen    *debug.Recorder
	console *debug.Handler
	gateway *httptest.Server
	server  *httptest.Server // of the console
	model   string
}

type rigConfig struct {
	names    []string
	model    string
	policy   policy.Policy
	options  debug.Options
	more     []kvsteer.Option
	describe func(r *http.Request, q *kvsteer.Request)
}

func newRig(t *testing.T, c rigConfig) *rig {
	t.Helper()
	if c.names == nil {
		c.names = []string{"w0", "w1"}
	}
	if c.model == "" {
		c.model = "m"
	}
	r := &rig{t: t, seen: &debug.Recorder{}, model: c.model}
	hub := follow.NewHub()
	var workers []fleet.Worker
	for i, name := range c.names {
		e := fleettest.New(t, fleettest.Config{Name: fmt.Sprintf("e%d", i), Model: c.model, Speed: 1000, Hub: hub, OutputTokens: 4})
		w := e.Worker()
		w.Name = name
		r.engines, workers = append(r.engines, e), append(workers, w)
	}
	var err error
	r.fleet, err = fleet.New(fleet.Options{
		Discoverer: fleet.Static(workers...), ProbeInterval: 50 * time.Millisecond, ScrapeInterval: 20 * time.Millisecond,
		ProbeTimeout: patience, UnhealthyAfter: 50,
	})
	require.NoError(t, err)
	options := []kvsteer.Option{kvsteer.WithFleet(r.fleet), kvsteer.WithEvents(hub), kvsteer.WithHooks(r.seen)}
	if c.policy != nil {
		options = append(options, kvsteer.WithPolicy(c.policy))
	}
	r.router, err = kvsteer.New(append(options, c.more...)...)
	require.NoError(t, err)
	if c.options.Recorder == nil {
		c.options.Recorder = r.seen
	}
	r.console, err = debug.New(r.router, c.options)
	require.NoError(t, err)
	r.server = httptest.NewServer(http.StripPrefix("/debug/kvsteer", r.console))
	transport := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Describe: c.describe})
	r.gateway = httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: transport, ErrorHandler: kvsteer.WriteError,
	})
	t.Cleanup(func() {
		r.gateway.Close()
		transport.CloseIdleConnections()
		require.NoError(t, r.console.Close())
		r.server.Close()
		require.NoError(t, r.router.Close())
		require.NoError(t, r.fleet.Close())
	})
	require.Eventually(t, func() bool { return r.fleet.Snapshot().Routable() == len(c.names) }, patience, time.Millisecond)
	return r
}

// ask sends a prompt through the gateway.
func (r *rig) ask(prompt string) int {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{
		"model": r.model, "messages": []map[string]string{{"role": "user", "content": prompt}},
	})
	require.NoError(r.t, err)
	ctx, stop := context.WithTimeout(r.t.Context(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.gateway.URL+"/v1/chat/completions", bytes.NewReader(body))
	require.NoError(r.t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.gateway.Client().Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	if resp.StatusCode != http.StatusOK {
		r.t.Logf("answered with %d: %.300s", resp.StatusCode, answer)
	}
	return resp.StatusCode
}

// get asks the console for a path.
func (r *rig) get(path string) (status int, h http.Header, body string) {
	r.t.Helper()
	ctx, stop := context.WithTimeout(r.t.Context(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/debug/kvsteer"+path, nil)
	require.NoError(r.t, err)
	client := *r.server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	require.NoError(r.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return resp.StatusCode, resp.Header, string(data)
}

// shown is a part of state.json.
type shown struct {
	Seq     uint64 `json:"seq"`
	Full    bool   `json:"full"`
	Problem string `json:"problem"`
	Unread  []string
	Sums    struct {
		Decisions, Kept, Rejections, Done, Failed, Exact int64
		ReportedPrompt                                   int64 `json:"reportedPrompt"`
		Timed                                            int64
		ToWorkers, ToProviders, PromptTokens             int64
	} `json:"sums"`
	Fleet struct {
		Workers, Routable, Omitted int
		Problem                    string
	} `json:"fleet"`
	Workers []struct {
		Name, Health, Engine, Address string
		Models                        []string
		Routable                      bool
		Events                        uint64
		Ranks                         []struct {
			Trust          string
			WaitMS         float64 `json:"waitMs"`
			Blocks, Booked int
			Fill           float64
			Picks          uint64
		}
	} `json:"workers"`
	Prefixes struct {
		Columns []struct {
			Name, Trust, Health string
			Routable            bool
		}
		Rows []struct {
			ID             string `json:"id"`
			Blocks, Tokens int
			Lookups        float64
			Held           []int
			Confirmed      []int
		}
	} `json:"prefixes"`
	Policy *struct {
		Kind, Version string
		Policies      []struct {
			Name, Mode string
			Rules      []struct {
				Name, Empty string
				Matches     []string
			}
		}
	} `json:"policy"`
	Rules []struct {
		Policy, Rule   string
		Count, Refused int64
	} `json:"rules"`
	Shadows []struct {
		Policy         string
		Asked, Differs int64
	} `json:"shadows"`
	Codes []struct {
		Code  string
		Count int64
	} `json:"codes"`
	Decisions []struct {
		ID                               uint64 `json:"id"`
		Model, Rule, Explanation, Tenant string
		Chosen, Omitted                  int
		Candidates                       []struct {
			Name string
			Rank int
		}
		Shadows []struct {
			Policy, Would string
			Differs       bool
		}
		End *struct {
			Failure string
			TTFTMS  float64 `json:"ttftMs"`
			Cached  int     `json:"cachedTokens"`
			Output  int     `json:"outputTokens"`
			Next    uint64
		}
	} `json:"decisions"`
	Rejections []struct{ Code, Model, Tenant, Rule, Message, Dropped string } `json:"rejections"`
	Notes      []struct {
		Worker, Text, Kind string
	} `json:"notes"`
}

func (r *rig) state() *shown {
	r.t.Helper()
	status, _, body := r.get("/state.json")
	require.Equal(r.t, http.StatusOK, status, body)
	var s shown
	require.NoError(r.t, json.Unmarshal([]byte(body), &s))
	return &s
}

// until waits until the state is as wanted.
func (r *rig) until(want func(*shown) bool) *shown {
	r.t.Helper()
	var s *shown
	require.Eventually(r.t, func() bool { s = r.state(); return want(s) }, patience, 20*time.Millisecond)
	return s
}
