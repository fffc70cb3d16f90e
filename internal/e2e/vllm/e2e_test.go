//go:build e2e

package vllm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	modelName = "tiny"
	workers   = 2
	// cacheMiB is each worker's KV cache: about two thirds of the shared prefixes,
	// so that a worker that is sent all of them must forget, and one that is sent
	// its share need not.
	cacheMiB = 64
	// agree is the share of requests whose predicted cached tokens must equal the
	// engine's report.
	agree = 0.95
)

type summary struct {
	Requests map[string]int `json:"requests"`
	TTFT     struct {
		Mean float64 `json:"mean"`
		P50  float64 `json:"p50"`
		P95  float64 `json:"p95"`
	} `json:"ttft_ms"`
	E2E struct {
		P50 float64 `json:"p50"`
	} `json:"e2e_ms"`
	ITL struct {
		P50 float64 `json:"p50"`
	} `json:"itl_ms"`
	CachedShare float64 `json:"cached_share"`
}

// TestVLLM drives real vLLM servers through the example gateway: two workloads,
// each with round-robin, least-requests and KVSteer, then kill -9 and restart.
func TestVLLM(t *testing.T) {
	out := outDir(t)
	script(t, time.Hour, "setup.sh")
	binary := filepath.Join(out, "nethttp")
	script(t, 20*time.Minute, "-c", "cd ../../../examples/nethttp && go build -o '"+binary+"' .")

	ports := freePorts(t, 3*workers)
	fleet := make([]*worker, workers)
	for i := range fleet {
		fleet[i] = &worker{name: fmt.Sprintf("vllm-%d", i), port: ports[3*i], events: ports[3*i+1], replay: ports[3*i+2]}
		fleet[i].start(t)
	}
	for _, w := range fleet {
		w.waitHealthy(t)
	}

	rules := []string{"round-robin", "least-requests", "kvsteer"}
	workloads := []string{"shared-prefix", "multi-turn"}
	results := map[string]map[string]summary{}
	for _, rule := range rules {
		results[rule] = map[string]summary{}
		for _, w := range workloads {
			results[rule][w] = runLoad(t, binary, rule, w, fleet)
		}
	}
	table := renderTable(rules, workloads, results)
	t.Logf("\n%s", table)
	require.NoError(t, os.WriteFile(filepath.Join(out, "table.txt"), []byte(table), 0o600))
	// Latencies on a small shared machine are for people to read; what was
	// computed again and what was not is not noise.
	for _, w := range workloads {
		require.Greater(t, results["kvsteer"][w].CachedShare, results["round-robin"][w].CachedShare, "%s: cached share", w)
	}

	t.Run("kill -9 and restart heal", func(t *testing.T) { killAndRestart(t, binary, fleet) })
}

// runLoad runs one workload through a fresh gateway over emptied caches and
// checks every prediction against the engine's report.
func runLoad(t *testing.T, binary, rule, workload string, fleet []*worker) summary {
	t.Helper()
	for _, w := range fleet {
		w.resetCache(t)
	}
	g := startGateway(t, binary, rule, fleet)
	g.waitExact(t, len(fleet), 5*time.Minute)
	before := len(g.read(t))
	dir := filepath.Join(outDir(t), rule+"-"+workload)
	script(t, 10*time.Minute, "load.sh", g.url, workload, dir)
	b, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	require.NoError(t, err)
	var s summary
	require.NoError(t, json.Unmarshal(b, &s))
	g.process.stop(t)
	// Round-robin overruns the caches on purpose: what was there at the pick may be
	// evicted before the engine gets to it. Its agreement is shown, not required.
	checkPredictions(t, rule+" "+workload, g.read(t)[before:], rule == "kvsteer")
	return s
}

func checkPredictions(t *testing.T, what string, outcomes []outcome, required bool) {
	t.Helper()
	known, equal, exact := 0, 0, 0
	for _, o := range outcomes {
		if o.Error != "" || o.decision.Chosen < 0 {
			continue
		}
		if o.decision.Candidates[o.decision.Chosen].TrustState == "exact" && o.decision.TokenSource != "bytes" {
			exact++
		}
		if !o.Usage.CachedKnown {
			continue
		}
		known++
		if o.CachedPredicted == o.Usage.CacheRead {
			equal++
		} else {
			t.Logf("%s: predicted %d cached tokens of %d, the engine reported %d (trust %s, tokens from %s)", what,
				o.CachedPredicted, o.decision.PromptTokens, o.Usage.CacheRead,
				o.decision.Candidates[o.decision.Chosen].TrustState, o.decision.TokenSource)
		}
	}
	require.Positive(t, known, "%s: the engine reported cached tokens", what)
	share := float64(equal) / float64(known)
	t.Logf("%s: %d of %d predictions equal the engine's report (%.1f%%); %d of %d decisions exact",
		what, equal, known, 100*share, exact, len(outcomes))
	if required {
		require.GreaterOrEqual(t, share, agree, what)
	}
	require.GreaterOrEqual(t, float64(exact)/float64(len(outcomes)), agree, "%s: exact decisions", what)
}

// killAndRestart kills one worker for good and starts it again, under one
// gateway that is not told.
func killAndRestart(t *testing.T, binary string, fleet []*worker) {
	t.Helper()
	for _, w := range fleet {
		w.resetCache(t)
	}
	g := startGateway(t, binary, "kvsteer", fleet)
	g.waitExact(t, len(fleet), 5*time.Minute)
	for i := range 10 {
		code, body := g.ask(longPrompt(i))
		require.Equal(t, http.StatusOK, code, body)
	}
	victim := fleet[0]
	victim.process.kill()
	for i := range 10 {
		code, body := g.ask(longPrompt(i))
		require.Equal(t, http.StatusOK, code, "with a worker dead: %s", body)
	}
	began := time.Now()
	victim.start(t)
	victim.waitHealthy(t)
	up := time.Since(began)
	healed := g.waitExact(t, len(fleet), 5*time.Minute)
	t.Logf("killed worker: up again after %v, exact %v after that, without a restart of the gateway", up.Round(time.Second), healed.Round(10*time.Millisecond))
	mark := len(g.read(t))
	for round := range 3 {
		for i := range 10 {
			code, body := g.ask(longPrompt(i))
			require.Equal(t, http.StatusOK, code, "round %d: %s", round, body)
		}
	}
	checkPredictions(t, "after the restart", g.read(t)[mark:], true)
	g.process.stop(t)
}

func longPrompt(i int) string {
	return strings.Repeat(fmt.Sprintf("document %d says that caches remember what they are told. ", i), 60)
}

func renderTable(rules, workloads []string, results map[string]map[string]summary) string {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "workload\trouter\trequests\terrors\tTTFT p50\tTTFT mean\tTTFT p95\tE2E p50\tITL p50\tcached")
	for _, w := range workloads {
		for _, r := range rules {
			s := results[r][w]
			fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%.0f ms\t%.0f ms\t%.0f ms\t%.0f ms\t%.1f ms\t%.0f%%\n", w, r,
				s.Requests["successful"], s.Requests["errored"],
				s.TTFT.P50, s.TTFT.Mean, s.TTFT.P95, s.E2E.P50, s.ITL.P50, 100*s.CachedShare)
		}
	}
	_ = tw.Flush() // a Builder does not fail
	return b.String()
}
