//go:build e2e

package prometheus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
	"github.com/kvsteer/kvsteer/tenancy/labels"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// programs is the folder of promtool and prometheus.
func programs(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../../scripts/prometheus.sh")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "scripts/prometheus.sh")
	return strings.TrimSpace(string(out))
}

func promtool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs(t), "promtool"), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %v: %s", args, out)
	return string(out)
}

// Alert rules are valid and do what their tests say; every expression of the dashboard and
// of the document is one.
func TestE2EPromtool(t *testing.T) {
	t.Log(promtool(t, "", "check", "rules", alerts))
	t.Log(promtool(t, "", "test", "rules", "alerts/kvsteer_test.yaml"))

	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	var list []rule
	for i, e := range slices.Concat(dashboardExprs(t), documentExprs(t)) {
		list = append(list, rule{fmt.Sprintf("expression_%d", i), e})
	}
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "expressions", "rules": list}}})
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "expressions.yaml")
	require.NoError(t, os.WriteFile(name, file, 0o600))
	t.Log(promtool(t, "", "check", "rules", name))

	// A gateway that has only ever refused has a share of refused requests.
	share := ""
	for _, e := range dashboardExprs(t) {
		if strings.Contains(e, "rejected_requests_total") && strings.Contains(e, `outcome="failed"`) {
			share = e
		}
	}
	type sample struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
	file, err = yaml.Marshal(map[string]any{"rule_files": []any{}, "evaluation_interval": "1m", "tests": []any{map[string]any{
		"interval": "1m",
		"input_series": []any{map[string]any{
			"series": `kvsteer_rejected_requests_total{job="gw",instance="a",code="saturated"}`, "values": "0+10x30",
		}},
		"promql_expr_test": []any{map[string]any{"expr": share, "eval_time": "20m", "exp_samples": []sample{{"{}", 1}}}},
	}}})
	require.NoError(t, err)
	name = filepath.Join(t.TempDir(), "refused.yaml")
	require.NoError(t, os.WriteFile(name, file, 0o600))
	t.Log(promtool(t, "", "test", "rules", name))

	r := newRig(t, rigConfig{engines: 1, metrics: everything(t), options: []kvsteer.Option{kvsteer.WithProviders(clouds(t))}})
	flood(r.metrics, 3)
	t.Log(promtool(t, text(t, r.registry), "check", "metrics"))
}

// A real server scrapes a router that has work, evaluates all rules, and answers what the
// dashboard asks.
func TestE2EServer(t *testing.T) {
	o := everything(t)
	limits, _ := o.Limiter.(*quota.Limiter)
	records, _ := o.Ledger.(*ledger.Ledger)
	_, err := limits.Update([]quota.Rule{
		{Name: "month", Scope: quota.PerTenant, Budget: quota.Budget{Tokens: 1 << 40, Period: quota.Month}},
	}, quota.Weights{})
	require.NoError(t, err)
	names, err := labels.New(labels.Options{Mode: labels.All})
	require.NoError(t, err)
	r := newRig(t, rigConfig{
		engines: 3, metrics: o,
		options: []kvsteer.Option{
			kvsteer.WithTenancy(kvsteer.TenancyOptions{Limits: limits, Ledger: records, Labels: names}),
			kvsteer.WithQueue(kvsteer.QueueOptions{}), kvsteer.WithProviders(clouds(t)),
		},
		transport: kvsteer.TransportOptions{Describe: func(h *http.Request, q *kvsteer.Request) { q.Tenant = h.Header.Get("X-Tenant") }},
	})
	r.exact()
	s := serve(t, r, false)

	shared := fleettest.Text(5, 800)
	stop := time.Now().Add(12 * time.Second)
	for i := 0; time.Now().Before(stop); i++ {
		status, body := r.post(chat(shared+fmt.Sprint(" question ", i), true), "X-Tenant", fmt.Sprint("t", i%3))
		require.Equal(t, http.StatusOK, status, body)
		time.Sleep(20 * time.Millisecond)
	}
	r.eventually(func() bool { return r.router.InFlight() == 0 }, "all have ended")
	_, outcomes := r.observed.all()
	want := float64(len(outcomes))
	r.eventually(func() bool { v, ok := s.number("sum(kvsteer_requests_total)"); return ok && v == want }, "the server knows of all")
	t.Logf("%v requests", want)

	var silent []string
	r.eventually(func() bool {
		silent = slices.DeleteFunc(dashboardExprs(t), s.answers)
		return len(silent) <= 4
	}, "the dashboard has answers, but where nothing has happened: refusals, doubts, breakers, quotas")
	t.Log("nothing to show for:", strings.Join(silent, "\n"))
	hit, ok := s.number(`sum(kvsteer_cache_reported_tokens_total) / sum(kvsteer_cache_compared_tokens_total)`)
	require.True(t, ok)
	require.Greater(t, hit, 0.5)
	exact, ok := s.number(`sum(kvsteer_cache_ranks{trust="exact"})`)
	require.True(t, ok)
	require.InDelta(t, 3, exact, 0)
	s.rulesAreHealthy()
}

