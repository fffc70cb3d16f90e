package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// dice makes random policies and requests from few words, so that they often meet.
type dice struct {
	*rand.Rand
	// shares: stages may be weighted.
	shares bool
}

func (d dice) once(in int) bool { return d.IntN(in) == 0 }

func (d dice) word(words ...string) string { return words[d.IntN(len(words))] }

// some is nothing, one or two of the words.
func (d dice) some(in int, words ...string) []string {
	if !d.once(in) {
		return nil
	}
	list := []string{d.word(words...)}
	if d.once(2) {
		list = append(list, d.word(words...))
	}
	return slices.Compact(list)
}

func (d dice) within(in int, top float64) policy.Range {
	if !d.once(in) {
		return policy.Range{}
	}
	x := float64(d.IntN(8)) / 8 * top
	switch d.IntN(3) {
	case 0:
		return policy.GreaterThan(x)
	case 1:
		return policy.LessThan(x)
	default:
		return policy.Between(x, x+top/2)
	}
}

func (d dice) labelled(in int) map[string]string {
	if !d.once(in) {
		return nil
	}
	return map[string]string{d.word("region", "zone"): d.word("eu", "us")}
}

func (d dice) headers(in int) []policy.HeaderMatch {
	if !d.once(in) {
		return nil
	}
	h := policy.HeaderMatch{Name: d.word("x-team", "X-CLASS")}
	switch d.IntN(4) {
	case 0:
		h.Absent = true
	case 1:
		h.Value = d.word("search", "ads")
	case 2:
		h.Prefix = d.word("sea", "a")
	default:
	}
	return []policy.HeaderMatch{h}
}

var (
	models    = []string{"glm", "qwen", "llama"}
	allTags   = []string{"pii", "low", "code"}
	backends  = []string{"a", "b", "c", "d", "e", "f"}
	trusts    = []string{"exact", "Approximate", "BLIND", "suspect"}
	tenants   = []string{"acme", "globex"}
	classes   = []string{"batch", "interactive"}
	apis      = []string{"chat", "embeddings"}
	poolNames = []string{"red", "blue"}
)

func (d dice) match() policy.Match {
	m := policy.Match{
		Model: d.some(3, models...), Tag: d.some(3, allTags...), Tenant: d.some(5, tenants...), QoS: d.some(5, classes...),
		API: d.some(6, apis...), Header: d.headers(6), PromptTokens: d.within(5, 2000), QueuedPrompts: d.within(6, 8),
		KVCacheUsage: d.within(6, 1), HealthyWorkers: d.within(6, 4), OnUnknown: policy.OnUnknown(d.IntN(3)),
	}
	if d.once(8) {
		yes := d.once(2)
		m.Session = &yes
	}
	return m
}

func (d dice) consider() policy.Consider {
	k := policy.Consider{Models: d.some(2, models...), WorkerLabels: d.labelled(8)}
	if d.once(5) {
		k.ModelLabels = map[string]string{"family": d.word("big", "small")}
		k.Models = nil
	}
	switch d.IntN(4) {
	case 0:
		k.Workers = d.some(1, backends...)
	case 1:
		k.Providers, k.WorkerLabels = d.some(1, backends...), nil
	default:
	}
	return k
}

func (d dice) exclusion(i int) policy.Exclusion {
	return policy.Exclusion{
		Name: fmt.Sprintf("exclusion-%d", i),
		If: policy.Condition{
			Tag: d.some(2, allTags...), Tenant: d.some(6, tenants...), QoS: d.some(6, classes...), Header: d.headers(8),
			OnUnknown: policy.OnUnknown(d.IntN(3)),
		},
		Drop: policy.Filter{
			Type: policy.BackendKind(d.IntN(3)), Name: d.some(3, backends...), Labels: d.labelled(6), Region: d.some(6, "eu", "us"),
			QueuedPrompts: d.within(4, 8), RunningRequests: d.within(8, 8), KVCacheUsage: d.within(5, 1), PredictedTTFT: d.within(6, 1),
			CachedTokens: d.within(8, 1000), Price: d.within(8, 1), RemainingQuota: d.within(8, 1), Trust: d.some(8, trusts...),
		},
	}
}

func (d dice) stage() policy.Stage {
	s := policy.Stage{Type: policy.BackendKind(d.IntN(3)), Minimize: policy.Metric(d.IntN(5))}
	if d.once(3) {
		s.Order = d.some(1, backends...)
	}
	if d.shares && d.once(2) {
		s.Order = nil
		for range 2 + d.IntN(3) {
			s.Weighted = append(s.Weighted, policy.Share{Model: d.word("", "", "glm"), Name: d.word(backends...), Weight: d.IntN(3)})
		}
	}
	if d.once(3) {
		s.SwitchOnlyIf = &policy.Margin{By: time.Duration(d.IntN(200)) * time.Millisecond, Percent: float64(d.IntN(60))}
	}
	return s
}

