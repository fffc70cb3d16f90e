package fleettest

import (
	"fmt"
	"net/http"
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
	name, kind string
	value      func(*gauges) float64
}

func vllmSeries() []series {
	return []series{
		{"vllm:num_requests_running", "gauge", func(g *gauges) float64 { return float64(g.running) }},
		{"vllm:num_requests_waiting", "gauge", func(g *gauges) float64 { return float64(g.waiting) }},
		{"vllm:kv_cache_usage_perc", "gauge", (*gauges).usage},
		{"vllm:prefix_cache_queries_total", "counter", func(g *gauges) float64 { return float64(g.stats.QueriedTokens) }},
		{"vllm:prefix_cache_hits_total", "counter", func(g *gauges) float64 { return float64(g.stats.HitTokens) }},
		{"vllm:num_preemptions_total", "counter", func(g *gauges) float64 { return float64(g.stats.Preempted) }},
		{"vllm:prompt_tokens_total", "counter", func(g *gauges) float64 { return float64(g.stats.QueriedTokens) }},
		{"vllm:generation_tokens_total", "counter", func(g *gauges) float64 { return float64(g.stats.Generated) }},
	}
}

func sglangSeries() []series {
	return []series{
		{"sglang:num_running_reqs", "gauge", func(g *gauges) float64 { return float64(g.running) }},
		{"sglang:num_queue_reqs", "gauge", func(g *gauges) float64 { return float64(g.waiting) }},
		{"sglang:token_usage", "gauge", (*gauges).usage},
		{"sglang:num_used_tokens", "gauge", func(g *gauges) float64 { return float64(g.used * g.config.BlockSize) }},
		{"sglang:cache_hit_rate", "gauge", (*gauges).hitRate},
		{"sglang:prompt_tokens_total", "counter", func(g *gauges) float64 { return float64(g.stats.QueriedTokens) }},
		{"sglang:generation_tokens_total", "counter", func(g *gauges) float64 { return float64(g.stats.Generated) }},
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
	model := escapeLabel(cfg.Model)
	for _, s := range list {
		header(&b, s.name, s.kind)
		for i := range ranks {
			_, _ = fmt.Fprintf(&b, "%s{%s=\"%d\",model_name=\"%s\"} %g\n", s.name, label, i, model, s.value(&ranks[i]))
		}
	}
	if cfg.Dialect == VLLM {
		l.vllmInfo(&b, ranks, model)
	}
	return []byte(b.String())
}

// vllmInfo appends the metrics that have labels of their own.
func (l *life) vllmInfo(b *strings.Builder, ranks []gauges, model string) {
	cfg := &l.engine.cfg
	header(b, "vllm:cache_config_info", "gauge")
	size := l.reportedBlockSize()
	caching := "True"
	if cfg.NoPrefixCache {
		caching = "False"
	}
	for i := range ranks {
		_, _ = fmt.Fprintf(b, "vllm:cache_config_info{block_size=\"%d\",cache_dtype=\"auto\",enable_prefix_caching=\"%s\",engine=\"%d\",num_gpu_blocks=\"%d\"} 1.0\n",
			size, caching, i, ranks[i].config.Blocks)
	}
	header(b, "vllm:engine_sleep_state", "gauge")
	states := map[string]int{"awake": 1, "weights_offloaded": 0, "discard_all": 0}
	if l.sleeping() {
		states["awake"], states["weights_offloaded"] = 0, 1
	}
	for i := range ranks {
		for _, state := range []string{"awake", "weights_offloaded", "discard_all"} {
			_, _ = fmt.Fprintf(b, "vllm:engine_sleep_state{engine=\"%d\",model_name=\"%s\",sleep_state=\"%s\"} %d\n", i, model, state, states[state])
		}
	}
	header(b, "vllm:request_success_total", "counter")
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, reason := range []string{finishStop, finishLength, finishAbort} {
		_, _ = fmt.Fprintf(b, "vllm:request_success_total{engine=\"0\",finished_reason=\"%s\",model_name=\"%s\"} %d\n", reason, model, l.success[reason])
	}
}

func header(b *strings.Builder, name, kind string) {
	_, _ = fmt.Fprintf(b, "# HELP %s Simulated by fleettest.\n# TYPE %s %s\n", name, name, kind)
}

// escapeLabel escapes a label value of the Prometheus text format.
func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}

// Stats is what an engine did in its present life, over all ranks.
type Stats struct {
	// Requests counts API requests since Start, over all lives; InFlight those
	// being handled now, and MaxInFlight the most at any time.
	Requests, InFlight, MaxInFlight int
	// Running and Waiting count requests in the ranks.
	Running, Waiting int
	// PrefillTokens were computed for prompts, GeneratedTokens for answers.
	PrefillTokens, GeneratedTokens uint64
	// QueriedTokens is the total length of the prompts scheduled, HitTokens the part
	// that was cached.
	QueriedTokens, HitTokens uint64
	// CachedBlocks is the number of distinct blocks in the caches, UsedBlocks the
	// number that requests hold.
	CachedBlocks, UsedBlocks int
	// Preempted counts how often a request lost its blocks to another.
	Preempted uint64
}

// HitRate is the share of prompt tokens that were cached, 0..1.
func (s *Stats) HitRate() float64 {
	if s.QueriedTokens == 0 {
		return 0
	}
	return float64(s.HitTokens) / float64(s.QueriedTokens)
}

// Stats returns the counters. While a step's duration passes they are those of
// its end.
func (e *Engine) Stats() Stats {
	e.rec.mu.Lock()
	s := Stats{Requests: e.rec.total, InFlight: e.rec.inFlight, MaxInFlight: e.rec.most}
	e.rec.mu.Unlock()
	l := e.current()
	if l == nil {
		return s
	}
	for _, r := range l.ranks {
		g := r.gauges()
		s.Running += g.running
		s.Waiting += g.waiting
		s.UsedBlocks += g.used
		s.PrefillTokens += g.stats.PrefillTokens
		s.GeneratedTokens += g.stats.Generated
		s.QueriedTokens += g.stats.QueriedTokens
		s.HitTokens += g.stats.HitTokens
		s.Preempted += g.stats.Preempted
		s.CachedBlocks += r.cached()
	}
	return s
}

// Requests returns the latest API requests, oldest first. Headers and bodies must
// not be changed.
func (e *Engine) Requests() []Request { return e.rec.list() }

func (r *rank) cached() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sim.CachedBlocks()
}

// CachedHashes returns the hashes of a rank's cached blocks as its events name
// them, in no order; nil while the engine is dead.
func (e *Engine) CachedHashes(rank int) []uint64 {
	l := e.current()
	if l == nil || rank < 0 || rank >= len(l.ranks) {
		return nil
	}
	r := l.ranks[rank]
	r.mu.Lock()
	defer r.mu.Unlock()
	hashes := make([]uint64, 0, r.sim.CachedBlocks())
	r.sim.Cached(func(hash uint64, _ int) bool {
		hashes = append(hashes, hash)
		return true
	})
	return hashes
}
