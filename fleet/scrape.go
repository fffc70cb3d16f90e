package fleet

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/fleet/internal/promtext"
)

// maxSeriesGroups bounds the (rank, shard) pairs of one report.
const maxSeriesGroups = 4 * maxDataParallel

// gauge is a number that may not have been reported.
type gauge struct {
	value float64
	known bool
}

func (g *gauge) add(v float64) {
	g.value += v
	g.known = true
}

func (g *gauge) max(o gauge) {
	if o.known && (!g.known || o.value > g.value) {
		*g = o
	}
}

// group gathers the series of one data-parallel rank, or of one tensor- or
// pipeline-parallel shard of it. Series of one group that differ in other labels
// are summed; of the groups of a rank the greatest value holds, for each shard
// reports the whole rank.
type group struct {
	rank  int
	shard string

	running, waiting, usage           gauge
	queries, hits, prompt, generation gauge
	preemptions, requests             gauge
	blockSize, gpuBlocks, capacity    gauge
}

// report gathers what one engine's metrics say.
type report struct {
	engine  Engine // of the metrics' prefix
	groups  []group
	last    int // index of the group of the last line: lines of a group come together
	shared  group
	split   bool // some series name their rank
	started time.Time
	asleep  bool
	loras   loras
	stats   promtext.Stats
}

// parseMetrics reads an engine's metrics. ok is false if text has none that we
// know.
func parseMetrics(text []byte) (*report, bool) {
	r := &report{}
	r.stats = promtext.Scan(text, r.wanted, func(s promtext.Sample) bool {
		r.take(s)
		return true
	})
	return r, r.engine != EngineAuto
}

// Series that need more than their value.
const (
	seriesStarted   = "process_start_time_seconds"
	seriesConfig    = "vllm:cache_config_info"
	seriesConfigSGL = "sglang:cache_config_info"
	seriesSleep     = "vllm:engine_sleep_state"
	seriesLoRA      = "vllm:lora_requests_info"
)

// wanted also notices by whose metrics these are.
func (r *report) wanted(name []byte) bool {
	if r.engine == EngineAuto {
		r.engine = engineByMetric(name)
	}
	switch string(name) {
	case seriesStarted, seriesConfig, seriesConfigSGL, seriesSleep, seriesLoRA:
		return true
	default:
		return fieldOf(name) != nil
	}
}

func (r *report) take(s promtext.Sample) {
	switch string(s.Name()) {
	case seriesStarted:
		if v, ok := s.Value(); ok && v > 0 && v < math.MaxInt32*64 {
			r.started = time.UnixMicro(int64(v * 1e6))
		}
		return
	case seriesConfig, seriesConfigSGL:
		r.takeConfig(s)
		return
	case seriesSleep:
		r.takeSleep(s)
		return
	case seriesLoRA:
		r.loras.take(s)
		return
	}
	field := fieldOf(s.Name())
	if field == nil {
		return
	}
	v, ok := s.Value()
	if !ok || math.IsNaN(v) || v < 0 {
		return
	}
	if g := r.group(s); g != nil {
		field(g).add(v)
	}
}

// fieldOf tells where a series goes, nil for those of no interest.
func fieldOf(name []byte) func(*group) *gauge {
	switch string(name) {
	case "vllm:num_requests_running", "sglang:num_running_reqs":
		return func(g *group) *gauge { return &g.running }
	case "vllm:num_requests_waiting", "sglang:num_queue_reqs":
		return func(g *group) *gauge { return &g.waiting }
	case "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage", "trtllm_kv_cache_utilization":
		return func(g *group) *gauge { return &g.usage }
	case "vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total",
		"vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries":
		return func(g *group) *gauge { return &g.queries }
	case "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total",
		"vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits",
		"sglang:cached_tokens_total", "trtllm_prompt_cached_tokens_total":
		return func(g *group) *gauge { return &g.hits }
	case "vllm:prompt_tokens_total", "sglang:prompt_tokens_total":
		return func(g *group) *gauge { return &g.prompt }
	case "vllm:generation_tokens_total", "sglang:generation_tokens_total":
		return func(g *group) *gauge { return &g.generation }
	case "vllm:num_preemptions_total":
		return func(g *group) *gauge { return &g.preemptions }
	case "vllm:request_success_total", "sglang:num_requests_total", "trtllm_request_success_total":
		return func(g *group) *gauge { return &g.requests }
	default:
		return nil
	}
}

// group finds the group a series belongs to, nil when there are too many.
func (r *report) group(s promtext.Sample) *group {
	rank := 0
	label, ok := s.Label("engine")
	if !ok {
		label, ok = s.Label("dp_rank")
	}
	if ok {
		r.split = true
		// A rank that isn't a number (SGLang prints none for a single one) is rank 0.
		if n, err := strconv.Atoi(label); err == nil && n > 0 {
			rank = n
		}
	}
	tp, _ := s.Label("tp_rank")
	pp, _ := s.Label("pp_rank")
	shard := ""
	if tp != "" || pp != "" {
		shard = tp + "/" + pp
	}
	if r.last < len(r.groups) && r.groups[r.last].rank == rank && r.groups[r.last].shard == shard {
		return &r.groups[r.last]
	}
	for i := range r.groups {
		if r.groups[i].rank == rank && r.groups[i].shard == shard {
			r.last = i
			return &r.groups[i]
		}
	}
	if len(r.groups) >= maxSeriesGroups {
		return nil
	}
	r.last = len(r.groups)
	r.groups = append(r.groups, group{rank: rank, shard: shard})
	return &r.groups[r.last]
}