func (d dice) rule(i int) policy.Rule {
	r := policy.Rule{Name: fmt.Sprintf("rule-%d", i)}
	for range d.IntN(3) {
		r.Matches = append(r.Matches, d.match())
	}
	for range d.IntN(3) {
		r.Route.Consider = append(r.Route.Consider, d.consider())
	}
	for k := range d.IntN(4) {
		r.Route.Exclude = append(r.Route.Exclude, d.exclusion(k))
	}
	for range d.IntN(4) {
		r.Route.Select = append(r.Route.Select, d.stage())
	}
	switch d.IntN(3) {
	case 0:
		r.Route.OnEmpty = policy.OnEmpty{Action: policy.NextRule}
	case 1:
		r.Route.OnEmpty = policy.OnEmpty{Action: policy.Wait, UpTo: time.Second}
	default:
	}
	return r
}

func (d dice) spec(i int) *policy.Spec {
	s := &policy.Spec{
		Namespace: d.word("", "x", "y"), Name: fmt.Sprintf("policy-%d", i), Priority: d.IntN(3), Pools: d.some(4, poolNames...),
		Models: []policy.ModelLabels{
			{Name: "glm", Labels: map[string]string{"family": "big"}},
			{Name: "llama", Labels: map[string]string{"family": "big"}},
			{Name: "qwen", Labels: map[string]string{"family": "small"}},
		},
	}
	if d.once(4) {
		s.Mode = policy.Shadow
	}
	for k := range 1 + d.IntN(3) {
		s.Rules = append(s.Rules, d.rule(k))
	}
	return s
}

func (d dice) request() policy.Request {
	req := policy.Request{
		Model: d.word(models...), API: d.word(apis...), Pool: d.word("", "red", "blue"), PromptTokens: d.IntN(3) * d.IntN(1000),
		Tenant: d.word("", "acme", "globex"), QoS: d.word("", "batch", "interactive"), Session: d.once(2), Attempt: 1 + d.IntN(2),
		Draw: d.Uint64(), Prefill: d.once(10), Alias: d.once(6), Header: map[string][]string{},
	}
	for _, name := range allTags {
		if d.once(2) {
			req.Tags = append(req.Tags, policy.Tag{Name: name, State: policy.TagState(d.IntN(3))})
		}
	}
	for _, name := range []string{"X-Team", "X-Class"} {
		if d.once(2) {
			req.Header[name] = []string{d.word("search", "ads", "other"), d.word("search", "ads")}[:1+d.IntN(2)]
		}
	}
	return req
}

func (d dice) candidates() []policy.Candidate {
	most := 12
	if d.shares {
		most = 40
	}
	list := make([]policy.Candidate, d.IntN(most))
	for i := range list {
		list[i] = policy.Candidate{
			Name: d.word(backends...), Type: policy.BackendType(d.IntN(2)), Model: d.word(models...), Labels: d.labelled(2),
			InFlight: d.IntN(3), Queued: d.IntN(8), Running: d.IntN(8), KVUsage: float64(d.IntN(9)) / 8, Tie: uint32(d.IntN(4)),
			PredictedTTFT: time.Duration(d.IntN(8)) * 125 * time.Millisecond, Externality: time.Duration(d.IntN(3)) * 50 * time.Millisecond,
			PredictedE2E: time.Duration(d.IntN(4)) * time.Second, CachedTokens: d.IntN(1000), Trust: kvcache.Trust(d.IntN(5)),
			PriceKnown: d.once(2), Price: float64(d.IntN(9)) / 8, QuotaKnown: d.once(2), RemainingQuota: float64(d.IntN(9)) / 8,
		}
		if d.once(6) {
			list[i].Labels = map[string]string{"topology.kubernetes.io/region": d.word("eu", "us")}
		}
	}
	return list
}

// Random policies decide about random requests as the reference does.
func TestEvaluateIsTheReference(t *testing.T) {
	t.Parallel()
	rounds := 1500
	if testing.Short() {
		rounds = 200
	}
	var plan policy.Plan
	decided, rewritten, shadowed := map[string]int{}, 0, 0
	for seed := range uint64(rounds) {
		d := dice{Rand: rand.New(rand.NewPCG(seed, 6))}
		specs := make([]*policy.Spec, d.IntN(4))
		for i := range specs {
			specs[i] = d.spec(i)
		}
		set := policy.CompileAnyway(specs...)
		for range 8 {
			ref := reference{specs, d.request(), d.candidates()}
			set.Evaluate(&ref.req, ref.cands, &plan)
			want := ref.decide()
			require.Equal(t, want.policy, plan.Policy, "seed %d", seed)
			require.Equal(t, want.rule, plan.Rule, "seed %d", seed)
			require.Equal(t, want.match, plan.Match, "seed %d", seed)
			require.Equal(t, fmt.Sprint(want.order), fmt.Sprint(plan.Order), "seed %d", seed)
			require.Equal(t, fmt.Sprint(want.stages), fmt.Sprint(plan.Stages), "seed %d", seed)
			require.Equal(t, want.empty, plan.Empty, "seed %d", seed)
			checkPlan(t, ref.cands, &plan)
			checkShadows(t, &ref, &want, &plan)
			checkModels(t, set, &ref, &plan)
			require.NotEmpty(t, policy.Explain(set, &ref.req, ref.cands, &plan).String())

			decided[want.rule]++
			shadowed += len(plan.Shadows)
			if len(plan.Order) > 0 && ref.cands[plan.Order[0]].Model != ref.req.Model {
				rewritten++
			}
		}
	}
	require.Greater(t, decided["rule-0"], rounds)
	require.Greater(t, decided["rule-2"], rounds/20)
	require.Greater(t, decided[policy.NoMatchRule], rounds)
	require.Greater(t, rewritten, rounds/4)
	require.Greater(t, shadowed, rounds/4)
}

