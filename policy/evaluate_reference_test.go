package policy_test

import (
	"math"
	"net/textproto"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/policy"
)

// reference decides as docs/policy.md says, as plainly as it can be written: straight
// from the specs, without regard for time or memory.
type reference struct {
	specs []*policy.Spec
	req   policy.Request
	cands []policy.Candidate
}

type refPlan struct {
	policy, rule string
	match        int
	order        []int
	stages       []int
	empty        policy.OnEmpty
}

func (r *reference) enforced(mode policy.Mode) []*policy.Spec {
	var list []*policy.Spec
	for _, s := range r.specs {
		if s.Mode == mode && (len(s.Pools) == 0 || slices.Contains(s.Pools, r.req.Pool)) {
			list = append(list, s)
		}
	}
	sort.SliceStable(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Priority != b.Priority {
			return a.Priority > b.Priority
		}
		if a.Namespace != b.Namespace {
			return a.Namespace < b.Namespace
		}
		return a.Name < b.Name
	})
	return list
}

func (r *reference) decide() refPlan {
	for _, s := range r.enforced(policy.Enforce) {
		if p, ok := r.of(s); ok {
			return p
		}
	}
	p := refPlan{rule: policy.NoMatchRule, match: -1}
	var left []int
	for i := range r.cands {
		if r.cands[i].Type == policy.Local && r.cands[i].Model == r.req.Model {
			left = append(left, i)
		}
	}
	p.order = r.sorted(policy.Stage{}, left)
	return p
}

func (r *reference) of(s *policy.Spec) (refPlan, bool) {
	for _, rule := range s.Rules {
		match, ok := r.matches(rule.Matches)
		if !ok {
			continue
		}
		order, stages := r.route(s, &rule.Route)
		if len(order) == 0 && rule.Route.OnEmpty.Action == policy.NextRule {
			continue
		}
		name := s.Name
		if s.Namespace != "" {
			name = s.Namespace + "/" + s.Name
		}
		return refPlan{policy: name, rule: rule.Name, match: match, order: order, stages: stages, empty: rule.Route.OnEmpty}, true
	}
	return refPlan{}, false
}

func (r *reference) matches(list []policy.Match) (int, bool) {
	if len(list) == 0 {
		return -1, true
	}
	for i := range list {
		if r.match(&list[i]) {
			return i, true
		}
	}
	return 0, false
}

func among(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }

func in(r policy.Range, x float64) bool {
	return (r.GreaterThan == nil || x > *r.GreaterThan) && (r.LessThan == nil || x < *r.LessThan)
}

func given(r policy.Range) bool { return r.GreaterThan != nil || r.LessThan != nil }

func (r *reference) tag(list []string, unknown bool) bool {
	if len(list) == 0 {
		return true
	}
	for _, name := range list {
		state := policy.TagUnknown
		for _, t := range r.req.Tags {
			if t.Name == name {
				state = t.State
			}
		}
		if state == policy.TagPresent || state == policy.TagUnknown && unknown {
			return true
		}
	}
	return false
}

func (r *reference) headers(list []policy.HeaderMatch) bool {
	for _, h := range list {
		values := r.req.Header[textproto.CanonicalMIMEHeaderKey(h.Name)]
		if h.Absent {
			if len(values) > 0 {
				return false
			}
			continue
		}
		fits := slices.ContainsFunc(values, func(v string) bool {
			return (h.Value == "" || h.Value == v) && strings.HasPrefix(v, h.Prefix)
		})
		if !fits {
			return false
		}
	}
	return true
}

func (r *reference) match(m *policy.Match) bool {
	least, share, names := math.Inf(1), math.Inf(1), map[string]bool{}
	for _, c := range r.cands {
		if c.Type == policy.Local && (c.Model == r.req.Model || r.req.Alias) {
			least, share = math.Min(least, float64(c.Queued)), math.Min(share, c.KVUsage)
			names[c.Name] = true
		}
	}
	return among(m.Model, r.req.Model) && among(m.Tenant, r.req.Tenant) && among(m.QoS, r.req.QoS) && among(m.API, r.req.API) &&
		r.tag(m.Tag, m.OnUnknown == policy.UnknownPresent) && r.headers(m.Header) &&
		(!given(m.PromptTokens) || r.req.PromptTokens > 0 && in(m.PromptTokens, float64(r.req.PromptTokens))) &&
		(m.Session == nil || *m.Session == r.req.Session) &&
		in(m.QueuedPrompts, least) && in(m.KVCacheUsage, share) && in(m.HealthyWorkers, float64(len(names)))
}