// Native histograms arrive as such.
func TestE2ENativeHistograms(t *testing.T) {
	r := newRig(t, rigConfig{engines: 1, metrics: prometheus.Options{NativeHistograms: true}})
	s := serve(t, r, true)
	r.eventually(func() bool {
		r.post(chat("hello", true))
		v, ok := s.number("histogram_quantile(0.5, sum(rate(kvsteer_ttft_seconds[1m])))")
		return ok && v > 0
	}, "a quantile of a native histogram")
}

// server is a Prometheus.
type server struct {
	t   *testing.T
	url string
}

func serve(t *testing.T, r *rig, native bool) *server {
	t.Helper()
	target := httptest.NewServer(promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}))
	t.Cleanup(target.Close)
	dir := t.TempDir()
	rules, err := filepath.Abs(alerts)
	require.NoError(t, err)
	config := map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rules},
		"scrape_configs": []any{map[string]any{
			"job_name": "gw", "static_configs": []any{map[string]any{"targets": []string{strings.TrimPrefix(target.URL, "http://")}}},
		}},
	}
	text, err := yaml.Marshal(config)
	require.NoError(t, err)
	name := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(name, text, 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	args := []string{"--config.file=" + name, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address}
	if native {
		args = append(args, "--enable-feature=native-histograms")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(programs(t), "prometheus"), args...)
	var log bytes.Buffer
	cmd.Stderr, cmd.Stdout = &log, &log
	require.NoError(t, l.Close()) // not before: others would get the port
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	s := &server{t: t, url: "http://" + address}
	require.Eventually(t, func() bool {
		resp, err := http.Get(s.url + "/-/ready")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 2*patient, 100*time.Millisecond, "prometheus is ready")
	return s
}

type reply struct {
	Status, Error string
	Data          struct {
		Result []struct{ Value [2]any }
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
}

func (s *server) get(path string) (out reply) {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&out))
	require.Equal(s.t, "success", out.Status, "%s: %s", path, out.Error)
	return out
}

func (s *server) query(expr string) reply {
	s.t.Helper()
	return s.get("/api/v1/query?query=" + url.QueryEscape(expr))
}

// answers reports whether there is an answer; an error fails the test.
func (s *server) answers(expr string) bool {
	s.t.Helper()
	return len(s.query(expr).Data.Result) > 0
}

func (s *server) number(expr string) (float64, bool) {
	s.t.Helper()
	list := s.query(expr).Data.Result
	if len(list) != 1 {
		return 0, false
	}
	var v float64
	_, err := fmt.Sscan(fmt.Sprint(list[0].Value[1]), &v)
	return v, err == nil
}

func (s *server) rulesAreHealthy() {
	s.t.Helper()
	n := 0
	require.Eventually(s.t, func() bool {
		n = 0
		for _, g := range s.get("/api/v1/rules").Data.Groups {
			for _, r := range g.Rules {
				assert.NotEqual(s.t, "err", r.Health, "%s: %s", r.Name, r.LastError)
				if r.Health == "ok" {
					n++
				}
			}
		}
		return n == len(alertExprs(s.t))
	}, patient, 200*time.Millisecond, "all rules are evaluated")
	s.t.Logf("%d rules are evaluated", n)
}
