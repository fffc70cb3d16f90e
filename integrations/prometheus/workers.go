package prometheus

import (
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
)

// workerSet are the series of one worker that requests count in.
type workerSet struct {
	decisions            prom.Counter
	ends                 [numEnds]prom.Counter
	compared             prom.Counter
	cached, reported     prom.Counter
	predictedTTFT, first prom.Counter
}

// workerSeries are those of one worker, those of gauges.go included.
const workerSeries = 1 + numEnds + 3 + 2 + workerReadings

func (m *Metrics) newWorkers() {
	decisions := m.counter("kvsteer_worker_decisions_total", "Attempts for which the worker was chosen.", "worker")
	ends := m.counter("kvsteer_worker_requests_total", "Requests that ended at the worker, by how.", "worker", "outcome")
	cached := m.counter("kvsteer_worker_cache_predicted_tokens_total",
		"Cached prompt tokens that the router predicted for the worker, of requests of which it reported them.", "worker")
	reported := m.counter("kvsteer_worker_cache_reported_tokens_total",
		"Cached prompt tokens that the worker reported, of the same requests.", "worker")
	compared := m.counter("kvsteer_worker_cache_compared_tokens_total", "Prompt tokens of the same requests.", "worker")
	predicted := m.counter("kvsteer_worker_ttft_predicted_seconds_total",
		"Predicted times to first token of first attempts, summed up.", "worker")
	first := m.counter("kvsteer_worker_ttft_observed_seconds_total",
		"Observed times to first token of the same attempts, summed up.", "worker")
	m.workers = newTable(m.shares.workers, func(_, label string) *workerSet {
		w := &workerSet{
			decisions: decisions.WithLabelValues(label), compared: compared.WithLabelValues(label),
			cached: cached.WithLabelValues(label), reported: reported.WithLabelValues(label),
			predictedTTFT: predicted.WithLabelValues(label), first: first.WithLabelValues(label),
		}
		fill(w.ends[:], ends, label, endNames[:])
		return w
	}, m.ended("worker"))
}

// worker returns the set of a worker. One that has left gets none anew: its requests end
// later than it, and count with the others.
func (m *Metrics) worker(name string) *workerSet {
	if w := m.workers.find(only(name)); w != nil {
		return w
	}
	if r := m.router.Load(); r != nil && r.Fleet().Snapshot().Member(name) == nil {
		return m.workers.fold()
	}
	return m.workers.get(only(name))
}

func (w *workerSet) outcome(o *kvsteer.Outcome, end int) {
	w.ends[end].Inc()
	if u := &o.Usage; u.Known && u.CachedKnown {
		add(w.cached, o.CachedPredicted)
		add(w.reported, u.CacheRead)
		add(w.compared, u.Prompt())
	}
}

// predicted takes in a prediction and what became of it. A predictor that says "never" is
// not asked how far off that was.
func (w *workerSet) predicted(ttft, observed time.Duration) {
	if ttft > time.Hour {
		return
	}
	w.predictedTTFT.Add(ttft.Seconds())
	w.first.Add(observed.Seconds())
}
