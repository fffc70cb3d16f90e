//go:build e2e

package vllm_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// rounds of both workloads, with so many requests of each. The first round is about
	// what the predictor only learns from.
	rounds, perWorkload = 3, 100
	learned, judged     = 200, 300
	// What the predictor must reach, in percent.
	worstMedian             = 20
	leastCover, mostCovered = 85, 95
)

// TestPredicts lets the predictor of one gateway learn the times to the first token of two
// real vLLM servers from nothing, and judges by its decision log what it predicted at each
// choice, before the request was sent. It measures times: on a machine that does other work
// it measures that, which the repeats at its beginning and the twins at its end show.
func TestPredicts(t *testing.T) {
	out := outDir(t)
	script(t, time.Hour, "setup.sh")
	binary, command := filepath.Join(out, "nethttp"), filepath.Join(out, "kvsteer")
	script(t, 20*time.Minute, "-c", "cd ../../../examples/nethttp && go build -o '"+binary+"' .")
	script(t, 20*time.Minute, "-c", "cd ../../../cmd/kvsteer && go build -o '"+command+"' .")
	ports := freePorts(t, 3*workers)
	fleet := make([]*worker, workers)
	for i := range fleet {
		fleet[i] = &worker{name: fmt.Sprintf("predict-%d", i), port: ports[3*i], events: ports[3*i+1], replay: ports[3*i+2]}
		fleet[i].start(t)
	}
	for _, w := range fleet {
		w.waitHealthy(t)
	}
	for _, w := range fleet {
		w.showRepeats(t)
		w.resetCache(t)
	}

	g := startGatewayAt(t, binary, "kvsteer", "predict", freePorts(t, 1)[0], fleet)
	_ = os.Remove(filepath.Join(out, "predict.txt")) // of an earlier run
	g.waitExact(t, workers, 5*time.Minute)
	for round := range rounds {
		for _, w := range []string{"shared-prefix", "multi-turn"} {
			dir := filepath.Join(out, fmt.Sprintf("predict-%s-%d", w, round+1))
			script(t, 40*time.Minute, "load.sh", g.url, w, dir, "--seed", fmt.Sprint(42+round),
				"--requests", fmt.Sprint(perWorkload), "--max-seconds", "1800")
			t.Logf("round %d, %s: %s", round+1, w, strings.TrimSpace(machineLoad()))
		}
	}
	g.process.stop(t)

	table, err := exec.Command(command, "predictor-eval", "-warmup", fmt.Sprint(learned), g.log).CombinedOutput()
	require.NoError(t, err, "%s", table)
	t.Logf("\n%s", table)
	require.NoError(t, os.WriteFile(filepath.Join(out, "predict.txt"), table, 0o600))
	showTwins(t, g.read(t))
	figures, err := exec.Command(command, "predictor-eval", "-json", "-warmup", fmt.Sprint(learned), g.log).Output()
	require.NoError(t, err)
	var reports []struct {
		Used   int     `json:"used"`
		Median float64 `json:"ttft_median_ape_pct"`
		Cover  float64 `json:"p90_coverage_pct"`
	}
	require.NoError(t, json.Unmarshal(figures, &reports))
	require.Len(t, reports, 1)
	assert.GreaterOrEqual(t, reports[0].Used, judged, "predictions judged")
	assert.LessOrEqual(t, reports[0].Median, float64(worstMedian), "median error, percent")
	assert.GreaterOrEqual(t, reports[0].Cover, float64(leastCover), "share below the 90th percentile, percent")
	assert.LessOrEqual(t, reports[0].Cover, float64(mostCovered), "share below the 90th percentile, percent")
}

// showRepeats asks an idle worker for the same again and again: a prompt that is cached, then
// prompts of one length that aren't. How far the times lie apart no feature can tell.
func (w *worker) showRepeats(t *testing.T) {
	t.Helper()
	const repeats = 20
	for _, cached := range []bool{true, false} {
		all := make([]float64, 0, repeats)
		for i := range repeats + 1 {
			about, what := -1, "cached"
			if !cached {
				about, what = i, "cold"
			}
			took := w.firstToken(t, fmt.Sprintf("%s %s", what, longPrompt(about)))
			if i > 0 { // the first one warms
				all = append(all, float64(took.Microseconds())/1e3)
			}
		}
		usual := middle(all)
		off := make([]float64, repeats)
		for i, v := range all {
			off[i] = 100 * math.Abs(v/usual-1)
		}
		t.Logf("%s, idle, %d prompts of one length, cached %v: %.1f to %.1f ms, median %.1f ms; half are off it by more than %.1f%%",
			w.name, repeats, cached, all[0], all[repeats-1], usual, middle(off))
	}
}

// showTwins says how far the requests that looked alike lie apart: each is predicted by the
// median of the others that had as much to compute, cached and ahead, and as many decoding.
// That knows the future; no predictor that sees these features is to be much better.
func showTwins(t *testing.T, all []outcome) {
	t.Helper()
	const width, enough = 32, 5 // a block; of fewer the median says little
	type look struct{ own, cached, ahead, decoding int }
	type request struct{ took, predicted float64 }
	groups := map[look][]request{}
	seen := 0
	for _, o := range all {
		if o.TTFT <= 0 || o.Moved || o.decision == nil || o.decision.Attempt != 1 || o.decision.Winner() == nil {
			continue
		}
		if seen++; seen > learned {
			f := &o.decision.Features[o.decision.Chosen]
			k := look{f.Uncached / width, f.Cached / width, f.AheadTokens / width, f.Decoding}
			groups[k] = append(groups[k], request{o.TTFT.Seconds(), o.decision.Winner().PredictedTTFT.Seconds()})
		}
	}
	var twins, predictor []float64
	for _, g := range groups {
		for i := range g {
			if len(g) < enough {
				break
			}
			others := make([]float64, 0, len(g)-1)
			for j := range g {
				if j != i {
					others = append(others, g[j].took)
				}
			}
			twins = append(twins, 100*math.Abs(middle(others)/g[i].took-1))
			predictor = append(predictor, 100*math.Abs(g[i].predicted/g[i].took-1))
		}
	}
	if len(twins) > 0 {
		t.Logf("%d of %d requests have twins, whose median is off by %.1f%% in the median; the predictor by %.1f%% on the same",
			len(twins), seen-learned, middle(twins), middle(predictor))
	}
}

// middle is the median of v, which it sorts.
func middle(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// firstToken is the time to the first token of a streamed answer.
func (w *worker) firstToken(t *testing.T, prompt string) time.Duration {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": modelName, "prompt": prompt, "max_tokens": 4, "stream": true, "ignore_eos": true})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url()+"/v1/completions", bytes.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	lines := bufio.NewScanner(resp.Body)
	require.True(t, lines.Scan(), "an answer: %v", lines.Err())
	took := time.Since(began)
	for lines.Scan() { // to its end, or the next one would not find the worker idle
	}
	require.NoError(t, lines.Err())
	return took
}

// machineLoad is what the system says of how busy it is.
func machineLoad() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	return "load average " + string(b)
}
