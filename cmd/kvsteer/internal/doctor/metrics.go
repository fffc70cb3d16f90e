package doctor

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kvsteer/kvsteer/fleet"
)

// series is one line of an engine's metrics.
type series struct {
	name, labels string
	value        float64
}

// metricsPage is an engine's metrics.
type metricsPage struct {
	path   string
	series []series
}

// need is a number that the router reads: one of names, for what.
type need struct {
	what  string
	names []string
}

// needs are what the router reads of an engine's metrics.
func needs(e fleet.Engine) []need {
	switch e {
	case fleet.EngineVLLM:
		return []need{
			{"requests in the batch", []string{"vllm:num_requests_running"}},
			{"requests in the queue", []string{"vllm:num_requests_waiting"}},
			{"use of the KV cache", []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}},
			{"block size and capacity", []string{"vllm:cache_config_info"}},
			{"prompt tokens", []string{"vllm:prompt_tokens_total"}},
			{"generated tokens", []string{"vllm:generation_tokens_total"}},
			{"requests served", []string{"vllm:request_success_total"}},
			{"prefix cache queries", []string{
				"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total",
				"vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries",
			}},
			{"prefix cache hits", []string{
				"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total",
				"vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits",
			}},
			{"preemptions", []string{"vllm:num_preemptions_total"}},
		}
	case fleet.EngineSGLang:
		return []need{
			{"requests in the batch", []string{"sglang:num_running_reqs"}},
			{"requests in the queue", []string{"sglang:num_queue_reqs"}},
			{"use of the KV cache", []string{"sglang:token_usage"}},
			{"prompt tokens", []string{"sglang:prompt_tokens_total"}},
			{"generated tokens", []string{"sglang:generation_tokens_total"}},
		}
	case fleet.EngineTRTLLM:
		return []need{
			{"use of the KV cache", []string{"trtllm_kv_cache_utilization"}},
			{"requests served", []string{"trtllm_request_success_total"}},
			{"prefix cache hits", []string{"trtllm_prompt_cached_tokens_total"}},
		}
	case fleet.EngineAuto, fleet.EngineOther:
		return nil
	default:
		return nil
	}
}

// work is the series that grows with every request.
func work(e fleet.Engine) string {
	switch e {
	case fleet.EngineVLLM:
		return "vllm:prompt_tokens_total"
	case fleet.EngineSGLang:
		return "sglang:prompt_tokens_total"
	case fleet.EngineTRTLLM:
		return "trtllm_request_success_total"
	case fleet.EngineAuto, fleet.EngineOther:
		return ""
	default:
		return ""
	}
}

// readMetrics asks for the metrics page.
func (p *patient) readMetrics(ctx context.Context) (*metricsPage, answer, error) {
	path := "/metrics"
	if p.engine == fleet.EngineTRTLLM {
		path = "/prometheus/metrics" // reading /metrics takes its statistics away from others
	}
	a, err := p.ask(ctx, http.MethodGet, path)
	if err != nil || !a.ok() {
		return &metricsPage{path: path}, a, err
	}
	return &metricsPage{path: path, series: parseMetrics(string(a.body))}, a, nil
}

// parseMetrics reads the Prometheus text format as far as it is needed: time stamps
// are not, and no label of an engine has a brace in it.
func parseMetrics(text string) []series {
	var all []series
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		labels := ""
		if open := strings.IndexByte(line, '{'); open >= 0 {
			end := strings.LastIndexByte(line, '}')
			if end < open {
				continue
			}
			name, labels, rest = line[:open], line[open+1:end], line[end+1:]
		}
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		if value, err := strconv.ParseFloat(fields[0], 64); err == nil {
			all = append(all, series{name: name, labels: labels, value: value})
		}
	}
	return all
}

// named are the series of a name.
func (m *metricsPage) named(name string) []series {
	var some []series
	for _, s := range m.series {
		if s.name == name {
			some = append(some, s)
		}
	}
	return some
}

// sum adds up the series of a name.
func (m *metricsPage) sum(name string) float64 {
	total := 0.0
	for _, s := range m.named(name) {
		total += s.value
	}
	return total
}

var rankLabel = regexp.MustCompile(`(?:^|,)(?:engine|dp_rank)="(\d+)"`)

// ranks counts the data-parallel ranks that the metrics tell apart, 0 if they tell
// none.
func (m *metricsPage) ranks() int {
	seen := map[string]bool{}
	for _, s := range m.series {
		if found := rankLabel.FindStringSubmatch(s.labels); found != nil {
			seen[found[1]] = true
		}
	}
	return len(seen)
}

// checkMetrics: are there metrics, and all that the router reads of them?
func checkMetrics(ctx context.Context, p *patient) findings {
	wanted := needs(p.engine)
	if wanted == nil {
		return skipped("of this kind of engine none are read")
	}
	page, a, err := p.readMetrics(ctx)
	const consequence = "only this router's own requests are known as its load"
	switch {
	case err != nil:
		return fault("%s: %v: %s", page.path, err, consequence).advise("Look into the engine's log.")
	case a.refused():
		return fault("%s answers with status %d: it wants a key", page.path, a.status).
			advise("Give this command the key with -key FILE, and the router with fleet.Options.Prepare.")
	case !a.ok():
		return fault("%s answers with status %d: %s", page.path, a.status, consequence).advise(metricsAdvice(p.engine))
	}
	var missing []string
	for _, n := range wanted {
		if !slices.ContainsFunc(n.names, func(name string) bool { return len(page.named(name)) > 0 }) {
			missing = append(missing, n.what+" ("+n.names[0]+")")
		}
	}
	facts := Facts{"read": len(wanted), "missing": len(missing)}
	if len(missing) == len(wanted) {
		return fault("%s has none of the engine's metrics: %s", page.path, consequence).
			advise(metricsAdvice(p.engine)).after("engine").with(facts)
	}
	p.metrics = page
	if len(missing) > 0 {
		return warning("missing: %s", strings.Join(missing, ", ")).
			advise("The router does without, and predicts less well. " +
				"A proxy that drops metrics, or a version of the engine with other names?").with(facts)
	}
	return ok("all %d numbers that the router reads%s", len(wanted), p.loadNow()).with(facts)
}

// loadNow describes the load at the moment.
func (p *patient) loadNow() string {
	if p.member == nil || p.member.Load() == nil {
		return ""
	}
	l := p.member.Load().Total
	text := ""
	if l.Known {
		text += fmt.Sprintf("; %d running, %d waiting", l.Running, l.Waiting)
	}
	if l.CapacityTokens > 0 {
		text += fmt.Sprintf("; room for %d tokens a rank", l.CapacityTokens/max(1, len(p.member.Load().Ranks)))
	}
	return text
}

func metricsAdvice(e fleet.Engine) string {
	switch e {
	case fleet.EngineVLLM:
		return "Start vLLM without --disable-log-stats, and let /metrics through to the router."
	case fleet.EngineSGLang:
		return "Start SGLang with --enable-metrics."
	case fleet.EngineTRTLLM:
		return "Set return_perf_metrics: true in the options of trtllm-serve, and let /prometheus/metrics through to the router."
	case fleet.EngineAuto, fleet.EngineOther:
		return ""
	default:
		return ""
	}
}
