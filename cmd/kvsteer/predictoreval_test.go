package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/record"
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
	n := 1000.0
	r := recorded{Input: &n, Prefix: 0.75, Running: 5, Waiting: 2}
	f := r.features(false)
	require.Equal(t, [2]int{1000, 0}, [2]int{f.Uncached, f.Cached})
	require.Equal(t, [2]int{3, 2}, [2]int{f.Decoding, f.Waiting})
	f = r.features(true)
	require.Equal(t, [2]int{250, 750}, [2]int{f.Uncached, f.Cached})
	r.Ahead = 64 // covers those that wait
	require.Zero(t, r.features(false).Waiting)
	r.Ahead, r.Waiting = 0, 7 // were counted a moment later
	f = r.features(false)
	require.Equal(t, [2]int{0, 5}, [2]int{f.Decoding, f.Waiting})
}

// Whether the recorder's score means anything depends on the engine, and the rows tell.
// They may come from a table whose numbers are all floats.
func TestPredictorEvalFindsOutAboutCaches(t *testing.T) {
	t.Parallel()
	of := func(caching bool) string {
		var b strings.Builder
		r := rand.New(rand.NewPCG(1, 2))
		for range 800 {
			tokens, score := 200+r.IntN(8000), math.Floor(10*r.Float64())/10
			computed := float64(tokens)
			if caching {
				computed *= 1 - score
			}
			fmt.Fprintf(&b, `{"input_token_length": %d.0, "num_request_running": 3.0, "prefix_cache_score": %g, "actual_ttft_ms": %.3f}`+"\r\n",
				tokens, score, 20+0.1*computed)
		}
		name := filepath.Join(t.TempDir(), "rows.jsonl")
		require.NoError(t, os.WriteFile(name, []byte(b.String()), 0o600))
		return name
	}
	report := func(args ...string) evalReport {
		code, out, errs := eval(append([]string{"-json"}, args...)...)
		require.Zero(t, code, errs)
		var got []evalReport
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		return got[0]
	}
	on, off := of(true), of(false)
	r := report(on)
	require.Equal(t, 600, r.CachedRows)
	require.Less(t, r.MedianAPE, 2.0)
	require.Equal(t, report("-cached", on), r)
	require.Equal(t, report("-cached=1", on), r)
	require.Equal(t, report("-cached=auto", on), r)
	require.Greater(t, report("-cached=false", on).MedianAPE, 10.0)
	r = report(off)
	require.Zero(t, r.CachedRows)
	require.Less(t, r.MedianAPE, 2.0)
	require.Greater(t, report("-cached", off).MedianAPE, 10.0)
	_, out, _ := eval(on)
	require.Contains(t, out, "cached tokens    by prefix_cache_score in 600 rows")
	code, _, errs := eval("-cached=perhaps", on)
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "auto, true or false")
}

// A router's decision log has predictions of its own.
func TestPredictorEvalOfALog(t *testing.T) {
	var log bytes.Buffer
	rec, err := record.New(&log, record.Options{CloseTimeout: time.Minute})
	require.NoError(t, err)
	id := uint64(0)
	add := func(attempt, chosen int, predicted, p90, seconds float64) {
		id++
		of := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
		candidate := policy.Candidate{PredictedTTFT: of(predicted), PredictedP90: of(p90)}
		d := &kvsteer.Decision{ID: id, Attempt: attempt, Chosen: chosen, Candidates: make([]kvsteer.DecisionCandidate, 2)}
		d.Candidates[1].Candidate = candidate
		rec.OnDecision(d)
		if seconds >= 0 {
			rec.OnOutcome(&kvsteer.Outcome{Decision: d, TTFT: of(seconds)})
		}
	}
	add(1, 1, 9, 9, 1)      // before those that count
	add(1, 1, 0.5, 0.6, 0)  // no first token was seen
	add(1, 1, 0.5, 0.6, -1) // it has not ended
	add(2, 1, 0.5, 0.6, 2)  // a second attempt
	add(1, -1, 0.5, 0.6, 2) // nobody
	add(1, 1, 0.9, 1.2, 1)
	add(1, 1, 1.2, 1.3, 1)
	add(1, 1, 1, 1.5, 2)
	d := &kvsteer.Decision{ID: 99, Attempt: 1, Candidates: make([]kvsteer.DecisionCandidate, 1)}
	d.Candidates[0].PredictedTTFT = time.Second
	rec.OnDecision(d)
	rec.OnOutcome(&kvsteer.Outcome{Decision: d, TTFT: time.Hour, Moved: true}) // it is another worker's
	require.NoError(t, rec.Close())
	file := filepath.Join(t.TempDir(), "log.jsonl")
	require.NoError(t, os.WriteFile(file, log.Bytes(), 0o600))
	code, out, errs := eval("-json", "-warmup", "1", file)
	require.Equal(t, exitOK, code, errs)
	var got []evalReport
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, []int{18, 4, 3}, []int{got[0].Lines, got[0].WithTTFT, got[0].Used})
	require.InDelta(t, 20, got[0].MedianAPE, 1e-6)
	require.InDelta(t, 80.0/3, got[0].MeanAPE, 1e-6)
	require.InDelta(t, 200.0/3, got[0].P90Coverage, 1e-6)
	_, out, _ = eval("-warmup", "1", file)
	require.Contains(t, out, "coverage         p90 66.7%")
	code, _, errs = eval("-warmup", "9", file)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "log.jsonl: 4 of 18 lines carry a TTFT")
	require.NoError(t, os.WriteFile(file, bytes.Replace(log.Bytes(), []byte(`"version":1`), []byte(`"version":9`), 1), 0o600))
	_, _, errs = eval(file)
	require.Contains(t, errs, "a newer kvsteer reads it")
}

// Two routers may take turns in a log, and both number their decisions from 1.
func TestPredictorEvalOfASharedLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log.jsonl")
	var both [2]*record.Recorder
	for i := range both {
		var err error
		both[i], err = record.Open(file, record.Options{CloseTimeout: time.Minute})
		require.NoError(t, err)
	}
	for id := range uint64(3) { // both predict what comes, of one all takes ten times as long
		var made [2]*kvsteer.Decision
		for i, ttft := range []time.Duration{time.Second, 10 * time.Second} {
			made[i] = &kvsteer.Decision{ID: id + 1, Attempt: 1, Candidates: make([]kvsteer.DecisionCandidate, 1)}
			made[i].Candidates[0].PredictedTTFT = ttft
			both[i].OnDecision(made[i])
			require.NoError(t, both[i].Flush(t.Context()))
		}
		for i, d := range made {
			both[i].OnOutcome(&kvsteer.Outcome{Decision: d, TTFT: d.Candidates[0].PredictedTTFT})
			require.NoError(t, both[i].Flush(t.Context()))
		}
	}
	for _, rec := range both {
		require.NoError(t, rec.Close())
	}
	code, out, errs := eval("-json", "-warmup", "0", file)
	require.Equal(t, exitOK, code, errs)
	var got []evalReport
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, 6, got[0].Used)
	require.Zero(t, got[0].MeanAPE)
}