// With shares as well, of which the reference draws none: the same candidates, stage by
// stage.
func TestEvaluateSplitsWhatTheReferenceTakes(t *testing.T) {
	t.Parallel()
	var plan policy.Plan
	split := 0
	for seed := range uint64(400) {
		d := dice{rand.New(rand.NewPCG(seed, 7)), true}
		specs := []*policy.Spec{d.spec(0), d.spec(1)}
		set := policy.CompileAnyway(specs...)
		for range 8 {
			ref := reference{specs, d.request(), d.candidates()}
			set.Evaluate(&ref.req, ref.cands, &plan)
			want := ref.decide()
			require.Equal(t, want.rule, plan.Rule, "seed %d", seed)
			require.Equal(t, fmt.Sprint(want.stages), fmt.Sprint(plan.Stages), "seed %d", seed)
			require.Equal(t, slices.Sorted(slices.Values(want.order)), slices.Sorted(slices.Values(plan.Order)), "seed %d", seed)
			checkPlan(t, ref.cands, &plan)
			checkModels(t, set, &ref, &plan)
			if fmt.Sprint(want.order) != fmt.Sprint(plan.Order) {
				split++
			}
		}
	}
	require.Greater(t, split, 100)
}

// checkPlan: each candidate is in the order or dropped, once.
func checkPlan(t *testing.T, cands []policy.Candidate, plan *policy.Plan) {
	t.Helper()
	seen := make([]int, len(cands))
	for _, i := range plan.Order {
		seen[i]++
	}
	for _, d := range plan.Dropped {
		seen[d.Index]++
		require.Equal(t, plan.Rule, d.Rule)
		require.NotEmpty(t, d.Condition)
	}
	for _, n := range seen {
		require.Equal(t, 1, n)
	}
	require.True(t, slices.IsSorted(plan.Stages))
	if len(plan.Stages) > 0 {
		require.Len(t, plan.Stages, len(plan.Order))
	}
}

// checkShadows: each says what its policy would have done alone.
func checkShadows(t *testing.T, ref *reference, want *refPlan, plan *policy.Plan) {
	t.Helper()
	var shadows []policy.ShadowPlan
	for _, s := range ref.enforced(policy.Shadow) {
		p, ok := ref.of(s)
		if !ok {
			continue
		}
		sh := policy.ShadowPlan{Policy: p.policy, Rule: p.rule, First: firstOf(p.order)}
		if sh.First < 0 {
			sh.Empty = p.empty
		}
		sh.Differs = sh.First != firstOf(want.order) || sh.First < 0 && p.empty != want.empty
		shadows = append(shadows, sh)
	}
	require.Len(t, plan.Shadows, len(shadows))
	for i := range shadows {
		require.Equal(t, shadows[i], plan.Shadows[i])
	}
}

func firstOf(order []int) int {
	if len(order) == 0 {
		return -1
	}
	return order[0]
}

// checkModels: with the candidates of the models that the set names and no others, it
// decides the same.
func checkModels(t *testing.T, set *policy.Set, ref *reference, plan *policy.Plan) {
	t.Helper()
	if ref.req.Alias {
		return // the state of the pool is that of all there are
	}
	req := ref.req
	req.PromptTokens = 0
	got := set.Models(&req, []string{"before"})
	require.Equal(t, "before", got[0])
	got = got[1:]
	require.Len(t, got, len(slices.Compact(slices.Sorted(slices.Values(got)))), "each once")
	if i := slices.Index(got, req.Model); i > 0 {
		require.Fail(t, "the requested model comes first")
	}
	var fewer []policy.Candidate
	var index []int
	for i := range ref.cands {
		if slices.Contains(got, ref.cands[i].Model) {
			fewer, index = append(fewer, ref.cands[i]), append(index, i)
		}
	}
	var again policy.Plan
	set.Evaluate(&ref.req, fewer, &again)
	require.Equal(t, plan.Rule, again.Rule)
	require.Equal(t, plan.Policy, again.Policy)
	var order []int
	for _, i := range again.Order {
		order = append(order, index[i])
	}
	require.Equal(t, fmt.Sprint(plan.Order), fmt.Sprint(order))
	require.Len(t, again.Shadows, len(plan.Shadows))
	for i := range again.Shadows {
		if first := again.Shadows[i].First; first >= 0 {
			again.Shadows[i].First = index[first]
		}
		require.Equal(t, plan.Shadows[i], again.Shadows[i])
	}
}
