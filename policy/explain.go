package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Explanation says why a [Plan] is as it is: plain data without prompt text, to be
// kept, encoded as JSON or read ([Explanation.String]).
type Explanation struct {
	// Model, API and PromptTokens are the request's.
	Model        string `json:"model"`
	API          string `json:"api,omitempty"`
	PromptTokens int    `json:"prompt_tokens"`
	Tenant       string `json:"tenant,omitempty"`
	Pool         string `json:"pool,omitempty"`
	Attempt      int    `json:"attempt"`

	// Policy, Version and Rule are the plan's.
	Policy  string `json:"policy,omitempty"`
	Version string `json:"version,omitempty"`
	Rule    string `json:"rule"`
	// Match is the index of the alternative that held, -1 if the rule has none, Matched
	// the alternative in words.
	Match   int    `json:"match"`
	Matched string `json:"matched,omitempty"`
	// Passed are the rules that were asked before.
	Passed []PassedRule `json:"passed,omitempty"`
	// Tags are those that the policies ask for and those that the request has, sorted.
	Tags []Tag `json:"tags,omitempty"`
	// Stages are those of the rule.
	Stages []ExplainedStage `json:"stages,omitempty"`
	// Candidates has those of the plan in its order, then those that were dropped.
	Candidates []ExplainedCandidate `json:"candidates"`
	// Rewrite is the change of model for the first candidate, nil if there is none.
	Rewrite *Rewrite `json:"rewrite,omitempty"`
	// OnEmpty is what happens if there is no candidate, in words.
	OnEmpty string            `json:"on_empty"`
	Shadows []ExplainedShadow `json:"shadows,omitempty"`

	order []int // the plan's
}

// PassedRule is a rule that did not decide.
type PassedRule struct {
	Policy string `json:"policy,omitempty"`
	Rule   string `json:"rule"`
	// Why names, for each alternative of the rule, the first condition that did not
	// hold, or says that nothing was left.
	Why string `json:"why"`
	// Emptied: it matched, but nothing was left, and it says NextRule.
	Emptied bool `json:"emptied,omitempty"`
}

// ExplainedStage says what became of a stage.
type ExplainedStage struct {
	// Stage is it in words.
	Stage string `json:"stage"`
	// Candidates is how many it has, of those that no stage before it has.
	Candidates int `json:"candidates"`
	// Decided: it is the first that has some.
	Decided bool `json:"decided,omitempty"`
	// Empty says why there are none.
	Empty string `json:"empty,omitempty"`
}

// ExplainedCandidate is one candidate with its numbers.
type ExplainedCandidate struct {
	Candidate
	// TrustState is the candidate's trust by name.
	TrustState string `json:"trust"`
	// Place counts from 1 in the order of the plan; 0 for what was dropped. Stage is
	// the index of the stage that it is from.
	Place int `json:"place"`
	Stage int `json:"stage"`
	// Dropped says what dropped it, "" if nothing did.
	Dropped string `json:"dropped,omitempty"`
	// Note says what else than its numbers its place is due to.
	Note string `json:"note,omitempty"`
}

// Rewrite is a change of the model that a request names.
type Rewrite struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// ExplainedShadow is what a policy in shadow mode would have done.
type ExplainedShadow struct {
	Policy string `json:"policy,omitempty"`
	Rule   string `json:"rule"`
	// Would name the candidate and its model, or say what happens without one.
	Would string `json:"would"`
	// Differs: that is something else than what was done.
	Differs bool `json:"differs"`
}