// takeConfig reads the labels of cache_config_info, any of which may be "None".
func (r *report) takeConfig(s promtext.Sample) {
	g := &r.shared
	if _, ok := s.Label("engine"); ok {
		if g = r.group(s); g == nil {
			return
		}
	}
	read := func(into *gauge, names ...string) {
		for _, name := range names {
			if label, ok := s.Label(name); ok {
				if n, err := strconv.Atoi(label); err == nil && n > 0 {
					into.max(gauge{float64(n), true})
				}
			}
		}
	}
	read(&g.blockSize, "block_size", "page_size")
	read(&g.gpuBlocks, "num_gpu_blocks", "num_pages")
	read(&g.capacity, "kv_cache_size_tokens")
}

// takeSleep reads one state of the engine; those that are in force have 1.
func (r *report) takeSleep(s promtext.Sample) {
	state, ok := s.Label("sleep_state")
	if v, isNumber := s.Value(); ok && isNumber && v == 1 && state != "awake" {
		r.asleep = true
	}
}

// loras are the adapters of the newest lora_requests_info: its value is the time
// it was set at, and older series stay.
type loras struct {
	newest           float64
	running, waiting []string
	limit            int
}

func (l *loras) take(s promtext.Sample) {
	v, ok := s.Value()
	if !ok || v < l.newest {
		return
	}
	l.newest = v
	l.running = splitNames(s, "running_lora_adapters")
	l.waiting = splitNames(s, "waiting_lora_adapters")
	l.limit = 0
	if text, ok := s.Label("max_lora"); ok {
		if n, err := strconv.Atoi(text); err == nil {
			l.limit = max(n, 0)
		}
	}
}

func splitNames(s promtext.Sample, label string) []string {
	text, _ := s.Label(label)
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" && len(names) < maxModels {
			names = append(names, name)
		}
	}
	return names
}

// load makes a Load of the report for a worker of so many ranks.
func (r *report) load(ranks int, at time.Time) *Load {
	l := &Load{
		At: at, Sleeping: r.asleep, Started: r.started, Malformed: r.stats.Malformed,
		RunningAdapters: r.loras.running, WaitingAdapters: r.loras.waiting, MaxAdapters: r.loras.limit,
	}
	l.unsplit = ranks > 1 && !r.split
	merged := mergeShards(r.groups)
	if len(merged) == 0 {
		merged = []group{{}}
	}
	// Labels are local ranks if they fit; over several nodes they are global, and
	// only their order tells.
	size := max(ranks, len(merged))
	local := merged[len(merged)-1].rank < size
	l.Ranks = make([]RankLoad, size)
	for i := range l.Ranks {
		l.Ranks[i].Label = i
	}
	for i := range merged {
		g := &merged[i]
		place := i
		if local {
			place = g.rank
		}
		g.blockSize.max(r.shared.blockSize)
		g.gpuBlocks.max(r.shared.gpuBlocks)
		g.capacity.max(r.shared.capacity)
		l.Ranks[place] = g.rankLoad()
	}
	l.sum()
	return l
}

// mergeShards leaves one group for each rank, by rank.
func mergeShards(groups []group) []group {
	byRank := slices.Clone(groups)
	slices.SortStableFunc(byRank, func(a, b group) int { return a.rank - b.rank })
	var out []group
	for i := range byRank {
		g := &byRank[i]
		if len(out) == 0 || out[len(out)-1].rank != g.rank {
			out = append(out, *g)
			continue
		}
		into := &out[len(out)-1]
		a, b := into.gauges(), g.gauges()
		for j := range a {
			a[j].max(*b[j])
		}
	}
	return out
}

func (g *group) gauges() []*gauge {
	return []*gauge{
		&g.running, &g.waiting, &g.usage, &g.queries, &g.hits, &g.prompt, &g.generation,
		&g.preemptions, &g.requests, &g.blockSize, &g.gpuBlocks, &g.capacity,
	}
}

func (g *group) rankLoad() RankLoad {
	l := RankLoad{
		Label:            g.rank,
		Known:            g.running.known && g.waiting.known,
		Running:          asInt(g.running.value),
		Waiting:          asInt(g.waiting.value),
		KVKnown:          g.usage.known,
		KVUsage:          min(g.usage.value, 1),
		BlockSize:        asInt(g.blockSize.value),
		GPUBlocks:        asInt(g.gpuBlocks.value),
		CapacityTokens:   asInt(g.capacity.value),
		PrefixQueries:    asCount(g.queries.value),
		PrefixHits:       asCount(g.hits.value),
		PromptTokens:     asCount(g.prompt.value),
		GenerationTokens: asCount(g.generation.value),
		Preemptions:      asCount(g.preemptions.value),
		requests:         asCount(g.requests.value),
	}
	if l.CapacityTokens == 0 && l.BlockSize > 0 && l.GPUBlocks <= math.MaxInt32/l.BlockSize {
		l.CapacityTokens = l.BlockSize * l.GPUBlocks
	}
	if !g.queries.known && g.prompt.known && g.hits.known {
		// SGLang counts the prompt and what was found of it, and no queries.
		l.PrefixQueries = l.PromptTokens
	}
	return l
}

// maxReported bounds numbers taken from an engine so that sums can't overflow.
const maxReported = 1 << 53

func asInt(v float64) int {
	const most = 1 << 30 // also fits an int of 32 bits
	return int(min(v, most))
}

func asCount(v float64) uint64 { return uint64(min(v, maxReported)) }
