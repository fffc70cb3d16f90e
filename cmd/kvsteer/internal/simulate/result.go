package simulate

import (
	"math"
	"slices"
	"time"
)

// Row is what a rule came to. Its JSON form is part of the command's contract.
type Row struct {
	Router  string  `json:"router"`
	Mean    float64 `json:"ttft_mean_s"`
	P50     float64 `json:"ttft_p50_s"`
	P90     float64 `json:"ttft_p90_s"`
	P99     float64 `json:"ttft_p99_s"`
	ITL     float64 `json:"itl_p50_ms"`
	E2E     float64 `json:"e2e_p50_s"`
	HitRate float64 `json:"hit_rate"`
	Goodput float64 `json:"goodput_per_min"`
}

// Result is what a run measured.
type Result struct {
	Row
	// P95 is the 95th percentile of TTFT in seconds.
	P95 float64
	// Requests were measured, Good of them within the objective.
	Requests, Good int
	// Relayed is the share of them that two workers served. Failed is the share of all
	// requests that got no answer, or none to its end, and aren't among them.
	Relayed, Failed float64
	// Pauses are the times between any two tokens of an answer that follow each other:
	// their 99th percentile in milliseconds. ITL is a median of means.
	Pauses float64
	// TTFT of the measured requests, in seconds and ascending.
	TTFT []float64
	// Hits is the hit rate over time, one point per HitStep, a moving average.
	Hits    []float64
	HitStep time.Duration
	// Took is the virtual time until the last request had finished.
	Took time.Duration
	// PredictionError is the median absolute error of predicted TTFT as a share of
	// the actual one, Covered the share of requests within the predicted 90th
	// percentile, for rules that predict; 0 for others.
	PredictionError, Covered float64
}

// sample is one measured request.
type sample struct {
	arrived, ttft, e2e time.Duration
	prompt, hit        int
	itl                float64 // seconds; NaN for an answer of one token
	relayed            bool
}

// recorder collects samples.
type recorder struct {
	from, to    time.Duration
	bounded     bool
	first, last time.Duration
	any         bool
	calls       int // that arrived
	samples     []sample
	failed      int
	// pauses counts the times between tokens: cell n is those of pauseStep^n
	// microseconds.
	pauses [pauseCells]uint64
}

// Cells of a hundredth more each reach from a microsecond to half an hour.
const (
	pauseStep  = 1.01
	pauseCells = 2200
)

func (r *recorder) window(from, to time.Duration, bounded bool) {
	r.from, r.to, r.bounded = from, to, bounded
}

func (r *recorder) arrived(at time.Duration) {
	if !r.any {
		r.any, r.first = true, at
	}
	r.last = at
	r.calls++
}

// measures reports whether a call is one of those that are measured.
func (r *recorder) measures(j *Job) bool {
	return j.Arrived >= r.from && (!r.bounded || j.Arrived < r.to)
}

// token notes the time between a token of an answer and the one before.
func (r *recorder) token(j *Job, pause time.Duration) {
	if !r.measures(j) {
		return
	}
	cell := math.Log(max(float64(pause)/float64(time.Microsecond), 1)) / math.Log(pauseStep)
	r.pauses[min(int(math.Round(cell)), pauseCells-1)]++
}

// tail is the 99th percentile of the times between tokens in milliseconds.
func (r *recorder) tail() float64 {
	const share, milli = 0.99, 1e3
	total, before := uint64(0), uint64(0)
	for _, n := range &r.pauses {
		total += n
	}
	for cell, n := range &r.pauses {
		before += n
		if n > 0 && float64(before) >= share*float64(total) {
			return math.Pow(pauseStep, float64(cell)) / milli
		}
	}
	return 0
}

func (r *recorder) lost(j *Job) {
	if r.measures(j) {
		r.failed++
	}
}

func (r *recorder) finished(j *Job, now time.Duration) {
	if !r.measures(j) {
		return
	}
	s := sample{
		arrived: j.Arrived, ttft: j.first - j.Arrived, e2e: now - j.Arrived,
		prompt: j.Call.Prompt, hit: max(j.computes().req.CachedTokens(), 0), itl: math.NaN(), relayed: j.by != nil,
	}
	if j.Call.Output > 1 {
		s.itl = (now - j.first).Seconds() / float64(j.Call.Output-1)
	}
	r.samples = append(r.samples, s)
}

// The hit rate over time has so many points, each the mean of so many around it.
const hitSteps, smooth = 60, 4

func (r *recorder) result(c *cluster) *Result {
	out := &Result{Requests: len(r.samples), Pauses: r.tail(), Took: c.now}
	if r.failed > 0 {
		out.Failed = float64(r.failed) / float64(r.failed+len(r.samples))
	}
	if len(r.samples) == 0 {
		return out
	}
	from, to := r.from, r.to
	if !r.bounded {
		to = r.last
	}
	from = max(from, r.first)
	span := max(to-from, time.Second)
	out.HitStep = max(span/hitSteps, 1)

	var itl, e2e []float64
	var sum float64
	var prompt, hit, relayed int
	series := make([]struct{ hit, prompt int }, hitSteps+1)
	for i := range r.samples {
		s := &r.samples[i]
		t := s.ttft.Seconds()
		out.TTFT = append(out.TTFT, t)
		sum += t
		e2e = append(e2e, s.e2e.Seconds())
		if !math.IsNaN(s.itl) {
			itl = append(itl, s.itl)
		}
		prompt += s.prompt
		hit += s.hit
		if s.ttft <= c.workload.SLO {
			out.Good++
		}
		if s.relayed {
			relayed++
		}
		b := &series[min(int((s.arrived-from)/out.HitStep), hitSteps)]
		b.hit += s.hit
		b.prompt += s.prompt
	}
	slices.Sort(out.TTFT)
	slices.Sort(itl)
	slices.Sort(e2e)
	const milli = 1e3
	out.Mean = sum / float64(len(out.TTFT))
	out.P50, out.P90 = Quantile(out.TTFT, 0.5), Quantile(out.TTFT, 0.9)
	out.P95, out.P99 = Quantile(out.TTFT, 0.95), Quantile(out.TTFT, 0.99)
	out.ITL, out.E2E = Quantile(itl, 0.5)*milli, Quantile(e2e, 0.5)
	out.Relayed = float64(relayed) / float64(len(r.samples))
	out.HitRate = float64(hit) / float64(prompt)
	out.Goodput = float64(out.Good) / span.Minutes()
	for i := range series {
		hit, prompt := 0, 0
		for _, b := range series[max(i-smooth, 0):min(i+smooth+1, len(series))] {
			hit += b.hit
			prompt += b.prompt
		}
		rate := math.NaN()
		if prompt > 0 {
			rate = float64(hit) / float64(prompt)
		}
		out.Hits = append(out.Hits, rate)
	}
	out.PredictionError, out.Covered = c.predictions()
	return out
}

// predictions returns the median error of predicted times as a share of the actual ones,
// and the share of those within the 90th percentile, of all routers; 0 if too few were
// made.
func (c *cluster) predictions() (median, covered float64) {
	var errors []float64
	within := 0
	for _, r := range c.routers {
		if p, ok := r.rule.(interface {
			predictions() (errors []float64, covered int)
		}); ok {
			e, n := p.predictions()
			errors, within = append(errors, e...), within+n
		}
	}
	if len(errors) == 0 {
		return 0, 0
	}
	slices.Sort(errors)
	return Quantile(errors, 0.5), float64(within) / float64(len(errors))
}

// Quantile of ascending values, by linear interpolation; 0 if there are none.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