// Explain explains a plan that p has made for the request and the candidates. Of a p
// that is no [Set], nor a [Source] of one, it says what the plan says. The candidates'
// labels are not copied.
func Explain(p Policy, req *Request, candidates []Candidate, plan *Plan) *Explanation {
	if source, ok := p.(Source); ok {
		p = source.Current()
	}
	e := &Explanation{
		Model: req.Model, API: req.API, PromptTokens: req.PromptTokens, Tenant: req.Tenant, Pool: req.Pool,
		Attempt: req.Attempt, Policy: plan.Policy, Version: plan.Version, Rule: plan.Rule, Match: plan.Match,
		Tags: slices.Clone(req.Tags), OnEmpty: plan.Empty.String(),
	}
	e.candidates(candidates, plan)
	if len(plan.Order) > 0 {
		if to := candidates[plan.Order[0]].Model; to != req.Model {
			e.Rewrite = &Rewrite{From: req.Model, To: to}
		}
	}
	for i := range plan.Shadows {
		e.shadow(candidates, &plan.Shadows[i])
	}
	if s, ok := p.(*Set); ok && plan.Version == s.version {
		s.explain(e, req, candidates, plan)
	}
	slices.SortFunc(e.Tags, func(a, b Tag) int { return strings.Compare(a.Name, b.Name) })
	return e
}

func (e *Explanation) candidates(candidates []Candidate, plan *Plan) {
	e.order = slices.Clone(plan.Order)
	e.Candidates = make([]ExplainedCandidate, 0, len(candidates))
	for k, i := range plan.Order {
		c := ExplainedCandidate{Candidate: candidates[i], TrustState: candidates[i].Trust.String(), Place: k + 1}
		if k < len(plan.Stages) {
			c.Stage = plan.Stages[k]
		}
		e.Candidates = append(e.Candidates, c)
	}
	for _, d := range plan.Dropped {
		e.Candidates = append(e.Candidates, ExplainedCandidate{
			Candidate: candidates[d.Index], TrustState: candidates[d.Index].Trust.String(), Dropped: d.Condition,
		})
	}
}

func (e *Explanation) shadow(candidates []Candidate, sh *ShadowPlan) {
	would := sh.Empty.String()
	if sh.First >= 0 {
		would = candidates[sh.First].title()
	}
	e.Shadows = append(e.Shadows, ExplainedShadow{Policy: sh.Policy, Rule: sh.Rule, Would: would, Differs: sh.Differs})
}

// explain adds what the set knows.
func (s *Set) explain(e *Explanation, req *Request, candidates []Candidate, plan *Plan) {
	for _, name := range s.needs.Tags {
		if !slices.ContainsFunc(e.Tags, func(t Tag) bool { return t.Name == name }) {
			e.Tags = append(e.Tags, Tag{Name: name})
		}
	}
	sc := s.borrow(req, candidates)
	defer s.giveBack(sc)
	for i := range s.enforced {
		p := &s.enforced[i]
		if !p.about(req.Pool) {
			continue
		}
		for k := range p.rules {
			r := &p.rules[k]
			if plan.by(i, p, k, r) {
				if plan.Match >= 0 && plan.Match < len(r.matches) {
					e.Matched = r.matches[plan.Match].text
				}
				r.explain(e, sc)
				return
			}
			why := r.passed(sc)
			e.Passed = append(e.Passed, PassedRule{Policy: p.name, Rule: r.name, Why: why, Emptied: why == nothingLeft})
		}
	}
}

// by reports whether the rule decided: by its place, or by its name in a plan that was
// read from somewhere.
func (p *Plan) by(policyAt int, of *program, ruleAt int, r *rule) bool {
	if p.ruleAt > 0 {
		return p.policyAt == policyAt+1 && p.ruleAt == ruleAt+1
	}
	return of.name == p.Policy && r.name == p.Rule
}

// passed says why the rule did not decide.
func (r *rule) passed(sc *scratch) string {
	if len(r.matches) == 0 {
		return nothingLeft
	}
	why := make([]string, 0, len(r.matches))
	for i := range r.matches {
		v, which := r.matches[i].holds(sc.pool.req, &sc.pool)
		if v == yes {
			return nothingLeft
		}
		why = append(why, r.matches[i].failed(which, sc))
	}
	return strings.Join(why, "; ")
}

const nothingLeft = "it matches, but nothing is left, and it says NextRule"

