package prometheus

import (
	"sync/atomic"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// How requests end.
const (
	endOK = iota
	endCanceled
	endFailed
	endReaped
	numEnds
)

//nolint:gochecknoglobals // a table that nothing changes
var endNames = [numEnds]string{"ok", "canceled", "failed", "reaped"}

// What is known of a prompt's tokens and the engine's cache.
const (
	tokUncached = iota
	tokCached
	tokWritten
	tokUnknown
	numToks
)

//nolint:gochecknoglobals // a table that nothing changes
var tokNames = [numToks]string{"uncached", "cached", "written", "unknown"}

// external stands where trust does for providers, of whose caches nothing is known.
const (
	numTrusts = int(kvcache.Exact) + 1
	external  = numTrusts
)

// modelSet are the series of one model.
type modelSet struct {
	decisions            [numTrusts + 1]prom.Counter
	retries, relayed     prom.Counter
	ends                 [numEnds]prom.Counter
	prompt               [numToks]prom.Counter
	output, reasoning    prom.Counter
	cost, unreported     prom.Counter
	predicted, reported  prom.Counter
	compared             prom.Counter
	ttft, itl, duration  prom.Observer
	promptLen, outputLen prom.Observer
	ratio                prom.Observer
	served               atomic.Bool // by a worker, now or ever
	idle                 int64       // since when nobody serves or uses it, Unix nanoseconds; under the table's lock
}

// modelSeries are those of one model, by the buckets of its time to first token.
func modelSeries(ttft int) int {
	const counters = numTrusts + 1 + numEnds + numToks + 2 + 2 + 2 + 3
	const gauges = 1
	histograms := lines(ttft) + lines(len(itlBuckets)) + lines(len(e2eBuckets)) + lines(len(promptBuckets)) +
		lines(len(outputBuckets)) + lines(len(ratioBuckets))
	return counters + gauges + histograms
}

// lines of a histogram: its buckets, the one without a bound, sum and count.
func lines(buckets int) int { return buckets + 3 }

func (m *Metrics) newModels() {
	native, ended := m.opts.NativeHistograms, m.ended("model")
	decisions := m.counter("kvsteer_decisions_total",
		"Attempts for which a worker was chosen, by the trust in its cache state.", "model", "trust")
	retries := m.counter("kvsteer_retries_total", "Attempts after a request's first.", "model")
	relayed := m.counter("kvsteer_relayed_decisions_total", "Attempts whose prompt is computed by another worker than answers.", "model")
	ends := m.counter("kvsteer_requests_total", "Requests that ended, by how.", "model", "outcome")
	tokens := m.counter("kvsteer_prompt_tokens_total",
		"Prompt tokens that engines reported, by whether they were cached; unknown where the engine does not say.", "model", "cache")
	output := m.counter("kvsteer_output_tokens_total", "Output tokens that engines reported.", "model")
	reasoning := m.counter("kvsteer_reasoning_tokens_total", "Output tokens that were reasoning.", "model")
	cost := m.counter("kvsteer_cost_total", "Cost of requests, in units of the currency.", "model")
	unreported := m.counter("kvsteer_requests_without_usage_total", "Answered requests whose engine reported no usage.", "model")
	predicted := m.counter("kvsteer_cache_predicted_tokens_total",
		"Cached prompt tokens that the router predicted, of requests whose engine reported them.", "model")
	reported := m.counter("kvsteer_cache_reported_tokens_total",
		"Cached prompt tokens that the engine reported, of the same requests.", "model")
	compared := m.counter("kvsteer_cache_compared_tokens_total", "Prompt tokens of the same requests.", "model")
	ttft := m.histogram(native, "kvsteer_ttft_seconds",
		"Time from a request's arrival to its first token, failed attempts before excluded.", m.opts.TTFTBuckets, "model")
	itl := m.histogram(native, "kvsteer_inter_token_seconds", "Mean time between the tokens of an answer.", itlBuckets, "model")
	duration := m.histogram(native, "kvsteer_request_duration_seconds",
		"Time from a request's arrival to the end of its answer, of those answered.", e2eBuckets, "model")
	promptLen := m.histogram(native, "kvsteer_request_prompt_tokens", "Length of prompts.", promptBuckets, "model")
	outputLen := m.histogram(native, "kvsteer_request_output_tokens", "Length of answers.", outputBuckets, "model")
	ratio := m.histogram(native, "kvsteer_ttft_prediction_ratio",
		"Predicted time to first token divided by the observed one, of first attempts.", ratioBuckets, "model")

	m.models = newTable(m.shares.models, func(_, label string) *modelSet {
		s := &modelSet{
			retries: retries.WithLabelValues(label), relayed: relayed.WithLabelValues(label),
			output: output.WithLabelValues(label), reasoning: reasoning.WithLabelValues(label),
			cost: cost.WithLabelValues(label), unreported: unreported.WithLabelValues(label),
			predicted: predicted.WithLabelValues(label), reported: reported.WithLabelValues(label),
			compared: compared.WithLabelValues(label),
			ttft:     ttft.WithLabelValues(label), itl: itl.WithLabelValues(label), duration: duration.WithLabelValues(label),
			promptLen: promptLen.WithLabelValues(label), outputLen: outputLen.WithLabelValues(label),
			ratio: ratio.WithLabelValues(label),
		}
		for t := range numTrusts {
			s.decisions[t] = decisions.WithLabelValues(label, kvcache.Trust(t).String())
		}
		s.decisions[external] = decisions.WithLabelValues(label, "external")
		fill(s.ends[:], ends, label, endNames[:])
		fill(s.prompt[:], tokens, label, tokNames[:])
		return s
	}, ended)
}

// fill makes the counters of a label for each of the values of the next.
func fill(to []prom.Counter, v *prom.CounterVec, label string, values []string) {
	for i := range to {
		to[i] = v.WithLabelValues(label, values[i])
	}
}

// requests are series of requests that belong to nobody in particular.
type requests struct {
	selecting [prompt.NumSources]prom.Observer
	waited    prom.Observer
	rejected  *lazily
	moved     prom.Counter
	reaped    prom.Counter
	mismatch  *lazily
	// targets are by what, met and missed.
	targets [2][2]prom.Counter
}

func (m *Metrics) newRequests() *requests {
	native := m.opts.NativeHistograms
	q := &requests{
		waited: m.histogram(native, "kvsteer_queue_wait_seconds",
			"Time that requests waited in the router's queue, of those that did.", waitBuckets).
			WithLabelValues(),
		rejected: newLazily(m.counter("kvsteer_rejected_requests_total",
			"Requests that were turned down before anybody was asked, or whose client left until then, by the code of the error.", "code")),
		moved: m.counter("kvsteer_moved_requests_total", "Requests that a proxy took to another worker than was chosen.").WithLabelValues(),
		reaped: m.counter("kvsteer_reaped_selections_total",
			"Selections that their owner forgot to end: a bug in the gateway.").WithLabelValues(),
		mismatch: newLazily(m.counter("kvsteer_prompt_mismatches_total",
			"Answered requests whose prompt the engine took for other tokens, by where the router had them from.", "source")),
	}
	for c := kvsteer.CodeBadRequest; c <= kvsteer.CodeUnavailable; c++ {
		q.rejected.of(c.String()) // so that the first of a kind is an increase, too
	}
	selecting := m.histogram(native, "kvsteer_select_seconds",
		"Time that decisions took, waiting for a worker excluded, by where the prompt's tokens came from.", selectBuckets, "source")
	for k := range q.selecting {
		q.selecting[k] = selecting.WithLabelValues(sourceName(k))
	}
	targets := m.counter("kvsteer_target_requests_total",
		"Requests with a target for the time to first token or between tokens, by whether it was met.", "target", "result")
	for i, what := range []string{"ttft", "itl"} {
		for k, how := range []string{"met", "missed"} {
			q.targets[i][k] = targets.WithLabelValues(what, how)
		}
	}
	return q
}

func sourceName(k int) string { return prompt.SourceKind(k).String() }
