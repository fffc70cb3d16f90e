package prometheus

import (
	"sync"
	"sync/atomic"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
)

// Metrics are the metrics of one [kvsteer.Router]: a hook for [kvsteer.WithHooks] and a
// [prom.Collector]. Make it with [New]. It is safe for concurrent use, starts no goroutine
// and needs no closing.
//
// A program with several routers makes one for each and tells them apart where it registers
// them, by [prom.WrapRegistererWith].
type Metrics struct {
	opts   Options
	shares shares
	router atomic.Pointer[kvsteer.Router]

	families
	requests  *requests
	models    *table[modelSet]
	workers   *table[workerSet]
	tenants   *table[tenantSet]
	folds     folds // of tenants' labels
	providers *table[providerSet]
	rules     *table[ruleSet]
	shadows   *table[shadowSet]
	limits    *table[limitSet]
	fallbacks *table[fallbackSet]
	trust     *table[trustSet]
	reasons   reasons
	read      readings
}

var (
	_ prom.Collector        = (*Metrics)(nil)
	_ kvsteer.HookDecision  = (*Metrics)(nil)
	_ kvsteer.HookOutcome   = (*Metrics)(nil)
	_ kvsteer.HookRejection = (*Metrics)(nil)
	_ kvsteer.HookTrust     = (*Metrics)(nil)
	_ kvsteer.HookPrompt    = (*Metrics)(nil)
	_ kvsteer.HookReap      = (*Metrics)(nil)
)

// New returns Metrics. The error says which option is wrong.
func New(o Options) (*Metrics, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	m := &Metrics{opts: o, shares: share(&o)}
	m.requests = m.newRequests()
	m.newModels()
	m.newWorkers()
	m.newTenants()
	m.newProviders()
	m.newWords()
	m.read.fleet = m.newFleet()
	m.read.worker = m.newGauges()
	m.read.index = m.newIndex()
	m.read.replicas = m.newReplicas()
	m.read.limits = m.newLimits()
	m.read.store = m.newStore()
	m.read.offers = m.newOffers()
	m.read.limit = m.gauge("kvsteer_metrics_series_limit", "Bound of the number of these series.")
	m.read.folded = m.total("kvsteer_metrics_folded_total",
		"Observations that counted under the label other for want of series, by kind of label.", "kind")
	m.read.without = m.gauge("kvsteer_metrics_unshown",
		"Workers and models of providers of which nothing is shown, for want of series.", "kind")
	return m, nil
}

// Attach says whose metrics they are: give the Router that has the Metrics as a hook. Until
// then only what the hook is told is shown. A later call replaces the Router, for gateways
// that make a new one when their configuration changes; counts go on.
func (m *Metrics) Attach(r *kvsteer.Router) { m.router.Store(r) }

// Describe implements [prom.Collector].
func (m *Metrics) Describe(ch chan<- *prom.Desc) {
	for _, c := range m.vecs {
		c.Describe(ch)
	}
	for _, d := range m.descs {
		ch <- d
	}
}

// Collect implements [prom.Collector]. It reads the router and its fleet, and ends the
// series of what is gone.
func (m *Metrics) Collect(ch chan<- prom.Metric) {
	if r := m.router.Load(); r != nil {
		m.collectRouter(r, ch)
		m.collectProviders(r.Providers(), ch)
	}
	m.collectLimits(ch)
	m.collectStore(ch)
	m.collectSelf(ch)
	for _, c := range m.vecs {
		c.Collect(ch)
	}
}

// readings are the metrics that are read when they are scraped.
type readings struct {
	fleet    fleetReadings
	worker   gaugesOf
	index    indexReadings
	limits   limitReadings
	store    storeReadings
	replicas replicaReadings
	offers   offerReadings

	limit, folded, without reading
	hidden                 struct{ workers, offers atomic.Int64 } // of the last scrape
}

