package prometheus

import (
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// indexReadings are of the index of caches, and of how prompts become token ids.
type indexReadings struct {
	bytes, limit, blocks, residencies reading
	provisional, orphans, short       reading
	changes, ignored                  reading

	encoding                reading
	cached, cachedN, lookup reading
}

//nolint:gochecknoglobals // a table that nothing changes
var (
	changeNames = [...]string{"stored", "removed", "repeated", "orphaned", "adopted", "evicted", "booked", "expired"}
	lookupNames = [...]string{"hit", "miss", "joined"}
)

const indexSeries = 7 + len(changeNames) + kvcache.NumReasons - 1 + 2 + len(lookupNames)

func (m *Metrics) newIndex() indexReadings {
	return indexReadings{
		bytes:       m.gauge("kvsteer_index_bytes", "Memory of the index of cached blocks."),
		limit:       m.gauge("kvsteer_index_limit_bytes", "Bound of that memory."),
		blocks:      m.gauge("kvsteer_index_blocks", "Blocks that some worker holds."),
		residencies: m.gauge("kvsteer_index_residencies", "Pairs of a block and a rank that holds it, booked ones included."),
		provisional: m.gauge("kvsteer_index_provisional_residencies", "Those of them that are booked and not confirmed by an event."),
		orphans:     m.gauge("kvsteer_index_orphan_blocks", "Blocks that wait for their parent."),
		short:       m.gauge("kvsteer_index_short_ranks", "Ranks of which the index knows less than their events said, for want of room."),
		changes:     m.total("kvsteer_index_block_changes_total", "Changes of the index, in blocks of one rank, by kind.", "change"),
		ignored:     m.total("kvsteer_index_ignored_events_total", "Events that were not fully applied, by why.", "reason"),

		encoding: m.reading(prom.UntypedValue, "summary", "kvsteer_prompt_encoding_seconds",
			"Time to get the token ids of prompts, by where they came from.", []string{"source"}),
		cached:  m.gauge("kvsteer_prompt_cache_bytes", "Memory of the cache of encoded prompts."),
		cachedN: m.gauge("kvsteer_prompt_cache_entries", "Prompts in it."),
		lookup: m.total("kvsteer_prompt_cache_lookups_total",
			"Look-ups in it, by result; joined ones waited for another's answer.", "result"),
	}
}

func (m *Metrics) collectIndex(stats *kvsteer.Stats, ch chan<- prom.Metric) {
	g, x := &m.read.index, &stats.Index
	put(ch, g.bytes, x.Bytes)
	put(ch, g.limit, x.Budget)
	put(ch, g.blocks, x.Blocks)
	put(ch, g.residencies, x.Pairs)
	put(ch, g.provisional, x.Provisional)
	put(ch, g.orphans, x.Orphans)
	put(ch, g.short, x.Short)
	changes := [len(changeNames)]uint64{x.Stored, x.Removed, x.Repeated, x.Orphaned, x.Adopted, x.Evicted, x.Booked, x.Expired}
	for i, n := range changes {
		put(ch, g.changes, n, changeNames[i])
	}
	for k, n := range x.Ignored {
		if why := kvcache.Reason(k); why != kvcache.NoReason {
			put(ch, g.ignored, n, why.String())
		}
	}

	p := &stats.Prompts
	for k := range p.Sources {
		s := &p.Sources[k]
		ch <- prom.MustNewConstSummary(g.encoding.desc, s.Served, s.Took.Seconds(), nil, sourceName(k))
	}
	put(ch, g.cached, p.Bytes)
	put(ch, g.cachedN, p.Entries)
	for i, n := range [len(lookupNames)]uint64{p.Hits, p.Misses, p.Joined} {
		put(ch, g.lookup, n, lookupNames[i])
	}
}
