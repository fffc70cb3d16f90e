package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"github.com/kvsteer/kvsteer"
)

const evalUsage = `usage: kvsteer predictor-eval [-json] [-warmup N] [-cached=auto|true|false] FILE...

Replays recorded requests through a new predictor for every file, in the order
of the file: each is predicted first and observed then. "-" reads standard input.
A line is a JSON object:

  input_token_length         tokens of the prompt
  prefill_tokens_in_flight   tokens ahead of it that have no first token yet
  num_request_running        requests in flight, waiting ones included
  num_request_waiting        those that wait, out of num_request_running
  kv_cache_percentage        share of KV memory in use, 0 to 1
  prefix_cache_score         share of the prompt found cached, 0 to 1 (see -cached)
  actual_ttft_ms             measured; 0: the line carries no TTFT
  actual_tpot_ms             measured time between tokens; 0: none
  model, class, worker       whose behaviour this is; may be absent

A decision log (package record; examples/nethttp -record) is taken as it was: what the
router predicted against what it measured. First attempts that stream count; -warmup
is how many of them come before.
`

// maxLine bounds a line of a recording.
const maxLine = 1 << 20

// recorded is one line of a recording.
type recorded struct {
	Model  string `json:"model"`
	Class  string `json:"class"`
	Worker string `json:"worker"`
	// Counts are numbers of any form: recorders that keep rows as floats write 48.0.
	Input   *float64 `json:"input_token_length"`
	Ahead   float64  `json:"prefill_tokens_in_flight"`
	Running float64  `json:"num_request_running"`
	Waiting float64  `json:"num_request_waiting"`
	KV      float64  `json:"kv_cache_percentage"`
	Prefix  float64  `json:"prefix_cache_score"`
	TTFT    float64  `json:"actual_ttft_ms"`
	TPOT    float64  `json:"actual_tpot_ms"`
}

func (r *recorded) check() error {
	const most = 1 << 30
	switch {
	case r.Input == nil:
		return errors.New("no input_token_length")
	case *r.Input < 0 || *r.Input > most:
		return fmt.Errorf("input_token_length %g is out of range", *r.Input)
	case r.Ahead < 0 || r.Ahead > most:
		return fmt.Errorf("prefill_tokens_in_flight %g is out of range", r.Ahead)
	case r.Running < 0 || r.Running > most:
		return fmt.Errorf("num_request_running %g is out of range", r.Running)
	case r.Waiting < 0 || r.Waiting > most:
		return fmt.Errorf("num_request_waiting %g is out of range", r.Waiting)
	case r.KV < 0 || r.KV > 1:
		return fmt.Errorf("kv_cache_percentage %g is not between 0 and 1 (divide percents by 100)", r.KV)
	case r.Prefix < 0 || r.Prefix > 1:
		return fmt.Errorf("prefix_cache_score %g is not between 0 and 1", r.Prefix)
	case r.TTFT < 0 || r.TTFT > most:
		return fmt.Errorf("actual_ttft_ms %g is out of range", r.TTFT)
	case r.TPOT < 0 || r.TPOT > most:
		return fmt.Errorf("actual_tpot_ms %g is out of range", r.TPOT)
	default:
		return nil
	}
}

func (r *recorded) features(cached bool) kvsteer.Features {
	// Both counts are read one after the other while the engine goes on.
	waiting := min(r.Waiting, r.Running)
	f := kvsteer.Features{
		Model: r.Model, Class: r.Class, Worker: r.Worker, Uncached: int(*r.Input),
		AheadTokens: int(r.Ahead), Decoding: int(r.Running - waiting), KVUsage: r.KV,
	}
	if r.Ahead == 0 {
		f.Waiting = int(waiting)
	}
	if cached {
		f.Cached = int(r.Prefix * *r.Input)
		f.Uncached -= f.Cached
	}
	return f
}