// collectSelf says what is not shown.
func (m *Metrics) collectSelf(ch chan<- prom.Metric) {
	put(ch, m.read.limit, m.opts.MaxSeries)
	put(ch, m.read.folded, m.models.folds.Load(), "model")
	put(ch, m.read.folded, m.workers.folds.Load(), "worker")
	put(ch, m.read.folded, m.tenants.folds.Load(), "tenant")
	put(ch, m.read.folded, m.rules.folds.Load()+m.shadows.folds.Load()+m.limits.folds.Load(), "rule")
	put(ch, m.read.folded, m.providers.folds.Load(), "provider")
	put(ch, m.read.folded, m.fallbacks.folds.Load()+m.trust.folds.Load(), "reason")
	put(ch, m.read.without, m.read.hidden.workers.Load(), "worker")
	put(ch, m.read.without, m.read.hidden.offers.Load(), "provider")
}

// families are all metrics, as they are made.
type families struct {
	vecs    []prom.Collector
	descs   []*prom.Desc
	catalog []family
	byLabel map[string][]partial
}

// family is one metric, for the test that compares it with its documentation.
type family struct {
	name, kind, help string
	labels           []string
}

type partial interface {
	DeletePartialMatch(labels prom.Labels) int
}

func (f *families) enter(name, kind, help string, labels []string) {
	f.catalog = append(f.catalog, family{name, kind, help, labels})
}

func (f *families) counter(name, help string, labels ...string) *prom.CounterVec {
	v := prom.NewCounterVec(prom.CounterOpts{Name: name, Help: help}, labels)
	f.enter(name, "counter", help, labels)
	f.keep(v, v, labels)
	return v
}

// histogram makes one; see [Options.NativeHistograms].
func (f *families) histogram(native bool, name, help string, buckets []float64, labels ...string) *prom.HistogramVec {
	o := prom.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	if native {
		const factor, most = 1.1, 160
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber = factor, most
		o.NativeHistogramMinResetDuration = time.Hour
		o.NativeHistogramMaxExemplars = -1
	}
	v := prom.NewHistogramVec(o, labels)
	f.enter(name, "histogram", help, labels)
	f.keep(v, v, labels)
	return v
}

func (f *families) keep(c prom.Collector, p partial, labels []string) {
	f.vecs = append(f.vecs, c)
	if f.byLabel == nil {
		f.byLabel = map[string][]partial{}
	}
	if len(labels) > 0 {
		f.byLabel[labels[0]] = append(f.byLabel[labels[0]], p)
	}
}

// ended removes the series of one value of a label that is the first of its metrics.
func (f *families) ended(label string) func(value string) {
	return func(value string) {
		for _, v := range f.byLabel[label] {
			v.DeletePartialMatch(prom.Labels{label: value})
		}
	}
}

// reading is a metric that is read when it is scraped.
type reading struct {
	desc *prom.Desc
	kind prom.ValueType
}

func (f *families) gauge(name, help string, labels ...string) reading {
	return f.reading(prom.GaugeValue, "gauge", name, help, labels)
}

// total is a counter that somebody else keeps.
func (f *families) total(name, help string, labels ...string) reading {
	return f.reading(prom.CounterValue, "counter", name, help, labels)
}

func (f *families) reading(kind prom.ValueType, word, name, help string, labels []string) reading {
	d := prom.NewDesc(name, help, labels, nil)
	f.descs = append(f.descs, d)
	f.enter(name, word, help, labels)
	return reading{desc: d, kind: kind}
}

// number is what metrics are made of here.
type number interface {
	~int | ~int32 | ~int64 | ~uint64 | ~float64
}

func put[N number](ch chan<- prom.Metric, r reading, n N, labels ...string) {
	ch <- prom.MustNewConstMetric(r.desc, r.kind, float64(n), labels...)
}

// lazily keeps counters that are made when they are first needed, few of them.
type lazily struct {
	vec *prom.CounterVec
	mu  sync.RWMutex
	got map[string]prom.Counter
}

func newLazily(v *prom.CounterVec) *lazily { return &lazily{vec: v, got: map[string]prom.Counter{}} }

// of returns the counter of a value, of which the caller sees to it that there are few.
func (l *lazily) of(value string) prom.Counter {
	l.mu.RLock()
	c := l.got[value]
	l.mu.RUnlock()
	if c != nil {
		return c
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c = l.got[value]; c == nil {
		c = l.vec.WithLabelValues(value)
		l.got[value] = c
	}
	return c
}
