package fleettest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/internal/sim"
)

// metrics writes the Prometheus text of the dialect.
func (l *life) metrics(w http.ResponseWriter, _ *http.Request) {
	v := l.engine.faults.view()
	if v.hideMetric {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	l.mu.Lock()
	text := l.frozen
	l.mu.Unlock()
	if text == nil || !v.freeze {
		text = l.metricsText()
		l.mu.Lock()
		l.frozen = nil
		if v.freeze {
			l.frozen = text
		}
		l.mu.Unlock()
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text)
}

// gauges is what a rank's metrics are made of.
type gauges struct {
	rank, running, waiting, used int
	config                       sim.Config
	stats                        sim.Stats
}

func (r *rank) gauges() gauges {
	r.mu.Lock()
	defer r.mu.Unlock()
	return gauges{
		rank: r.id, running: r.sim.Running(), waiting: r.sim.Waiting(), used: r.sim.UsedBlocks(),
		config: r.sim.Config(), stats: r.sim.Stats(),
	}
}

// usage is the share of the blocks that requests hold.
func (g *gauges) usage() float64 { return float64(g.used) / float64(g.config.Blocks) }

// hitRate is the share of prompt tokens found in the cache so far.
func (g *gauges) hitRate() float64 {
	if g.stats.QueriedTokens == 0 {
		return 0
	}
	return float64(g.stats.HitTokens) / float64(g.stats.QueriedTokens)
}

// series is one metric with a value a rank.
type series struct {
	name  string
	kind  string   // "" for a further series of the metric before
	more  []string // further labels and their values
	value func(*gauges) float64
}

// Kinds of metric.
const (
	gauge   = "gauge"
	counter = "counter"
)

func vllmSeries() []series {
	waiting := func(g *gauges) float64 { return float64(g.waiting) }
	queried := func(g *gauges) float64 { return float64(g.stats.QueriedTokens) }
	hits := func(g *gauges) float64 { return float64(g.stats.HitTokens) }
	missed := func(g *gauges) float64 {
		return float64(g.stats.QueriedTokens - g.stats.HitTokens - g.stats.RemoteTokens)
	}
	missing := func(*gauges) float64 { return 0 }
	remote := func(g *gauges) float64 { return float64(g.stats.RemoteTokens) }
	return []series{
		{"vllm:num_requests_running", gauge, nil, func(g *gauges) float64 { return float64(g.running) }},
		{"vllm:num_requests_waiting", gauge, nil, waiting},
		{"vllm:num_requests_waiting_by_reason", gauge, []string{"reason", "capacity"}, waiting},
		{"vllm:num_requests_waiting_by_reason", "", []string{"reason", "deferred"}, missing},
		{"vllm:kv_cache_usage_perc", gauge, nil, (*gauges).usage},
		{"vllm:prefix_cache_queries_total", counter, nil, queried},
		{"vllm:prefix_cache_hits_total", counter, nil, hits},
		{"vllm:num_preemptions_total", counter, nil, func(g *gauges) float64 { return float64(g.stats.Preempted) }},
		{"vllm:prompt_tokens_total", counter, nil, queried},
		{"vllm:prompt_tokens_by_source_total", counter, []string{"source", "local_compute"}, missed},
		{"vllm:prompt_tokens_by_source_total", "", []string{"source", "local_cache_hit"}, hits},
		{"vllm:prompt_tokens_by_source_total", "", []string{"source", "external_kv_transfer"}, remote},
		{"vllm:prompt_tokens_cached_total", counter, nil, hits},
		{"vllm:generation_tokens_total", counter, nil, func(g *gauges) float64 { return float64(g.stats.Generated) }},
	}
}

func sglangSeries() []series {
	return []series{
		{"sglang:num_running_reqs", gauge, nil, func(g *gauges) float64 { return float64(g.running) }},
		{"sglang:num_queue_reqs", gauge, nil, func(g *gauges) float64 { return float64(g.waiting) }},
		{"sglang:token_usage", gauge, nil, (*gauges).usage},
		{"sglang:num_used_tokens", gauge, nil, func(g *gauges) float64 { return float64(g.used * g.config.BlockSize) }},
		{"sglang:cache_hit_rate", gauge, nil, (*gauges).hitRate},
		{"sglang:prompt_tokens_total", counter, nil, func(g *gauges) float64 { return float64(g.stats.QueriedTokens) }},
		{"sglang:generation_tokens_total", counter, nil, func(g *gauges) float64 { return float64(g.stats.Generated) }},
	}
}

// metricsText returns the whole page.
func (l *life) metricsText() []byte {
	cfg := &l.engine.cfg
	list, label := vllmSeries(), "engine"
	if cfg.Dialect == SGLang {
		list, label = sglangSeries(), "dp_rank"
	}
	ranks := make([]gauges, len(l.ranks))
	for i, r := range l.ranks {
		ranks[i] = r.gauges()
	}
	var b strings.Builder
	if cfg.Dialect == TensorRTLLM {
		l.trtllmMetrics(&b, ranks)
		return []byte(b.String())
	}
	for _, s := range list {
		if s.kind != "" {
			header(&b, s.name, s.kind)
		}
		for i := range ranks {
			pairs := append([]string{label, strconv.Itoa(i), "model_name", cfg.Model}, s.more...)
			sample(&b, s.name, labels(pairs...), s.value(&ranks[i]))
		}
	}
	if cfg.Dialect == VLLM {
		l.vllmInfo(&b, ranks)
	}
	return []byte(b.String())
}

// vllmInfo appends the metrics that have labels of their own.
func (l *life) vllmInfo(b *strings.Builder, ranks []gauges) {
	cfg := &l.engine.cfg
	const config = "vllm:cache_config_info"
	header(b, config, gauge)
	size := l.reportedBlockSize()
	caching := "True"
	if cfg.NoPrefixCache {
		caching = "False"
	}
	for i := range ranks {
		blocks := ranks[i].config.Blocks
		sample(b, config, labels(
			"block_size", strconv.Itoa(size), "cache_dtype", "auto", "enable_prefix_caching", caching, "engine", strconv.Itoa(i),
			"kv_cache_size_tokens", strconv.Itoa(blocks*ranks[i].config.BlockSize), "num_gpu_blocks", strconv.Itoa(blocks)), 1)
	}
	const sleep = "vllm:engine_sleep_state"
	header(b, sleep, gauge)
	states := map[string]float64{"awake": 1}
	if l.sleeping() {
		states = map[string]float64{"weights_offloaded": 1}
	}
	for i := range ranks {
		for _, state := range []string{"awake", "weights_offloaded", "discard_all"} {
			sample(b, sleep, labels("engine", strconv.Itoa(i), "model_name", cfg.Model, "sleep_state", state), states[state])
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	const success = "vllm:request_success_total"
	header(b, success, counter)
	for _, reason := range []string{finishStop, finishLength, finishAbort} {
		sample(b, success, labels("engine", "0", "finished_reason", reason, "model_name", cfg.Model), float64(l.success[reason]))
	}
	l.firstToken.write(b, "vllm:time_to_first_token_seconds", cfg.Model)
}

func header(b *strings.Builder, name, kind string) {
	_, _ = fmt.Fprintf(b, "# HELP %s Simulated by fleettest.\n# TYPE %s %s\n", name, name, kind)
}

// sample appends a value as Python prints it.
func sample(b *strings.Builder, name, labels string, value float64) {
	_, _ = fmt.Fprintf(b, "%s{%s} %s\n", name, labels, float(value))
}

func float(value float64) string {
	text := strconv.FormatFloat(value, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// labels joins names and values in turn.
func labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i] + `="` + escapeLabel(pairs[i+1]) + `"`)
	}
	return b.String()
}

// firstTokenBounds are vLLM's buckets of the time to the first token, in seconds.
func firstTokenBounds() []float64 {
	return []float64{
		0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
}

// histogram counts values below bounds.
type histogram struct {
	bounds []float64
	counts []int // one more than bounds
	sum    float64
	n      int
}

func (h *histogram) observe(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v)
	h.counts[i]++
	h.sum += v
	h.n++
}

// write appends the histogram as that of engine 0.
func (h *histogram) write(b *strings.Builder, name, model string) {
	header(b, name, "histogram")
	total := 0
	for i, n := range h.counts {
		total += n
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = float(h.bounds[i])
		}
		sample(b, name+"_bucket", labels("engine", "0", "le", bound, "model_name", model), float64(total))
	}
	all := labels("engine", "0", "model_name", model)
	sample(b, name+"_count", all, float64(h.n))
	sample(b, name+"_sum", all, h.sum)
}

// escapeLabel escapes a label value of the Prometheus text format.
func escapeLabel(s string) string {
	if !strings.ContainsAny(s, "\\\"\n") {
		return s // a replacer is costly to make, and there are many labels
	}
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}
