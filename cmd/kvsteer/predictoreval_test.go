package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recording writes n lines of an engine that takes 20 ms and 0.1 ms a token.
func recording(t *testing.T, n int, more ...string) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		tokens := 100 + i*37%4000
		ahead := i * 53 % 900
		fmt.Fprintf(&b, `{"input_token_length": %d, "prefill_tokens_in_flight": %d, "num_request_running": 2, `+
			`"actual_ttft_ms": %.3f, "actual_tpot_ms": 0}`+"\n", tokens, ahead, 20+0.1*float64(tokens+ahead))
		fmt.Fprintf(&b, `{"input_token_length": %d, "num_request_running": 2, "actual_ttft_ms": 0, "actual_tpot_ms": 19.5}`+"\n\n", tokens)
	}
	for _, line := range more {
		b.WriteString(line + "\n")
	}
	name := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o600))
	return name
}

func eval(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = dispatch(context.Background(), commands(), append([]string{"predictor-eval"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestPredictorEval(t *testing.T) {
	t.Parallel()
	name := recording(t, 400)
	code, out, errs := eval("-json", "-warmup", "100", name)
	require.Zero(t, code, errs)
	require.Empty(t, errs)
	var reports []evalReport
	require.NoError(t, json.Unmarshal([]byte(out), &reports))
	require.Len(t, reports, 1)
	r := reports[0]
	require.Equal(t, 800, r.Lines)
	require.Equal(t, 400, r.WithTTFT)
	require.Equal(t, 300, r.Used)
	require.Less(t, r.MedianAPE, 2.0)
	require.Less(t, r.MeanAPE, 4.0)
	require.Less(t, r.ITLMedian, 2.0)
	require.Len(t, r.Deciles, 10)
	rows := 0
	for i, d := range r.Deciles {
		rows += d.Rows
		require.LessOrEqual(t, d.FromMS, d.ToMS)
		if i > 0 {
			require.GreaterOrEqual(t, d.FromMS, r.Deciles[i-1].ToMS)
		}
	}
	require.Equal(t, r.Used, rows)

	code, out, _ = eval(name, name)
	require.Zero(t, code)
	require.Equal(t, 2, strings.Count(out, "rows used        200 (of 800 lines 400 carry a TTFT; the first 200 are learned from only)"))
	require.Contains(t, out, "p90")
}

func TestPredictorEvalNamesTheBadLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"input_token_length": `:                                                    "not a recorded request",
		`{"actual_ttft_ms": 5}`:                                                      "no input_token_length",
		`{"input_token_length": "12"}`:                                               "not a recorded request",
		`{"input_token_length": -1}`:                                                 "input_token_length -1 is out of range",
		`{"input_token_length": 1, "kv_cache_percentage": 7}`:                        "kv_cache_percentage 7 is not between 0 and 1",
		`{"input_token_length": 1, "num_request_waiting": -2}`:                       "num_request_waiting -2 is out of range",
		`{"input_token_length": 1, "actual_ttft_ms": -3}`:                            "actual_ttft_ms -3 is out of range",
		`{"input_token_length": 1, "prefix_cache_score": 1.5}`:                       "prefix_cache_score 1.5 is not between 0 and 1",
		`{"input_token_length": 1, "actual_tpot_ms": 1e300}`:                         "actual_tpot_ms 1e+300 is out of range",
		`{"input_token_length": 1, "model": "` + strings.Repeat("x", maxLine) + `"}`: "token too long",
	} {
		code, out, errs := eval(recording(t, 2, line))
		require.Equal(t, exitFailed, code)
		require.Empty(t, out)
		require.Contains(t, errs, want)
		require.Contains(t, errs, ":7: ")
	}
}

func TestPredictorEvalUsage(t *testing.T) {
	t.Parallel()
	code, _, errs := eval()
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "usage: kvsteer predictor-eval")
	code, _, _ = eval("-warmup", "-1", "x")
	require.Equal(t, exitUsage, code)
	code, _, _ = eval("-nonsense")
	require.Equal(t, exitUsage, code)
	code, _, _ = eval("-h")
	require.Equal(t, exitOK, code)
	code, _, errs = eval(filepath.Join(t.TempDir(), "missing.jsonl"))
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "missing.jsonl")
	code, _, errs = eval(recording(t, 5)) // nothing is left after the warm-up
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "5 of 10 lines carry a TTFT")
}

func TestCachedTokensOnRequest(t *testing.T) {
	t.Parallel()
	n := 1000
	r := recorded{Input: &n, Prefix: 0.75, Running: 5, Waiting: 2}
	f := r.features(false)
	require.Equal(t, [2]int{1000, 0}, [2]int{f.Uncached, f.Cached})
	require.Equal(t, [2]int{3, 2}, [2]int{f.Decoding, f.Waiting})
	f = r.features(true)
	require.Equal(t, [2]int{250, 750}, [2]int{f.Uncached, f.Cached})
	r.Ahead = 64 // covers those that wait
	require.Zero(t, r.features(false).Waiting)
}

// A gateway's log has predictions of its own.
func TestPredictorEvalOfOutcomes(t *testing.T) {
	line := func(attempt, chosen int, predicted, p90, seconds float64) string {
		return fmt.Sprintf(`{"decision":{"attempt":%d,"chosen":%d,"candidates":[{"predicted_ttft_ns":1},`+
			`{"predicted_ttft_ns":%.0f,"predicted_ttft_p90_ns":%.0f}]},"ttft_s":%g,"duration_s":1}`,
			attempt, chosen, predicted*1e9, p90*1e9, seconds)
	}
	file := recording(t, 0,
		line(1, 1, 9, 9, 1),      // before those that count
		line(1, 1, 0.5, 0.6, 0),  // no first token was seen
		line(2, 1, 0.5, 0.6, 2),  // a second attempt
		line(1, -1, 0.5, 0.6, 2), // nobody
		line(1, 1, 0.9, 1.2, 1), line(1, 1, 1.2, 1.3, 1), line(1, 1, 1, 1.5, 2))
	code, out, errs := eval("-json", "-warmup", "1", file)
	require.Equal(t, exitOK, code, errs)
	var got []evalReport
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, []int{7, 4, 3}, []int{got[0].Lines, got[0].WithTTFT, got[0].Used})
	require.InDelta(t, 20, got[0].MedianAPE, 1e-6)
	require.InDelta(t, 80.0/3, got[0].MeanAPE, 1e-6)
	require.InDelta(t, 200.0/3, got[0].P90Coverage, 1e-6)
	_, out, _ = eval("-warmup", "1", file)
	require.Contains(t, out, "coverage         p90 66.7%")
}
