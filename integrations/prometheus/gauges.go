package prometheus

import (
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// workerReadings is how many series the metrics below make of one worker at most.
const workerReadings = 10 + numTrusts + 3 + len(eventNames) + len(messageNames) + 8

// gaugesOf are of one worker each.
type gaugesOf struct {
	routable, inFlight, ahead                reading
	running, queued, kv, age                 reading
	trust, indexed, capacity                 reading
	missing, orphans                         reading
	events, messages, gaps, lost             reading
	restarts, disconnects, replays, lastSeen reading
	silent                                   reading
}

func (m *Metrics) newGauges() gaugesOf {
	return gaugesOf{
		routable: m.gauge("kvsteer_worker_routable", "1 if the worker can take requests.", "worker"),
		inFlight: m.gauge("kvsteer_worker_in_flight_requests", "Our requests at the worker, by phase.", "worker", "phase"),
		ahead:    m.gauge("kvsteer_worker_prefill_tokens", "Prompt tokens of our requests that the worker has still to compute.", "worker"),
		running: m.gauge("kvsteer_worker_reported_running_requests",
			"Requests that the worker reports to run, those of others included.", "worker"),
		queued: m.gauge("kvsteer_worker_reported_queued_requests", "Requests that the worker reports to queue.", "worker"),
		kv: m.gauge("kvsteer_worker_kv_cache_usage_ratio",
			"Share of the worker's KV cache that unfinished requests hold, as it reports.", "worker"),
		age: m.gauge("kvsteer_worker_report_age_seconds", "Age of the worker's last report of its load.", "worker"),
		trust: m.gauge("kvsteer_worker_cache_ranks",
			"Data-parallel ranks of the worker, by the trust in their cache state.", "worker", "trust"),
		indexed: m.gauge("kvsteer_worker_cache_indexed_tokens",
			"Tokens in the worker's cache that the router knows of or expects, where the block size is known, by whether they are in GPU memory.",
			"worker", "tier"),
		capacity: m.gauge("kvsteer_worker_cache_capacity_tokens",
			"Tokens that the worker's KV cache in GPU memory holds, as it reports.", "worker"),
		missing: m.gauge("kvsteer_worker_cache_missing_blocks",
			"Blocks that events announced and that the index could not keep.", "worker"),
		orphans: m.gauge("kvsteer_worker_cache_orphan_blocks", "Blocks that wait for their parent.", "worker"),
		events:  m.total("kvsteer_worker_events_total", "KV events of the worker, by what became of them.", "worker", "result"),
		messages: m.total("kvsteer_worker_event_messages_total",
			"Messages of the worker's event stream, by kind; missing ones had not come when a gap was found.", "worker", "kind"),
		gaps:        m.total("kvsteer_worker_event_gaps_total", "Breaks in the numbering of the worker's events.", "worker"),
		lost:        m.total("kvsteer_worker_event_gaps_lost_total", "Breaks that no replay could close.", "worker"),
		restarts:    m.total("kvsteer_worker_event_restarts_total", "Publishers that began anew.", "worker"),
		disconnects: m.total("kvsteer_worker_event_disconnects_total", "Connections to the worker's events that were lost.", "worker"),
		replays: m.total("kvsteer_worker_event_replays_total",
			"Replays that were asked for, by whether they were answered.", "worker", "result"),
		lastSeen: m.gauge("kvsteer_worker_last_event_timestamp_seconds",
			"When the last live message came, in seconds since 1970.", "worker"),
		silent: m.gauge("kvsteer_worker_events_silent",
			"1 while requests complete at the worker and it publishes no KV events, though it is followed.", "worker"),
	}
}

//nolint:gochecknoglobals // a table that nothing changes
var (
	eventNames   = [...]string{"applied", "malformed", "unknown", "foreign"}
	messageNames = [...]string{"live", "replayed", "duplicate", "missing", "undecodable", "conflicting"}
)

// collectWorker shows one worker. c is nil for one that was only just discovered.
func (m *Metrics) collectWorker(label string, w *fleet.Member, c *kvsteer.CacheStats, now time.Time, ch chan<- prom.Metric) {
	g := &m.read.worker
	put(ch, g.routable, yes(w.Routable()), label)
	var flight fleet.InFlight
	for rank := range w.Ranks() {
		f := w.InFlight(rank)
		flight.PrefillRequests += f.PrefillRequests
		flight.DecodeRequests += f.DecodeRequests
		flight.PrefillTokens += f.PrefillTokens
	}
	put(ch, g.inFlight, flight.PrefillRequests, label, "prefill")
	put(ch, g.inFlight, flight.DecodeRequests, label, "decode")
	put(ch, g.ahead, flight.PrefillTokens, label)
	m.collectLoad(label, w, now, ch)
	if c == nil || c.Instance != w.ID() {
		return
	}
	m.collectCache(label, c.Ranks, ch)
	if len(c.Streams) > 0 {
		m.collectStreams(label, c.Streams, ch)
		put(ch, g.silent, yes(c.Silent), label)
	}
}

// collectLoad shows what the engine reports. A report that is out of date says nothing but
// its age.
func (m *Metrics) collectLoad(label string, w *fleet.Member, now time.Time, ch chan<- prom.Metric) {
	g, l := &m.read.worker, w.Load()
	if l == nil {
		return
	}
	put(ch, g.age, max(now.Sub(l.At), 0).Seconds(), label)
	if l.Total.CapacityTokens > 0 {
		put(ch, g.capacity, l.Total.CapacityTokens, label)
	}
	if !w.Pressure(0, now).Fresh {
		return
	}
	if l.Total.Known {
		put(ch, g.running, l.Total.Running, label)
		put(ch, g.queued, l.Total.Waiting, label)
	}
	if l.Total.KVKnown {
		put(ch, g.kv, l.Total.KVUsage, label)
	}
}

func (m *Metrics) collectCache(label string, ranks []kvcache.OwnerStats, ch chan<- prom.Metric) {
	g := &m.read.worker
	var trust [numTrusts]int
	gpu, slower, known, missing, orphans := 0, 0, false, 0, 0
	for i := range ranks {
		r := &ranks[i]
		trust[min(int(r.Trust), numTrusts-1)]++
		gpu += r.GPU * r.BlockSize
		slower += (r.Pairs - r.GPU) * r.BlockSize
		known = known || r.BlockSize > 0
		missing += r.Missing
		orphans += r.Orphans
	}
	for t, n := range trust {
		put(ch, g.trust, n, label, kvcache.Trust(t).String())
	}
	if known {
		put(ch, g.indexed, gpu, label, "gpu")
		put(ch, g.indexed, slower, label, "slower")
	}
	put(ch, g.missing, missing, label)
	put(ch, g.orphans, orphans, label)
}

func (m *Metrics) collectStreams(label string, streams []follow.Stats, ch chan<- prom.Metric) {
	g := &m.read.worker
	var sum follow.Stats
	for i := range streams {
		s := &streams[i]
		sum.Events += s.Events
		sum.Malformed += s.Malformed
		sum.Unknown += s.Unknown
		sum.Foreign += s.Foreign
		sum.Messages += s.Messages
		sum.Replayed += s.Replayed
		sum.Duplicates += s.Duplicates
		sum.Missing += s.Missing
		sum.Undecodable += s.Undecodable
		sum.Conflicts += s.Conflicts
		sum.Gaps += s.Gaps
		sum.Lost += s.Lost
		sum.Restarts += s.Restarts
		sum.Disconnects += s.Disconnects
		sum.Replays += s.Replays
		sum.Unanswered += s.Unanswered
		if s.LastMessage.After(sum.LastMessage) {
			sum.LastMessage = s.LastMessage
		}
	}
	for i, n := range [len(eventNames)]uint64{sum.Events, sum.Malformed, sum.Unknown, sum.Foreign} {
		put(ch, g.events, n, label, eventNames[i])
	}
	counts := [len(messageNames)]uint64{sum.Messages, sum.Replayed, sum.Duplicates, sum.Missing, sum.Undecodable, sum.Conflicts}
	for i, n := range counts {
		put(ch, g.messages, n, label, messageNames[i])
	}
	put(ch, g.gaps, sum.Gaps, label)
	put(ch, g.lost, sum.Lost, label)
	put(ch, g.restarts, sum.Restarts, label)
	put(ch, g.disconnects, sum.Disconnects, label)
	put(ch, g.replays, sum.Replays-min(sum.Unanswered, sum.Replays), label, "answered")
	put(ch, g.replays, sum.Unanswered, label, "unanswered")
	if !sum.LastMessage.IsZero() {
		const milli = 1e3
		put(ch, g.lastSeen, float64(sum.LastMessage.UnixMilli())/milli, label)
	}
}
