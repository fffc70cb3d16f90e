package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Compile makes a Set of specs, which it does not keep: they may be changed
// afterwards. Its error is a [*CheckError] that lists everything that is wrong with
// them. No spec at all makes a Set that decides as [NoMatchRule] does.
func Compile(opts Options, specs ...*Spec) (*Set, error) {
	if slices.Contains(specs, nil) {
		return nil, errors.New("policy: Compile got a nil *Spec; leave it out")
	}
	specs = inOrder(specs)
	if err := refuse(opts, specs); err != nil {
		return nil, err
	}
	return link(opts, specs), nil
}

// inOrder is the order in which policies are asked.
func inOrder(specs []*Spec) []*Spec {
	specs = slices.Clone(specs)
	slices.SortStableFunc(specs, func(a, b *Spec) int {
		return cmp.Or(
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return specs
}

// link makes a Set of specs in order.
func link(opts Options, specs []*Spec) *Set {
	s := &Set{version: versionOf(opts, specs)}
	for _, spec := range specs {
		p := compileSpec(spec, labelled(opts.Models, spec.Models))
		if p.mode == Shadow {
			s.shadow = append(s.shadow, p)
		} else {
			s.enforced = append(s.enforced, p)
		}
	}
	s.needs = s.collectNeeds()
	return s
}

// fullName is how a policy is called in plans and messages.
func fullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// labelled merges labels of models: the last given of a key counts.
func labelled(lists ...[]ModelLabels) map[string]map[string]string {
	known := map[string]map[string]string{}
	for _, list := range lists {
		for i := range list {
			m := &list[i]
			if known[m.Name] == nil {
				known[m.Name] = map[string]string{}
			}
			maps.Copy(known[m.Name], m.Labels)
		}
	}
	return known
}

func compileSpec(spec *Spec, models map[string]map[string]string) program {
	p := program{
		name: fullName(spec.Namespace, spec.Name), priority: spec.Priority, mode: spec.Mode,
		pools: slices.Clone(spec.Pools),
	}
	for i := range spec.Rules {
		r := compileRule(&spec.Rules[i], models)
		if r.name == "" { // by names decisions are told apart
			r.name = fmt.Sprintf("rules[%d]", i)
		}
		p.rules = append(p.rules, r)
	}
	return p
}

func compileRule(src *Rule, models map[string]map[string]string) rule {
	r := rule{name: src.Name, empty: src.Route.OnEmpty}
	for i := range src.Matches {
		r.matches = append(r.matches, compileMatch(&src.Matches[i]))
	}
	considered := make([]string, 0, len(src.Route.Consider))
	for i := range src.Route.Consider {
		k := compileConsider(&src.Route.Consider[i], models)
		r.consider = append(r.consider, k)
		considered = append(considered, k.String())
	}
	r.unconsidered = "not considered: " + notRequested
	if len(considered) > 0 {
		r.unconsidered = unconsidered + strings.Join(considered, ", or ")
	}
	for i := range src.Route.Exclude {
		r.exclude = append(r.exclude, compileExclusion(&src.Route.Exclude[i], i))
	}
	for i := range src.Route.Select {
		r.stages = append(r.stages, compileStage(&src.Route.Select[i]))
	}
	if len(r.stages) == 0 {
		r.stages = append(r.stages, compileStage(&Stage{}))
	}
	texts := make([]string, 0, len(r.stages))
	for i := range r.stages {
		texts = append(texts, r.stages[i].text)
	}
	r.unplaced = "in no stage: " + strings.Join(texts, "; ")
	return r
}

func compileRange(src Range) interval {
	var r interval
	if src.GreaterThan != nil {
		r.above, r.hasAbove = *src.GreaterThan, true
	}
	if src.LessThan != nil {
		r.below, r.hasBelow = *src.LessThan, true
	}
	return r
}

func compileHeaders(src []HeaderMatch) []header {
	var list []header
	for i := range src {
		h := &src[i]
		list = append(list, header{
			name: textproto.CanonicalMIMEHeaderKey(h.Name), value: h.Value, prefix: h.Prefix, absent: h.Absent,
		})
	}
	return list
}

func compileLabels(src map[string]string) []label {
	var list []label
	for _, k := range slices.Sorted(maps.Keys(src)) {
		list = append(list, label{k, src[k]})
	}
	return list
}

func compileMatch(src *Match) match {
	m := match{
		models: slices.Clone(src.Model), apis: slices.Clone(src.API),
		tenants: slices.Clone(src.Tenant), qos: slices.Clone(src.QoS),
		tags:    tags{names: slices.Clone(src.Tag), unknown: src.OnUnknown == UnknownPresent},
		headers: compileHeaders(src.Header), tokens: compileRange(src.PromptTokens),
		queued: compileRange(src.QueuedPrompts), usage: compileRange(src.KVCacheUsage),
		workers: compileRange(src.HealthyWorkers),
	}
	if src.Session != nil {
		m.session = -1
		if *src.Session {
			m.session = 1
		}
	}
	m.text = m.String()
	return m
}

func compileConsider(src *Consider, models map[string]map[string]string) consider {
	return consider{
		models: src.models(models), workers: slices.Clone(src.Workers), providers: slices.Clone(src.Providers),
		labels: compileLabels(src.WorkerLabels),
	}
}

// models are the models that k considers, by name; nil if it says nothing of models.
func (k *Consider) models(known map[string]map[string]string) []string {
	if len(k.ModelLabels) == 0 {
		return slices.Clone(k.Models)
	}
	want, names := compileLabels(k.ModelLabels), []string{}
	if len(k.Models) > 0 {
		for _, name := range k.Models {
			if haveAll(known[name], want) {
				names = append(names, name)
			}
		}
		return names
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if haveAll(known[name], want) {
			names = append(names, name)
		}
	}
	return names
}

func compileExclusion(src *Exclusion, i int) exclusion {
	x := exclusion{
		name: src.Name,
		when: condition{
			tags:    tags{names: slices.Clone(src.If.Tag), unknown: src.If.OnUnknown != UnknownAbsent},
			tenants: slices.Clone(src.If.Tenant), qos: slices.Clone(src.If.QoS), headers: compileHeaders(src.If.Header),
		},
		drop: compileFilter(&src.Drop),
	}
	if x.name == "" {
		x.name = fmt.Sprintf("exclude[%d]", i)
	}
	x.text = x.String()
	return x
}

func compileFilter(src *Filter) filter {
	f := filter{
		kind: src.Type, names: slices.Clone(src.Name), labels: compileLabels(src.Labels), regions: slices.Clone(src.Region),
	}
	for _, n := range []numeric{
		{ofQueued, compileRange(src.QueuedPrompts)},
		{ofRunning, compileRange(src.RunningRequests)},
		{ofUsage, compileRange(src.KVCacheUsage)},
		{ofTTFT, compileRange(src.PredictedTTFT)},
		{ofCached, compileRange(src.CachedTokens)},
		{ofPrice, compileRange(src.Price)},
		{ofQuota, compileRange(src.RemainingQuota)},
	} {
		if n.within.set() {
			f.numbers = append(f.numbers, n)
		}
	}
	for _, name := range src.Trust {
		if t, ok := trustNamed(name); ok {
			f.trust |= trustBit(t)
		}
	}
	return f
}

// trustNamed is the state of trust of a name, whatever its case.
func trustNamed(name string) (kvcache.Trust, bool) {
	for t := kvcache.Blind; t <= kvcache.Exact; t++ {
		if strings.EqualFold(name, t.String()) {
			return t, true
		}
	}
	return 0, false
}

func compileStage(src *Stage) stage {
	s := stage{kind: src.Type, metric: src.Minimize, order: slices.Clone(src.Order)}
	for i := range src.Weighted {
		s.shares = append(s.shares, compileShare(&src.Weighted[i]))
	}
	if src.SwitchOnlyIf != nil {
		s.lead = &lead{src.SwitchOnlyIf.By, src.SwitchOnlyIf.Percent}
	}
	s.text = s.String()
	return s
}

// maxWeight keeps sums of weights far from overflow.
const maxWeight = 1 << 30

func compileShare(src *Share) share {
	return share{
		model: src.Model, name: src.Name, labels: compileLabels(src.Labels),
		weight: uint64(min(max(src.Weight, 0), maxWeight)),
	}
}

// unconsidered is how the words begin for candidates that a rule does not consider.
const unconsidered = "not considered; considered are "