func hasAll(labels, want map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func (r *reference) considered(s *policy.Spec, list []policy.Consider, c *policy.Candidate) bool {
	if len(list) == 0 {
		return c.Model == r.req.Model
	}
	for _, k := range list {
		ok := true
		if len(k.Models) == 0 && len(k.ModelLabels) == 0 {
			ok = c.Model == r.req.Model
		}
		if len(k.Models) > 0 {
			ok = ok && slices.Contains(k.Models, c.Model)
		}
		if len(k.ModelLabels) > 0 {
			ok = ok && slices.ContainsFunc(s.Models, func(m policy.ModelLabels) bool {
				return m.Name == c.Model && hasAll(m.Labels, k.ModelLabels)
			})
		}
		if len(k.Workers) > 0 {
			ok = ok && c.Type == policy.Local && slices.Contains(k.Workers, c.Name)
		}
		if len(k.WorkerLabels) > 0 {
			ok = ok && c.Type == policy.Local && hasAll(c.Labels, k.WorkerLabels)
		}
		if len(k.Providers) > 0 {
			ok = ok && c.Type == policy.Provider && slices.Contains(k.Providers, c.Name)
		}
		if ok {
			return true
		}
	}
	return false
}

func ofKind(k policy.BackendKind, c *policy.Candidate) bool {
	return k == policy.AnyBackend || (k == policy.LocalOnly) == (c.Type == policy.Local)
}

func (r *reference) excluded(list []policy.Exclusion, c *policy.Candidate) bool {
	for _, x := range list {
		held := r.tag(x.If.Tag, x.If.OnUnknown != policy.UnknownAbsent) && among(x.If.Tenant, r.req.Tenant) &&
			among(x.If.QoS, r.req.QoS) && r.headers(x.If.Header)
		d := x.Drop
		region := c.Labels["region"]
		if _, ok := c.Labels["region"]; !ok {
			region = c.Labels["topology.kubernetes.io/region"]
		}
		trust := len(d.Trust) == 0 || slices.ContainsFunc(d.Trust, func(s string) bool { return strings.EqualFold(s, c.Trust.String()) })
		if held && ofKind(d.Type, c) && among(d.Name, c.Name) && hasAll(c.Labels, d.Labels) && among(d.Region, region) && trust &&
			in(d.QueuedPrompts, float64(c.Queued)) && in(d.RunningRequests, float64(c.Running)) && in(d.KVCacheUsage, c.KVUsage) &&
			in(d.PredictedTTFT, c.PredictedTTFT.Seconds()) && in(d.CachedTokens, float64(c.CachedTokens)) &&
			(!given(d.Price) || !c.PriceKnown || in(d.Price, c.Price)) &&
			(!given(d.RemainingQuota) || c.QuotaKnown && in(d.RemainingQuota, c.RemainingQuota)) {
			return true
		}
	}
	return false
}

func (r *reference) route(s *policy.Spec, route *policy.Route) (order, stages []int) {
	var left []int
	for i := range r.cands {
		if c := &r.cands[i]; r.considered(s, route.Consider, c) && !r.excluded(route.Exclude, c) {
			left = append(left, i)
		}
	}
	list := route.Select
	if len(list) == 0 {
		list = []policy.Stage{{}}
	}
	for k, stage := range list {
		var taken []int
		for _, i := range left {
			c := &r.cands[i]
			if !slices.Contains(order, i) && ofKind(stage.Type, c) && among(stage.Order, c.Name) &&
				(len(stage.Weighted) == 0 || shareOf(stage.Weighted, c) >= 0) {
				taken = append(taken, i)
			}
		}
		for _, i := range r.sorted(stage, taken) {
			order = append(order, i)
			if len(list) > 1 {
				stages = append(stages, k)
			}
		}
	}
	return order, stages
}

func shareOf(list []policy.Share, c *policy.Candidate) int {
	return slices.IndexFunc(list, func(s policy.Share) bool {
		return (s.Model == "" || s.Model == c.Model) && (s.Name == "" || s.Name == c.Name) && hasAll(c.Labels, s.Labels)
	})
}

// sorted sorts what a stage took, but for the share that is drawn: which one that may
// be is for another test.
func (r *reference) sorted(stage policy.Stage, taken []int) []int {
	latency := func(c *policy.Candidate) float64 {
		if stage.Minimize == policy.PredictedE2E {
			return known(c.PredictedE2E > 0, float64(c.PredictedE2E))
		}
		return float64(c.PredictedTTFT)
	}
	best := math.Inf(1)
	for _, i := range taken {
		if r.cands[i].Model == r.req.Model {
			best = math.Min(best, latency(&r.cands[i]))
		}
	}
	hasRequested := slices.ContainsFunc(taken, func(i int) bool { return r.cands[i].Model == r.req.Model })
	back := func(c *policy.Candidate) bool {
		m := stage.SwitchOnlyIf
		if m == nil || c.Model == r.req.Model || !hasRequested {
			return false
		}
		t := latency(c)
		return math.IsInf(best, 1) || t > best-float64(m.By) || t > best*(1-m.Percent/100)
	}
	less := func(i, j int) bool {
		a, b := &r.cands[i], &r.cands[j]
		for _, d := range []float64{
			float(back(a)) - float(back(b)),
			float64(slices.Index(stage.Order, a.Name) - slices.Index(stage.Order, b.Name)),
			sign(metric(stage.Minimize, a), metric(stage.Minimize, b)),
			float64(cmpDuration(a.Objective(), b.Objective())),
			float64(a.InFlight - b.InFlight), float64(a.Tie) - float64(b.Tie), float64(i - j),
		} {
			if d != 0 {
				return d < 0
			}
		}
		return false
	}
	sorted := slices.Clone(taken)
	sort.SliceStable(sorted, func(i, j int) bool { return less(sorted[i], sorted[j]) })
	return sorted
}

func cmpDuration(a, b time.Duration) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// sign compares, two infinities as equal.
func sign(a, b float64) float64 {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

func float(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func known(ok bool, x float64) float64 {
	if ok {
		return x
	}
	return math.Inf(1)
}

func metric(m policy.Metric, c *policy.Candidate) float64 {
	switch m {
	case policy.PredictedE2E:
		return known(c.PredictedE2E > 0, float64(c.PredictedE2E))
	case policy.QueuedPrompts:
		return float64(c.Queued)
	case policy.KVCacheUsage:
		return c.KVUsage
	case policy.Cost:
		return known(c.PriceKnown, c.Price)
	case policy.PredictedTTFT:
		return 0
	default:
		return 0
	}
}
