package policy

import (
	"slices"
	"strings"

	"github.com/kvsteer/kvsteer/internal/yamlnode"
)

// exclusions checks those of a rule.
func (k *checker) exclusions(at string, r *Route) {
	seen := make(map[string]bool, len(r.Exclude))
	var locals, providers bool // dropped, whatever the request
	for i := range r.Exclude {
		x, here := &r.Exclude[i], item(at+".exclude", i)
		if x.Name != "" && seen[x.Name] {
			k.warn(CodeDuplicateName, here+".name", "another exclusion of the rule is named "+yamlnode.Quote(x.Name)+" as well", "rename one")
		}
		seen[x.Name] = true
		before := len(k.findings)
		k.condition(here+".if", &x.If)
		k.filter(here+".drop", &x.Drop)
		if !k.s.sound(here) || slices.ContainsFunc(k.findings[before:], func(f Finding) bool { return f.Severity == SeverityError }) {
			continue // it may have been meant otherwise
		}
		if !k.s.written(here + ".drop") {
			k.err(CodeNoDrop, here, "the exclusion doesn't say what it drops", "write drop, or drop: {} for everything")
			continue
		}
		if len(x.If.Tag) > 0 && x.Drop.restricts() {
			k.restriction(here, at, x)
		}
		if x.If.isZero() && x.Drop.state() == 0 && x.Drop.isOfType() {
			locals = locals || x.Drop.Type != ProviderOnly
			providers = providers || x.Drop.Type != LocalOnly
		}
		if locals && providers {
			k.dropsAll(here, at, &r.OnEmpty)
			locals, providers = false, false
		}
	}
}

// dropsAll says what to make of exclusions that leave nothing of any request: a rule
// may be there to reject.
func (k *checker) dropsAll(here, route string, e *OnEmpty) {
	const message = "after this exclusion no candidate is left, whatever the request"
	switch {
	case e.Action == Wait:
		k.err(CodeDropsAll, here, message+", and Wait waits in vain", "write onEmpty: Reject")
	case e.Action == NextRule:
		k.err(CodeDropsAll, here, message+", and NextRule makes the rule do nothing", "remove the rule")
	case k.s.src == nil:
		k.warn(CodeDropsAll, here, message, "")
	case k.s.sound(route) && !k.s.written(route+".onEmpty"):
		k.err(CodeDropsAll, here, message,
			"say which requests, with if, or which candidates, with drop; a rule that is there to reject says onEmpty: Reject")
	}
}

// restriction checks an exclusion that keeps requests with a tag from providers.
func (k *checker) restriction(here, route string, x *Exclusion) {
	tags := strings.Join(quoted(x.If.Tag), ", ")
	if k.s.sound(route) && !k.s.written(route+".onEmpty") {
		k.warn(CodeNoOnEmpty, here, "requests tagged "+tags+" may find no candidate left, and what happens then is not said",
			"write onEmpty: Reject, which is the default")
	}
	if x.If.OnUnknown == UnknownAbsent {
		k.add(SeverityNote, CodeFailsOpen, here+".if.onUnknown",
			"requests of which nobody knows whether they are tagged "+tags+" are not restricted", "")
	}
}

// lost reports restrictions of a rule with NextRule which a rule below does not have.
func (k *checker) lost(i int) {
	r := &k.s.Rules[i]
	if r.Route.OnEmpty.Action != NextRule {
		return
	}
	for j := range r.Route.Exclude {
		x := &r.Route.Exclude[j]
		if len(x.If.Tag) == 0 || !x.Drop.restricts() {
			continue
		}
		for below := i + 1; below < len(k.s.Rules); below++ {
			if k.s.Rules[below].Route.restricts(x.If.Tag) {
				continue
			}
			k.warn(CodeRestrictionLost, item("spec.rules", i)+".route.onEmpty", "with NextRule, requests tagged "+
				strings.Join(quoted(x.If.Tag), ", ")+" go on to "+item("spec.rules", below)+", which does not restrict them",
				"write onEmpty: Reject, or repeat the exclusion there")
			return
		}
	}
}

// restricts reports whether the route keeps requests with any of the tags from all
// providers.
func (r *Route) restricts(tags []string) bool {
	for i := range r.Exclude {
		x := &r.Exclude[i]
		only := len(x.If.Tenant)+len(x.If.QoS)+len(x.If.Header) == 0 && x.If.OnUnknown != UnknownAbsent
		all := x.Drop.state() == 0 && x.Drop.isOfType() && x.Drop.Type != LocalOnly
		covered := len(x.If.Tag) == 0
		if !covered {
			covered = true
			for _, t := range tags {
				covered = covered && slices.Contains(x.If.Tag, t)
			}
		}
		if only && all && covered {
			return true
		}
	}
	return false
}

// restricts reports whether the filter is about providers for what they are: it keeps
// requests within the house.
func (f *Filter) restricts() bool {
	return f.state() == 0 && f.Type != LocalOnly && (f.Type == ProviderOnly || len(f.Name)+len(f.Region)+len(f.Labels) > 0)
}

// state counts the conditions on what changes from request to request.
func (f *Filter) state() int {
	n := len(f.Trust)
	for _, r := range []Range{
		f.QueuedPrompts, f.RunningRequests, f.KVCacheUsage, f.PredictedTTFT, f.CachedTokens, f.Price, f.RemainingQuota,
	} {
		if !r.isZero() {
			n++
		}
	}
	return n
}

// isOfType reports whether the filter says nothing of which backend but its type.
func (f *Filter) isOfType() bool { return len(f.Name)+len(f.Labels)+len(f.Region) == 0 }

func (k *checker) filter(at string, f *Filter) {
	if f.Type > ProviderOnly {
		k.err(CodeInvalidValue, at+".backend.type", "there is no such type", "use Local or Provider")
	}
	k.names(at+".backend.name", f.Name, "backend")
	k.names(at+".backend.region", f.Region, "region")
	k.labelMap(at+".backend.labels", f.Labels)
	k.interval(at+".queuedPrompts", f.QueuedPrompts, counts)
	k.interval(at+".runningRequests", f.RunningRequests, counts)
	k.interval(at+".kvCacheUsage", f.KVCacheUsage, shares)
	k.interval(at+".predictedTTFT", f.PredictedTTFT, amounts)
	k.interval(at+".cachedTokens", f.CachedTokens, counts)
	k.interval(at+".price", f.Price, amounts)
	k.interval(at+".remainingQuota", f.RemainingQuota, shares)
	k.trust(at+".trust", f.Trust)
	if f.Type == LocalOnly && !f.RemainingQuota.isZero() {
		k.err(CodeContradiction, at+".remainingQuota", "local workers have no quota, so nothing is dropped",
			"write type: Provider, or leave it out")
	}
}

// trust checks names of states of trust, in whatever case.
func (k *checker) trust(at string, list []string) {
	lower := make([]string, len(list))
	for i := range list {
		lower[i] = strings.ToLower(list[i])
	}
	if list == nil {
		lower = nil
	}
	k.words(at, lower, trustNames(), "state of trust")
}

func quoted(list []string) []string {
	const most = 8
	out := make([]string, 0, most)
	for i, s := range list {
		if i == most {
			out = append(out, "and others")
			break
		}
		out = append(out, yamlnode.Quote(s))
	}
	return out
}
