package policy

import "slices"

// scratch is the working memory of an evaluation. Nothing in it outlives one.
type scratch struct {
	// state says for each candidate what became of it: see below.
	state []int32
	keys  []sortKey
	// members are the shares of the candidates of keys.
	members []int
	weights []uint64
	pool    pool
	// plan is that of a policy in shadow mode.
	plan Plan
}

// The states of a candidate. Above these they are an exclusion's index, plus
// stateExcluded.
const (
	stateOpen int32 = iota
	statePlaced
	stateUnconsidered
	stateExcluded
)

// Evaluate implements [Policy]. The policies that enforce are asked in order; the
// first rule that matches decides, and if nothing is left for it and it says so, the
// next that matches. If none does, [NoMatchRule] decides. Beside them, the plan says
// of each policy in shadow mode of which a rule matches what it would have done,
// were it the only one. It allocates nothing when plan has room.
func (s *Set) Evaluate(req *Request, candidates []Candidate, plan *Plan) {
	plan.Reset(NoMatchRule)
	plan.Version = s.version
	sc := s.borrow(req, candidates)
	s.enforce(sc, plan)
	for i := range s.shadow {
		p := &s.shadow[i]
		sc.plan.Reset("")
		if !p.about(req.Pool) || !p.decide(sc, &sc.plan) {
			continue
		}
		plan.Shadows = append(plan.Shadows, shadowed(plan, &sc.plan))
	}
	s.giveBack(sc)
}

func (s *Set) borrow(req *Request, candidates []Candidate) *scratch {
	sc, ok := s.scratch.Get().(*scratch)
	if !ok {
		sc = &scratch{}
	}
	sc.pool = pool{req: req, candidates: candidates}
	return sc
}

// giveBack keeps nothing of what the caller gave.
func (s *Set) giveBack(sc *scratch) {
	sc.pool = pool{}
	s.scratch.Put(sc)
}

func (s *Set) enforce(sc *scratch, plan *Plan) {
	for i := range s.enforced {
		if p := &s.enforced[i]; p.about(sc.pool.req.Pool) && p.decide(sc, plan) {
			plan.policyAt = i + 1
			return
		}
	}
	noMatch(sc, plan)
}

// noMatch applies NoMatchRule to a plan in which nothing is.
func noMatch(sc *scratch, plan *Plan) {
	req, candidates := sc.pool.req, sc.pool.candidates
	sc.keys = sc.keys[:0]
	for i := range candidates {
		switch c := &candidates[i]; {
		case c.Type != Local:
			plan.Dropped = append(plan.Dropped, Drop{Index: i, Rule: NoMatchRule, Condition: notLocal})
		case c.Model != req.Model:
			plan.Dropped = append(plan.Dropped, Drop{Index: i, Rule: NoMatchRule, Condition: notRequested})
		default:
			sc.keys = append(sc.keys, keyOf(PredictedTTFT, c, i))
		}
	}
	sortKeys(sc.keys, candidates)
	for i := range sc.keys {
		plan.Order = append(plan.Order, int(sc.keys[i].index))
	}
}

// shadowed is what would have been instead of the plan.
func shadowed(plan, would *Plan) ShadowPlan {
	sh := ShadowPlan{Policy: would.Policy, Rule: would.Rule, First: first(would)}
	if sh.First < 0 {
		sh.Empty = would.Empty
	}
	sh.Differs = sh.First != first(plan) || sh.First < 0 && sh.Empty != plan.Empty
	return sh
}

func first(plan *Plan) int {
	if len(plan.Order) == 0 {
		return -1
	}
	return plan.Order[0]
}

// decide reports whether a rule of the policy decided, and if so plans.
func (p *program) decide(sc *scratch, plan *Plan) bool {
	for i := range p.rules {
		r := &p.rules[i]
		which, ok := r.matched(sc)
		if !ok || !r.plan(sc, plan) && r.empty.Action == NextRule {
			continue
		}
		plan.Policy, plan.Rule, plan.Match, plan.Empty = p.name, r.name, which, r.empty
		plan.ruleAt = i + 1
		r.drops(sc, plan)
		return true
	}
	return false
}

// matched returns the alternative of the rule that holds, -1 if it has none.
func (r *rule) matched(sc *scratch) (which int, ok bool) {
	if len(r.matches) == 0 {
		return -1, true
	}
	for i := range r.matches {
		if v, _ := r.matches[i].holds(sc.pool.req, &sc.pool); v == yes {
			return i, true
		}
	}
	return 0, false
}

// plan orders the candidates, in a plan in which nothing is, and reports whether there
// are any.
func (r *rule) plan(sc *scratch, plan *Plan) bool {
	r.reduce(sc)
	for i := range r.stages {
		r.stages[i].collect(sc)
		r.stages[i].rank(sc.pool.req, sc.pool.candidates, sc)
		sortKeys(sc.keys, sc.pool.candidates)
		if len(plan.Order) == 0 {
			plan.head = headOf(sc.keys)
		}
		for k := range sc.keys {
			plan.Order = append(plan.Order, int(sc.keys[k].index))
			if len(r.stages) > 1 {
				plan.Stages = append(plan.Stages, i)
			}
		}
	}
	return len(plan.Order) > 0
}

// headOf is how many are of the first one's share, and held back as it is.
func headOf(keys []sortKey) int {
	for k := range keys {
		if keys[k].rank>>shiftShare != keys[0].rank>>shiftShare {
			return k
		}
	}
	return len(keys)
}

// reduce leaves open what the rule considers, less what it excludes.
func (r *rule) reduce(sc *scratch) {
	req, candidates := sc.pool.req, sc.pool.candidates
	sc.state = slices.Grow(sc.state[:0], len(candidates))[:len(candidates)]
	for i := range candidates {
		sc.state[i] = stateOpen
		if !r.considers(req, &candidates[i]) {
			sc.state[i] = stateUnconsidered
		}
	}
	for k := range r.exclude {
		x := &r.exclude[k]
		if !x.when.holds(req) {
			continue
		}
		for i := range candidates {
			if sc.state[i] == stateOpen && x.drop.takes(&candidates[i]) {
				sc.state[i] = stateExcluded + int32(k)
			}
		}
	}
}

// collect makes keys of the open candidates that the stage takes.
func (s *stage) collect(sc *scratch) {
	sc.keys, sc.members = sc.keys[:0], sc.members[:0]
	for i := range sc.pool.candidates {
		if sc.state[i] != stateOpen {
			continue
		}
		c := &sc.pool.candidates[i]
		place, share, ok := s.place(c)
		if !ok {
			continue
		}
		sc.state[i] = statePlaced
		k := keyOf(s.metric, c, i)
		k.rank = uint32(place)
		sc.keys, sc.members = append(sc.keys, k), append(sc.members, share)
	}
}

// drops says why candidates aren't in the plan.
func (r *rule) drops(sc *scratch, plan *Plan) {
	for i, state := range sc.state {
		d := Drop{Index: i, Rule: r.name}
		switch state {
		case statePlaced:
			continue
		case stateUnconsidered:
			d.Condition = r.unconsidered
		case stateOpen:
			d.Condition = r.unplaced
		default:
			x := &r.exclude[state-stateExcluded]
			d.Condition, d.Exclusion = x.text, x.name
		}
		plan.Dropped = append(plan.Dropped, d)
	}
}
