package policy

import (
	"slices"
	"strings"
)

// Models implements [Scoped]: the models of every rule that may decide about req, of
// policies in shadow mode as well, because what they would choose can only be said of
// candidates that are there. What is known of the request counts as in Evaluate, tags
// among it; conditions on the state of the pool may hold or not, and so may those on
// the number of tokens while that is 0. The requested model comes first if it is
// among them.
func (s *Set) Models(req *Request, dst []string) []string {
	start := len(dst)
	requested := true // nothing is certain to decide
	for i := range s.enforced {
		var certain bool
		if dst, certain = s.enforced[i].models(req, dst, start); certain {
			requested = false
			break
		}
	}
	if requested {
		dst = appendNew(dst, start, req.Model)
	}
	for i := range s.shadow {
		dst, _ = s.shadow[i].models(req, dst, start)
	}
	if k := slices.Index(dst[start:], req.Model); k > 0 {
		copy(dst[start+1:], dst[start:start+k])
		dst[start] = req.Model
	}
	return dst
}

// models appends the models of the rules that may decide, and reports whether one is
// certain to.
func (p *program) models(req *Request, dst []string, start int) (models []string, certain bool) {
	if !p.about(req.Pool) {
		return dst, false
	}
	for i := range p.rules {
		r := &p.rules[i]
		may, ofPool := r.may(req)
		if ofPool {
			// The state of its pool can be told from its workers only.
			dst = appendNew(dst, start, req.Model)
		}
		if may == no {
			continue
		}
		dst = r.models(req, dst, start)
		if may == yes && r.empty.Action != NextRule {
			return dst, true
		}
	}
	return dst, false
}

// may says whether the rule matches as far as it can be told, and whether that depends
// on the state of the pool.
func (r *rule) may(req *Request) (may verdict, ofPool bool) {
	if len(r.matches) == 0 {
		return yes, false
	}
	for i := range r.matches {
		m := &r.matches[i]
		v, _ := m.holds(req, nil)
		may = max(may, v)
		ofPool = ofPool || v == maybe && m.ofPool()
	}
	return may, ofPool
}

func (r *rule) models(req *Request, dst []string, start int) []string {
	if len(r.consider) == 0 {
		return appendNew(dst, start, req.Model)
	}
	for i := range r.consider {
		if r.consider[i].models == nil {
			dst = appendNew(dst, start, req.Model)
		}
		for _, m := range r.consider[i].models {
			dst = appendNew(dst, start, m)
		}
	}
	return dst
}

// appendNew appends what is not among dst[start:].
func appendNew(dst []string, start int, s string) []string {
	if slices.Contains(dst[start:], s) {
		return dst
	}
	return append(dst, s)
}

// PolicyOutline names the parts of one policy of a [Set].
type PolicyOutline struct {
	// Policy is its name as plans have it.
	Policy   string
	Mode     Mode
	Priority int
	// Pools are those whose requests it is about. None means all.
	Pools []string
	Rules []RuleOutline
}

// RuleOutline names the parts of a rule, as plans and drops name them.
type RuleOutline struct {
	Name string
	// Matches are the alternatives in words; Plan.Match is an index into it.
	Matches []string
	// Considers says in words whom the rule chooses among, "" for all that serve the
	// requested model.
	Considers string
	// Exclusions are what Drop.Exclusion may be.
	Exclusions []string
	// Stages are the stages in words; Plan.Stages holds indices into it.
	Stages []string
	// Empty is what happens if nothing is left.
	Empty OnEmpty
	// Tags are those that the rule asks for, sorted.
	Tags []string
}

// Outline names what the Set consists of, in the order in which it is asked, policies
// in shadow mode last: for tests that every part of it is tested.
func (s *Set) Outline() []PolicyOutline {
	list := make([]PolicyOutline, 0, len(s.enforced)+len(s.shadow))
	for p := range s.programs() {
		o := PolicyOutline{Policy: p.name, Mode: p.mode, Priority: p.priority, Pools: slices.Clone(p.pools)}
		for i := range p.rules {
			o.Rules = append(o.Rules, p.rules[i].outline())
		}
		list = append(list, o)
	}
	return list
}

// programs yields the policies in order.
func (s *Set) programs() func(yield func(*program) bool) {
	return func(yield func(*program) bool) {
		for _, list := range [][]program{s.enforced, s.shadow} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

func (r *rule) outline() RuleOutline {
	o := RuleOutline{Name: r.name, Empty: r.empty, Tags: r.tags()}
	for i := range r.matches {
		o.Matches = append(o.Matches, r.matches[i].text)
	}
	if words, ok := strings.CutPrefix(r.unconsidered, unconsidered); ok {
		o.Considers = words
	}
	for i := range r.exclude {
		o.Exclusions = append(o.Exclusions, r.exclude[i].name)
	}
	for i := range r.stages {
		o.Stages = append(o.Stages, r.stages[i].text)
	}
	return o
}

// tags are those that the rule asks for, sorted, each once.
func (r *rule) tags() []string {
	var list []string
	for i := range r.matches {
		list = append(list, r.matches[i].tags.names...)
	}
	for i := range r.exclude {
		list = append(list, r.exclude[i].when.tags.names...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// headers are those that the rule looks at, by their canonical names.
func (r *rule) headers() []string {
	var list []string
	add := func(headers []header) {
		for i := range headers {
			list = append(list, headers[i].name)
		}
	}
	for i := range r.matches {
		add(r.matches[i].headers)
	}
	for i := range r.exclude {
		add(r.exclude[i].when.headers)
	}
	return list
}

func (s *Set) collectNeeds() Needs {
	var n Needs
	for p := range s.programs() {
		for i := range p.rules {
			n.Tags = append(n.Tags, p.rules[i].tags()...)
			n.Headers = append(n.Headers, p.rules[i].headers()...)
		}
	}
	slices.Sort(n.Tags)
	slices.Sort(n.Headers)
	return Needs{Tags: slices.Compact(n.Tags), Headers: slices.Compact(n.Headers)}
}
