package prometheus

import (
	"strings"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kvsteer/kvsteer"
)

// tenantSet are the series of one value of the tenant label.
type tenantSet struct {
	ends     [numEnds]prom.Counter
	prompt   [numToks]prom.Counter
	output   prom.Counter
	cost     prom.Counter
	rejected prom.Counter
}

const tenantSeries = numEnds + numToks + 3

func (m *Metrics) newTenants() {
	ends := m.counter("kvsteer_tenant_requests_total", "Requests of the tenant that ended, by how.", "tenant", "outcome")
	tokens := m.counter("kvsteer_tenant_prompt_tokens_total", "Prompt tokens of the tenant, by whether they were cached.", "tenant", "cache")
	output := m.counter("kvsteer_tenant_output_tokens_total", "Output tokens of the tenant.", "tenant")
	cost := m.counter("kvsteer_tenant_cost_total", "Cost of the tenant's requests, in units of the currency.", "tenant")
	rejected := m.counter("kvsteer_tenant_rejected_requests_total",
		"Requests of the tenant that were turned down before anybody was asked.", "tenant")
	m.tenants = newTable(m.shares.tenants, func(_, label string) *tenantSet {
		t := &tenantSet{
			output: output.WithLabelValues(label), cost: cost.WithLabelValues(label), rejected: rejected.WithLabelValues(label),
		}
		fill(t.ends[:], ends, label, endNames[:])
		fill(t.prompt[:], tokens, label, tokNames[:])
		return t
	}, m.ended("tenant"))
	m.tenants.ours = false // the label policy calls the rest the same
}

// tenantEnded counts the end of a request of a tenant's label or, if that has been folded
// since the request came, of the others.
func (m *Metrics) tenantEnded(label string, o *kvsteer.Outcome, end int) {
	if !m.ofTenant(label, func(t *tenantSet) { t.outcome(o, end) }) {
		m.tenants.fold().outcome(o, end)
	}
}

// tenantRefused does so for a request that was turned down.
func (m *Metrics) tenantRefused(f *kvsteer.Refusal) {
	m.tenantCame(f.TenantLabel, f.Took)
	if !m.ofTenant(f.TenantLabel, func(t *tenantSet) { t.rejected.Inc() }) {
		m.tenants.fold().rejected.Inc()
	}
}

// ofTenant has the series of a label counted in, and reports whether there are any.
func (m *Metrics) ofTenant(label string, count func(t *tenantSet)) bool {
	t := m.tenants
	t.mu.RLock() // nobody folds the label meanwhile
	defer t.mu.RUnlock()
	e := t.sets[only(label)]
	if e == nil {
		return false
	}
	count(e.set)
	return true
}

// tenantCame makes the series of a label that a request got so long ago, unless the label
// has been folded since: nobody would end them again.
func (m *Metrics) tenantCame(label string, ago time.Duration) {
	t, k := m.tenants, only(label)
	if t.find(k) != nil {
		return
	}
	came := m.opts.Now().Add(-ago)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !came.Before(m.folds.last(label)) {
		t.add(k)
	}
}

// maxFolds is of how many labels it is kept when they were folded.
const maxFolds = 1024

// folds says when labels were folded, under the lock of the tenants' table. The zero value
// is ready.
type folds struct {
	at map[string]time.Time
	// before is when the last of those was folded that are forgotten.
	before time.Time
}

// last is when a label was folded at the latest, or may have been.
func (f *folds) last(label string) time.Time {
	if at, ok := f.at[label]; ok {
		return at
	}
	return f.before
}

func (f *folds) add(label string, now time.Time) {
	if len(f.at) >= maxFolds {
		f.at, f.before = nil, now
	}
	if f.at == nil {
		f.at = map[string]time.Time{}
	}
	f.at[strings.Clone(label)] = now
}

func (t *tenantSet) outcome(o *kvsteer.Outcome, end int) {
	t.ends[end].Inc()
	t.cost.Add(units(o.Cost))
	if o.Usage.Known {
		countPrompt(&t.prompt, &o.Usage)
		add(t.output, o.Usage.Output)
	}
}

// FoldTenant adds what a tenant's label has counted to "other" and ends its series: give it
// as the OnFold of the labels.Options that Decision.TenantLabel comes from, so that labels
// that the policy takes away make room for those that it gives.
func (m *Metrics) FoldTenant(label string) {
	m.tenants.mu.Lock()
	m.folds.add(label, m.opts.Now())
	t := m.tenants.remove(only(label))
	m.tenants.mu.Unlock()
	if t == nil {
		return
	}
	to := m.tenants.fold()
	into := to.all()
	for i, c := range t.all() {
		into[i].Add(value(c))
	}
}

func (t *tenantSet) all() []prom.Counter {
	list := append([]prom.Counter{t.output, t.cost, t.rejected}, t.ends[:]...)
	return append(list, t.prompt[:]...)
}

// value reads a counter.
func value(c prom.Counter) float64 {
	var d dto.Metric
	if err := c.Write(&d); err != nil {
		return 0
	}
	return d.GetCounter().GetValue()
}