// failed says why a part of the match does not hold. Of headers it names no values:
// they may be secrets.
func (m *match) failed(p part, sc *scratch) string {
	req, pool := sc.pool.req, &sc.pool
	switch p {
	case partModel:
		return isNot("model", req.Model, m.models)
	case partAPI:
		return isNot("api", req.API, m.apis)
	case partTenant:
		return isNot("tenant", req.Tenant, m.tenants)
	case partQoS:
		return isNot("qos", req.QoS, m.qos)
	case partSession:
		if m.session > 0 {
			return "there is no session"
		}
		return "there is a session"
	case partTag:
		states := make([]string, 0, len(m.tags.names))
		for _, name := range m.tags.names {
			states = append(states, name+" is "+req.Tag(name).String())
		}
		return "tag " + strings.Join(states, ", ")
	case partHeader:
		for i := range m.headers {
			if h := &m.headers[i]; !h.holds(req) {
				return "header " + h.name + " is another"
			}
		}
		return ""
	case partTokens:
		return outside("promptTokens", float64(req.PromptTokens), &m.tokens)
	case partQueued:
		return outside("queuedPrompts", pool.queued, &m.queued)
	case partUsage:
		return outside("kvCacheUsage", pool.usage, &m.usage)
	case partWorkers:
		return outside("healthyWorkers", float64(pool.count()), &m.workers)
	case partNone:
		return ""
	default:
		return ""
	}
}

func isNot(what, is string, names []string) string {
	return fmt.Sprintf("%s is %q, not %s", what, is, strings.Join(names, " or "))
}

func outside(what string, x float64, within *interval) string {
	is := plain(x)
	if math.IsInf(x, 1) {
		is = "infinite, for there is no worker"
	}
	var w words
	w.within("", within, "")
	return what + " is " + is + ", not" + strings.ReplaceAll(w.String(), ", ", " and")
}

// explain says what became of the rule's stages, by going through them again.
func (r *rule) explain(e *Explanation, sc *scratch) {
	notes := map[int]string{}
	r.reduce(sc)
	decided := false
	for i := range r.stages {
		stage := &r.stages[i]
		before := slices.Clone(sc.state)
		stage.collect(sc)
		stage.rank(sc.pool.req, sc.pool.candidates, sc)
		st := ExplainedStage{Stage: stage.text, Candidates: len(sc.keys)}
		if len(sc.keys) > 0 {
			st.Decided, decided = !decided, true
		} else {
			st.Empty = r.emptied(stage, before, sc)
		}
		for k := range sc.keys {
			notes[int(sc.keys[k].index)] = stage.note(&sc.keys[k])
		}
		e.Stages = append(e.Stages, st)
	}
	for k, i := range e.order {
		e.Candidates[k].Note = notes[i]
	}
}

// note says what else than numbers its place in the stage is due to.
func (s *stage) note(k *sortKey) string {
	if k.rank>>shiftBack&1 != 0 {
		return "held back: another model that is not faster by " + s.lead.String()
	}
	if len(s.shares) > 0 && k.rank>>shiftShare&shareMask == shareDrawn {
		return "of the share that was drawn"
	}
	return ""
}

// emptied says why a stage has no candidates, by what had become of them before.
func (r *rule) emptied(stage *stage, before []int32, sc *scratch) string {
	fit, earlier := 0, 0
	by := make([]int, len(r.exclude))
	for i, state := range before {
		if _, _, ok := stage.place(&sc.pool.candidates[i]); !ok || state == stateUnconsidered {
			continue
		}
		fit++
		if state == statePlaced {
			earlier++
			continue
		}
		by[state-stateExcluded]++
	}
	if fit == 0 {
		return "no candidate fits"
	}
	var why []string
	for x, n := range by {
		if n > 0 {
			why = append(why, fmt.Sprintf("%d dropped by %s", n, r.exclude[x].name))
		}
	}
	if earlier > 0 {
		why = append(why, fmt.Sprintf("%d in an earlier stage", earlier))
	}
	return fmt.Sprintf("of %d that fit, %s", fit, strings.Join(why, ", "))
}
