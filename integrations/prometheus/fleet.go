package prometheus

import (
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
)

// modelIdle is how long a model that nobody serves keeps its series without a request.
const modelIdle = time.Hour

// fleetReadings are of the fleet and the router as a whole.
type fleetReadings struct {
	workers, ranks, discovery   reading
	inFlight                    reading
	queued, queueLimit, waiting reading
	modelWorkers                reading
}

func (m *Metrics) newFleet() fleetReadings {
	return fleetReadings{
		workers:      m.gauge("kvsteer_workers", "Workers of the fleet, by state.", "state"),
		ranks:        m.gauge("kvsteer_cache_ranks", "Data-parallel ranks of all workers, by the trust in their cache state.", "trust"),
		discovery:    m.gauge("kvsteer_discovery_failing", "1 while a discoverer fails, so that the list of workers may be out of date."),
		inFlight:     m.gauge("kvsteer_in_flight_requests", "Requests that have been sent and have not ended."),
		queued:       m.gauge("kvsteer_queue_requests", "Requests that wait in the router's queue."),
		queueLimit:   m.gauge("kvsteer_queue_limit_requests", "Requests that may wait there, 0 without a queue."),
		waiting:      m.gauge("kvsteer_policy_waiting_requests", "Requests that wait because the policy says so."),
		modelWorkers: m.gauge("kvsteer_model_workers", "Workers that can take requests for the model now.", "model"),
	}
}

// collectRouter shows the router and its fleet, and ends the series of what has left.
func (m *Metrics) collectRouter(r *kvsteer.Router, ch chan<- prom.Metric) {
	stats, snap, now := r.Stats(), r.Fleet().Snapshot(), m.opts.Now()
	m.workers.sweep(func(name string, _ *workerSet, _ bool) bool { return snap.Member(name) != nil })
	m.collectModels(snap, now, ch)

	f := &m.read.fleet
	put(ch, f.inFlight, stats.InFlight)
	put(ch, f.queued, stats.Waiting)
	put(ch, f.queueLimit, stats.MaxWaiting)
	put(ch, f.waiting, stats.Lingering)
	put(ch, f.discovery, yes(r.Fleet().Err() != nil))

	states := map[string]int{draining: 0}
	for s := fleet.StatePending; s <= fleet.StateUnhealthy; s++ {
		states[s.String()] = 0
	}
	for _, w := range snap.Members() {
		states[stateOf(w)]++
	}
	for state, n := range states {
		put(ch, f.workers, n, state)
	}

	caches := make(map[string]*kvsteer.CacheStats, len(stats.Caches))
	var ranks [numTrusts]int
	for i := range stats.Caches {
		c := &stats.Caches[i]
		caches[c.Worker] = c
		for k := range c.Ranks {
			ranks[min(int(c.Ranks[k].Trust), numTrusts-1)]++
		}
	}
	for t, n := range ranks {
		put(ch, f.ranks, n, kvcache.Trust(t).String())
	}

	hidden := int64(0)
	for _, w := range snap.Members() {
		if !m.workers.has(only(w.Name())) {
			hidden++
			continue
		}
		if label, ok := m.workers.label(only(w.Name())); ok {
			m.collectWorker(label, w, caches[w.Name()], now, ch)
		}
	}
	m.read.hidden.workers.Store(hidden)
	m.collectIndex(&stats, ch)
	m.collectReplicas(stats.Replicas, ch)
}

// draining goes before what the fleet thinks of a worker's health.
const draining = "draining"

func stateOf(w *fleet.Member) string {
	if w.Draining() {
		return draining
	}
	return w.Health().State.String()
}

// collectModels says how many workers the models have that workers serve or have served, and forgets those of the past. Adapters
// have series once they are used: there may be many.
func (m *Metrics) collectModels(snap *fleet.Snapshot, now time.Time, ch chan<- prom.Metric) {
	m.models.sweep(func(name string, s *modelSet, used bool) bool {
		here := len(snap.Serving(name)) > 0
		if here {
			s.served.Store(true)
		}
		switch {
		case used || here:
			s.idle = 0
		case s.idle == 0:
			s.idle = now.UnixNano()
		default:
			return now.Sub(time.Unix(0, s.idle)) < modelIdle
		}
		return true
	})
	for _, served := range snap.Models() {
		if k := only(served.Name); served.Parent == "" && m.models.has(k) {
			m.models.get(k).served.Store(true)
		}
	}
	for _, at := range m.models.list() {
		if !at.set.served.Load() {
			continue // only providers have it: it misses no workers
		}
		put(ch, m.read.fleet.modelWorkers, len(snap.ForModel(at.name)), at.label)
	}
}
