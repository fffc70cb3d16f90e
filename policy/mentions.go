package policy

import (
	"cmp"
	"slices"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Mentions is everything that the rules of a [Set] tell apart, each once and sorted:
// a request or a candidate that differs from another in nothing of it is decided about
// alike. It is for tests that try all of it; see package policytest.
type Mentions struct {
	// Of requests.
	Models, APIs, Tenants, QoS, Tags, Pools []string
	Headers                                 []HeaderMatch
	Session                                 bool
	PromptTokens                            []float64 // thresholds

	// Of candidates. Names are of workers, providers and whatever stands in an order;
	// Labels are pairs of name and value; Regions are values.
	Names   []string
	Labels  [][2]string
	Regions []string
	Trust   []kvcache.Trust
	// Weighted: requests are split by [Request.Draw].
	Weighted bool
	// Thresholds by which candidates differ, of what a [Filter] and a [Match] name so.
	QueuedPrompts, RunningRequests, KVCacheUsage       []float64
	PredictedTTFT, CachedTokens, Price, RemainingQuota []float64
	// HealthyWorkers are thresholds of how many there are.
	HealthyWorkers []float64
}

// Mentions says what the Set tells apart.
func (s *Set) Mentions() *Mentions {
	m := &Mentions{}
	for _, list := range [][]program{s.enforced, s.shadow} {
		for i := range list {
			m.Pools = append(m.Pools, list[i].pools...)
			for k := range list[i].rules {
				m.rule(&list[i].rules[k])
			}
		}
	}
	for _, names := range []*[]string{&m.Models, &m.APIs, &m.Tenants, &m.QoS, &m.Tags, &m.Pools, &m.Names, &m.Regions} {
		*names = unique(*names)
	}
	for _, numbers := range []*[]float64{
		&m.PromptTokens, &m.QueuedPrompts, &m.RunningRequests, &m.KVCacheUsage, &m.PredictedTTFT, &m.CachedTokens,
		&m.Price, &m.RemainingQuota, &m.HealthyWorkers,
	} {
		*numbers = unique(*numbers)
	}
	m.Trust = unique(m.Trust)
	slices.SortFunc(m.Labels, func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	m.Labels = slices.Compact(m.Labels)
	slices.SortFunc(m.Headers, func(a, b HeaderMatch) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Prefix, b.Prefix))
	})
	m.Headers = slices.CompactFunc(m.Headers, func(a, b HeaderMatch) bool {
		return a.Name == b.Name && a.Value == b.Value && a.Prefix == b.Prefix
	})
	return m
}

func unique[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

func (m *Mentions) rule(r *rule) {
	for i := range r.matches {
		m.match(&r.matches[i])
	}
	for i := range r.consider {
		c := &r.consider[i]
		m.Models = append(m.Models, c.models...)
		m.Names = append(append(m.Names, c.workers...), c.providers...)
		m.labels(c.labels)
	}
	for i := range r.exclude {
		x := &r.exclude[i]
		m.Tags = append(m.Tags, x.when.tags.names...)
		m.Tenants = append(m.Tenants, x.when.tenants...)
		m.QoS = append(m.QoS, x.when.qos...)
		m.headers(x.when.headers)
		m.filter(&x.drop)
	}
	for i := range r.stages {
		s := &r.stages[i]
		m.Names = append(m.Names, s.order...)
		for k := range s.shares {
			m.Weighted = true
			if s.shares[k].model != "" {
				m.Models = append(m.Models, s.shares[k].model)
			}
			if s.shares[k].name != "" {
				m.Names = append(m.Names, s.shares[k].name)
			}
			m.labels(s.shares[k].labels)
		}
	}
}

func (m *Mentions) match(x *match) {
	m.Models = append(m.Models, x.models...)
	m.APIs = append(m.APIs, x.apis...)
	m.Tenants = append(m.Tenants, x.tenants...)
	m.QoS = append(m.QoS, x.qos...)
	m.Tags = append(m.Tags, x.tags.names...)
	m.headers(x.headers)
	m.Session = m.Session || x.session != 0
	x.tokens.into(&m.PromptTokens)
	x.queued.into(&m.QueuedPrompts)
	x.usage.into(&m.KVCacheUsage)
	x.workers.into(&m.HealthyWorkers)
}

func (m *Mentions) filter(f *filter) {
	m.Names = append(m.Names, f.names...)
	m.Regions = append(m.Regions, f.regions...)
	m.labels(f.labels)
	for i := range f.numbers {
		n := &f.numbers[i]
		switch n.of {
		case ofQueued:
			n.within.into(&m.QueuedPrompts)
		case ofRunning:
			n.within.into(&m.RunningRequests)
		case ofUsage:
			n.within.into(&m.KVCacheUsage)
		case ofTTFT:
			n.within.into(&m.PredictedTTFT)
		case ofCached:
			n.within.into(&m.CachedTokens)
		case ofPrice:
			n.within.into(&m.Price)
		case ofQuota:
			n.within.into(&m.RemainingQuota)
		default:
		}
	}
	if f.trust == 0 {
		return
	}
	for t := kvcache.Blind; t <= kvcache.Exact; t++ {
		m.Trust = append(m.Trust, t)
	}
}

func (m *Mentions) labels(list []label) {
	for _, l := range list {
		m.Labels = append(m.Labels, [2]string{l.key, l.value})
	}
}

func (m *Mentions) headers(list []header) {
	for i := range list {
		h := &list[i]
		m.Headers = append(m.Headers, HeaderMatch{Name: h.name, Value: h.value, Prefix: h.prefix})
	}
}

// into adds the thresholds of an interval.
func (r *interval) into(list *[]float64) {
	if r.hasAbove {
		*list = append(*list, r.above)
	}
	if r.hasBelow {
		*list = append(*list, r.below)
	}
}
