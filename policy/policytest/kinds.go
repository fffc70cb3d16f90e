package policytest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/policy"
)

// kinds are the candidates that a policy tells apart, but for their model: the
// simplest first.
type kinds struct {
	list   []kind
	extra  []policy.Candidate
	models map[string][]string // that a request may be sent to, by the request's key
}

type kind struct {
	policy.Candidate

	differs []string
}

type variant struct {
	text  string
	apply func(*policy.Candidate)
}

func newKinds(m *policy.Mentions, extra []policy.Candidate) *kinds {
	k := &kinds{extra: extra, models: make(map[string][]string)}
	worker, provider := unmentioned("worker", m.Names), unmentioned("provider", m.Names)
	k.list = []kind{{Candidate: Worker(worker, "")}, {Candidate: Provider(provider, ""), differs: []string{"a provider"}}}
	for _, axis := range variantsOf(m) {
		var next []kind
		for i := range k.list {
			for _, v := range axis {
				c := k.list[i]
				c.differs = slices.Clone(c.differs)
				if v.apply != nil {
					v.apply(&c.Candidate)
				}
				if v.text != "" {
					c.differs = append(c.differs, v.text)
				}
				next = append(next, c)
			}
		}
		k.list = next
	}
	slices.SortStableFunc(k.list, func(a, b kind) int { return cmp.Compare(len(a.differs), len(b.differs)) })
	return k
}

// variantsOf lists what candidates may differ in, the ordinary first.
func variantsOf(m *policy.Mentions) (axes [][]variant) {
	names := slices.Clone(m.Names)
	for n := range workers(m) - 1 { // they are counted by name
		names = append(names, unmentioned(fmt.Sprintf("worker-%d", n+2), m.Names))
	}
	if len(names) > 0 {
		axis := []variant{{}}
		for _, name := range names {
			axis = append(axis, variant{"named " + name, func(c *policy.Candidate) { c.Name, c.Instance = name, name }})
		}
		axes = append(axes, axis)
	}
	for start := 0; start < len(m.Labels); {
		key := m.Labels[start][0]
		axis := []variant{{}}
		for ; start < len(m.Labels) && m.Labels[start][0] == key; start++ {
			value := m.Labels[start][1]
			axis = append(axis, variant{"labelled " + key + "=" + value, Label(key, value)})
		}
		axes = append(axes, axis)
	}
	if len(m.Regions) > 0 {
		axis := []variant{{}, {"in another region", Label("region", unmentioned("elsewhere", m.Regions))}}
		for _, r := range m.Regions {
			axis = append(axis, variant{"in region " + r, Label("region", r)})
		}
		axes = append(axes, axis)
	}
	if len(m.Trust) > 0 {
		var axis []variant
		for _, t := range slices.Backward(m.Trust) {
			axis = append(axis, variant{"trust " + t.String(), func(c *policy.Candidate) { c.Trust = t }})
		}
		axis[0].text = ""
		axes = append(axes, axis)
	}
	number := func(what string, thresholds []float64, step float64, set func(*policy.Candidate, float64), more ...variant) {
		if len(thresholds) == 0 {
			return
		}
		axis := []variant{{}}
		for _, x := range around(thresholds, step) {
			if x >= 0 {
				axis = append(axis, variant{fmt.Sprintf("%s %v", what, x), func(c *policy.Candidate) { set(c, x) }})
			}
		}
		axes = append(axes, append(axis, more...))
	}
	number("queued", m.QueuedPrompts, 1, func(c *policy.Candidate, x float64) { c.Queued = int(x) })
	number("running", m.RunningRequests, 1, func(c *policy.Candidate, x float64) { c.Running = int(x) })
	number("KV use", m.KVCacheUsage, 0, func(c *policy.Candidate, x float64) { c.KVUsage = x })
	number("cached", m.CachedTokens, 1, func(c *policy.Candidate, x float64) { c.CachedTokens = int(x) })
	number("predicted TTFT", m.PredictedTTFT, 0, func(c *policy.Candidate, x float64) {
		c.PredictedTTFT = time.Duration(x * float64(time.Second))
	})
	// What is not known is a case of its own.
	number("price", m.Price, 0, func(c *policy.Candidate, x float64) { c.Price, c.PriceKnown = x, true },
		variant{"price unknown", func(c *policy.Candidate) { c.Price, c.PriceKnown = 0, false }})
	number("quota left", m.RemainingQuota, 0, func(c *policy.Candidate, x float64) { c.RemainingQuota, c.QuotaKnown = x, true },
		variant{"quota unknown", func(c *policy.Candidate) { c.RemainingQuota, c.QuotaKnown = 0, false }})
	return axes
}

// workers is how many workers it takes to pass every threshold of their number; 1 if
// there is none.
func workers(m *policy.Mentions) int {
	n := 1
	for _, t := range m.HealthyWorkers {
		n = max(n, int(t)+1)
	}
	return n
}

// of are the models that the router would gather candidates of.
func (k *kinds) of(set *policy.Set, a *asked) []string {
	return set.Models(&a.Request, nil)
}

// choices is how many candidates a request may have to choose from.
func (k *kinds) choices(set *policy.Set, a *asked) int {
	return len(k.list)*len(k.of(set, a)) + len(k.extra)
}

func (k *kinds) most(set *policy.Set, requests []asked) (n int) {
	for i := range requests {
		n = max(n, k.choices(set, &requests[i]))
	}
	return n
}

// count is how many evaluations there are; a float, as it may be any number.
func (k *kinds) count(set *policy.Set, requests []asked, most int) (n float64) {
	for i := range requests {
		choices := float64(k.choices(set, &requests[i]))
		sets := 1.0 // of the size: multisets, as two workers may be alike
		n++
		for size := 1; size <= most; size++ {
			sets *= (choices + float64(size-1)) / float64(size)
			n += sets
		}
	}
	return n
}

// each calls f with every set of so many candidates, until it returns false.
func (k *kinds) each(set *policy.Set, a *asked, size int, f func(list []policy.Candidate, differs func() []string) bool) {
	models := k.of(set, a)
	perModel := len(k.list)
	total := perModel*len(models) + len(k.extra)
	at := make([]int, size)
	list := make([]policy.Candidate, size)
	fill := func(i int) {
		n := at[i]
		if n >= perModel*len(models) {
			list[i] = k.extra[n-perModel*len(models)]
			return
		}
		// Kinds outside, models inside: the simplest kinds of all models come first.
		list[i] = k.list[n/len(models)].Candidate
		list[i].Model = models[n%len(models)]
	}
	differs := func() (out []string) {
		for i := range at {
			switch n := at[i]; {
			case n >= perModel*len(models):
				out = append(out, fmt.Sprintf("candidate %d of the Space", n-perModel*len(models)))
			default:
				what := k.list[n/len(models)].differs
				if model := models[n%len(models)]; model != a.Model {
					what = append([]string{"serves " + model}, what...)
				}
				if len(what) > 0 {
					out = append(out, fmt.Sprintf("candidate %s %v", list[i].Name, what))
				}
			}
		}
		return out
	}
	if size > 0 && total == 0 {
		return
	}
	for i := range at {
		fill(i)
	}
	for {
		if !f(list, differs) {
			return
		}
		i := size - 1
		for i >= 0 && at[i] == total-1 {
			i--
		}
		if i < 0 {
			return
		}
		at[i]++
		fill(i)
		for j := i + 1; j < size; j++ {
			at[j] = at[i]
			fill(j)
		}
	}
}
