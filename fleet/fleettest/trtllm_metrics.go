package fleettest

import (
	"net/http"
	"strings"
)

// iterations is TensorRT-LLM's /metrics, a list of statistics that is empty unless
// they are turned on.
func (l *life) iterations(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, []object{})
}

// trtllmMetrics appends TensorRT-LLM's metrics, which don't tell ranks apart.
func (l *life) trtllmMetrics(b *strings.Builder, ranks []gauges) {
	cfg := &l.engine.cfg
	pairs := []string{"model_name", cfg.Model, "engine_type", "trtllm"}
	var all gauges
	for i := range ranks {
		g := &ranks[i]
		all.used += g.used
		all.config.Blocks += g.config.Blocks
		all.stats.HitTokens += g.stats.HitTokens
		all.stats.QueriedTokens += g.stats.QueriedTokens
	}
	blocks := func(tokens int) float64 { return float64(tokens / cfg.BlockSize) }
	one := func(name, kind string, value float64) {
		header(b, name, kind)
		sample(b, name, labels(pairs...), value)
	}
	one("trtllm_kv_cache_utilization", gauge, all.usage())
	one("trtllm_kv_cache_hit_rate", gauge, all.hitRate())
	one("trtllm_kv_cache_reused_blocks_total", counter, blocks(int(all.stats.HitTokens)))
	one("trtllm_kv_cache_missed_blocks_total", counter, blocks(int(all.stats.QueriedTokens-all.stats.HitTokens)))
	one("trtllm_prompt_cached_tokens_total", counter, float64(all.stats.HitTokens))
	l.mu.Lock()
	defer l.mu.Unlock()
	const success = "trtllm_request_success_total"
	header(b, success, counter)
	for _, reason := range []string{finishStop, finishLength, finishAbort} {
		sample(b, success, labels(append(pairs, "finished_reason", reason)...), float64(l.success[reason]))
	}
	l.firstToken.write(b, "trtllm_time_to_first_token_seconds", cfg.Model)
}
