package policy

import (
	"maps"
	"math"
	"net/http"
	"slices"
)

// The dimensions of requests, by name; of tags and headers there is one for each name.
const (
	dimModel   = "model"
	dimTenant  = "tenant"
	dimQoS     = "qos"
	dimAPI     = "api"
	dimPool    = "pool"
	dimSession = "session"
	dimTokens  = "promptTokens"
	dimQueued  = "queuedPrompts"
	dimUsage   = "kvCacheUsage"
	dimWorkers = "healthyWorkers"
	dimTag     = "tag "
	dimHeader  = "header "
)

// universe has every property of requests that some policies can tell apart.
type universe struct {
	index map[string]int
	dims  []dimension
	// work counts comparisons.
	work int
}

// dimension is one property. Only one of the three kinds of values is set.
type dimension struct {
	size int
	// texts numbers the names that are mentioned; one more value stands for all others.
	texts map[string]int
	// points are numbers, one in each of the intervals that can be told apart; there may
	// be one more value for a number that nobody knows.
	points []float64
	// headers are kinds of values of a header.
	headers []headerValue
}

// all is the set of all values.
func (u *universe) all(dim int) valueSet {
	b := newValues(u.dims[dim].size)
	for i := range u.dims[dim].size {
		b.add(i)
	}
	return b
}

// mentions collects what policies mention.
type mentions struct {
	texts  map[string]map[string]bool
	bounds map[string][]float64
	tags   map[string]bool
	// values and prefixes are those of headers by name.
	values, prefixes map[string]map[string]bool
}

func newUniverse(specs []*Spec) *universe {
	m := &mentions{
		texts: map[string]map[string]bool{}, bounds: map[string][]float64{}, tags: map[string]bool{},
		values: map[string]map[string]bool{}, prefixes: map[string]map[string]bool{},
	}
	for _, s := range specs {
		m.text(dimPool, s.Pools)
		for i := range s.Rules {
			for j := range s.Rules[i].Matches {
				m.match(&s.Rules[i].Matches[j])
			}
		}
	}
	return m.universe()
}

func (m *mentions) text(dim string, list []string) {
	if m.texts[dim] == nil {
		m.texts[dim] = map[string]bool{}
	}
	for _, s := range list {
		m.texts[dim][s] = true
	}
}

func (m *mentions) bound(dim string, r Range) {
	for _, b := range []*float64{r.GreaterThan, r.LessThan} {
		if b != nil && !math.IsNaN(*b) && !math.IsInf(*b, 0) {
			m.bounds[dim] = append(m.bounds[dim], *b)
		}
	}
}

func (m *mentions) match(x *Match) {
	m.text(dimModel, x.Model)
	m.text(dimTenant, x.Tenant)
	m.text(dimQoS, x.QoS)
	m.text(dimAPI, x.API)
	m.bound(dimTokens, x.PromptTokens)
	m.bound(dimQueued, x.QueuedPrompts)
	m.bound(dimUsage, x.KVCacheUsage)
	m.bound(dimWorkers, x.HealthyWorkers)
	for _, t := range x.Tag {
		m.tags[t] = true
	}
	for i := range x.Header {
		h := &x.Header[i]
		name := http.CanonicalHeaderKey(h.Name)
		if m.values[name] == nil {
			m.values[name], m.prefixes[name] = map[string]bool{}, map[string]bool{"": true}
		}
		if h.Value != "" {
			m.values[name][h.Value] = true
		}
		m.prefixes[name][h.Prefix] = true
	}
}

func (m *mentions) universe() *universe {
	u := &universe{index: map[string]int{}}
	for _, dim := range []string{dimModel, dimTenant, dimQoS, dimAPI, dimPool} {
		texts := make(map[string]int, len(m.texts[dim]))
		for i, s := range slices.Sorted(maps.Keys(m.texts[dim])) {
			texts[s] = i
		}
		u.add(dim, dimension{size: len(texts) + 1, texts: texts})
	}
	const yesAndNo = 2
	u.add(dimSession, dimension{size: yesAndNo})
	for _, dim := range []string{dimTokens, dimQueued, dimUsage, dimWorkers} {
		points := pointsOf(m.bounds[dim], dim != dimUsage)
		d := dimension{size: len(points), points: points}
		switch dim {
		case dimQueued, dimUsage:
			// Without a worker they are infinite.
			d.points = append(d.points, math.Inf(1))
			d.size++
		case dimTokens:
			d.size++ // of a length that is not known no condition holds
		default:
		}
		u.add(dim, d)
	}
	for _, t := range slices.Sorted(maps.Keys(m.tags)) {
		u.add(dimTag+t, dimension{size: int(TagPresent) + 1})
	}
	for _, name := range slices.Sorted(maps.Keys(m.values)) {
		kinds := []headerValue{{absent: true}}
		for _, v := range slices.Sorted(maps.Keys(m.values[name])) {
			kinds = append(kinds, headerValue{text: v})
		}
		for _, p := range slices.Sorted(maps.Keys(m.prefixes[name])) {
			kinds = append(kinds, headerValue{text: p, open: true})
		}
		u.add(dimHeader+name, dimension{size: len(kinds), headers: kinds})
	}
	return u
}

func (u *universe) add(name string, d dimension) {
	u.index[name] = len(u.dims)
	u.dims = append(u.dims, d)
}

// pointsOf returns a number of each interval that the bounds tell apart, the bounds
// themselves among them: conditions are "above" and "below" them. Numbers below 0 are
// left out, of whole numbers also those that aren't, of shares those above 1.
func pointsOf(bounds []float64, whole bool) []float64 {
	points := []float64{0}
	sorted := slices.Compact(slices.Sorted(slices.Values(bounds)))
	for i, b := range sorted {
		if whole {
			points = append(points, math.Ceil(b)-1, math.Floor(b), math.Ceil(b), math.Floor(b)+1)
			continue
		}
		before, after := 0.0, 1.0
		if i > 0 {
			before = sorted[i-1]
		}
		if i+1 < len(sorted) {
			after = sorted[i+1]
		}
		points = append(points, (before+b)/2, b, (b+after)/2) //nolint:mnd // halfway
	}
	slices.Sort(points)
	points = slices.Compact(points)
	return slices.DeleteFunc(points, func(x float64) bool { return x < 0 || !whole && x > 1 })
}