// predictorEval replays recorded requests through the predictor.
func predictorEval(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("predictor-eval", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, evalUsage, "\nflags:\n")
		flags.PrintDefaults()
	}
	asJSON := flags.Bool("json", false, "print one JSON array instead of tables")
	warmup := flags.Int("warmup", 200, "how many lines with a TTFT to learn from before counting")
	cached := cachedAuto
	flags.Var(&cached, "cached", "whether prefix_cache_score stands for tokens that need no computing: it is the recorder's guess, "+
		"and means nothing where engines have prefix caching off; auto: whichever has been nearer so far, by the rows before")
	if code, ok := parse(flags, args, stderr); !ok {
		return code
	}
	if flags.NArg() == 0 || *warmup < 0 {
		flags.Usage()
		return exitUsage
	}
	reports := make([]*evalReport, 0, flags.NArg())
	for _, name := range flags.Args() {
		rep, err := evalFile(ctx, name, *warmup, cached)
		if err != nil {
			fmt.Fprintf(stderr, "kvsteer predictor-eval: %v\n", err)
			return exitFailed
		}
		reports = append(reports, rep)
	}
	if err := printEval(stdout, reports, *asJSON); err != nil {
		fmt.Fprintf(stderr, "kvsteer predictor-eval: %v\n", err)
		return exitFailed
	}
	return exitOK
}

func evalFile(ctx context.Context, name string, warmup int, cached cachedMode) (*evalReport, error) {
	if name == "-" {
		return evaluate(ctx, "standard input", os.Stdin, warmup, cached)
	}
	f, err := os.Open(name) //nolint:gosec // the user's own file, named on the command line
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return evaluate(ctx, name, f, warmup, cached)
}

func evaluate(ctx context.Context, name string, r io.Reader, warmup int, cached cachedMode) (*evalReport, error) {
	rep := &evalReport{File: name, Warmup: warmup}
	e := evaluation{report: rep, readings: cached.readings()}
	in := bufio.NewReader(r)
	if isLog(in) {
		return evaluateLog(ctx, name, in, rep)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		var rec recorded
		if err := json.Unmarshal(line, &rec); err != nil {
			return nil, fmt.Errorf("%s:%d: not a recorded request: %w", name, number, err)
		}
		rep.Lines++
		if err := rec.check(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, number, err)
		}
		e.replay(&rec)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, number+1, err)
	}
	return e.done(name)
}

// done works out the figures, if there are any.
func (e *evaluation) done(name string) (*evalReport, error) {
	rep := e.report
	if len(e.ttft.rows) == 0 {
		return nil, fmt.Errorf("%s: %d of %d lines carry a TTFT, and the first %d are only learned from",
			name, rep.WithTTFT, rep.Lines, rep.Warmup)
	}
	rep.fill(&e.ttft, &e.itl)
	return rep, nil
}

// evaluation is one file's predictions as they come.
type evaluation struct {
	report    *evalReport
	readings  []*reading
	ttft, itl sample
}

// replay predicts a request by those before it, then learns from it.
func (e *evaluation) replay(rec *recorded) {
	for _, r := range e.readings {
		r.predict(rec)
	}
	by := e.nearest()
	if rec.TTFT > 0 {
		if e.report.WithTTFT++; e.report.WithTTFT > e.report.Warmup {
			e.ttft.add(rec.TTFT, by.out[0].TTFT, by.out[0].P50, by.out[0].P90)
			if by.cached {
				e.report.CachedRows++
			}
		}
	}
	if rec.TPOT > 0 {
		if e.report.WithITL++; e.report.WithITL > e.report.Warmup {
			e.itl.add(rec.TPOT, by.out[0].ITL, 0, 0)
		}
	}
	for _, r := range e.readings {
		r.observe(rec)
	}
}

// sample gathers pairs of what was measured and what was predicted.
type sample struct{ rows []pair }

// pair is in milliseconds.
type pair struct{ actual, predicted, mid, high float64 }

func (s *sample) add(actualMS float64, predicted, mid, high time.Duration) {
	const ms = float64(time.Millisecond)
	s.rows = append(s.rows, pair{actualMS, float64(predicted) / ms, float64(mid) / ms, float64(high) / ms})
}

func (p *pair) ape() float64 { return math.Abs(p.predicted-p.actual) / p.actual }
