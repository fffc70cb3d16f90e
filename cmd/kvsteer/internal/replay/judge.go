package replay

import (
	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/policy"
)

// judge decides recorded requests again, by the code that the router runs.
type judge struct {
	policy    policy.Policy
	predictor kvsteer.Predictor // nil: predictions are as recorded
	prices    *Prices

	// round is the choice; of it candidates keep what the last verdict says. before is
	// the choice of who computes the prompt.
	round, before steer.Round
	// req is what the policy is told.
	req policy.Request
	in  []kvsteer.Features
	out []kvsteer.Prediction
}

// verdict is a decision made again. It is valid until the next one.
type verdict struct {
	d *kvsteer.Decision
	// was and is are indices of the chosen candidate, -1 for nobody.
	was, is int
	// candidates are as they were judged: with other predictions, or prices.
	candidates []policy.Candidate
	plan       *policy.Plan
	// predicted: the predictions are another predictor's; but for those of kept
	// candidates, whose prompt another worker was to compute.
	predicted bool
	kept      int
	// prefill is whether another worker would compute the prompt.
	prefill bool
	// busy: the request was refused for a reason that no policy has a say in, such as
	// that too many waited; then it is again.
	busy bool
}

// decide judges d. rejected is why it chose nobody, if it did.
func (j *judge) decide(d *kvsteer.Decision, rejected string) verdict {
	v := verdict{d: d, was: d.Chosen, is: -1}
	j.fill(&j.round, d.Candidates, d)
	if j.predictor != nil && len(d.Features) == len(d.Candidates) {
		v.predicted = true
		v.kept = j.predict(d)
	}
	if j.prices != nil {
		j.prices.fill(j.round.Candidates, d)
	}
	j.choose(&j.round, d, false)
	switch rejected {
	case "", kvsteer.CodeRejectedByPolicy.String(), kvsteer.CodeNoCandidates.String():
		if len(j.round.Plan.Order) > 0 {
			v.is = j.round.Plan.Order[0]
		}
	default:
		v.was, v.busy = -1, true
	}
	v.candidates, v.plan = j.round.Candidates, &j.round.Plan
	if p := d.Prefill; p != nil {
		j.fill(&j.before, p.Candidates, d)
		j.choose(&j.before, d, true)
		order := j.before.Plan.Order
		v.prefill = len(order) == 0 || order[0] != p.Chosen
	}
	return v
}

// fill makes r the round that was recorded.
func (j *judge) fill(r *steer.Round, list []kvsteer.DecisionCandidate, d *kvsteer.Decision) {
	r.Reset()
	r.Waiting = d.Waiting
	var none steer.Prompt
	for i := range list {
		c := &list[i].Candidate
		// Add knows the session's worker; what it works out is replaced by the record.
		r.Add(&none, &steer.Place{Home: c.Affinity > 0, Late: list[i].Late, Wanting: list[i].Wanting})
		r.Candidates[i] = *c
		if len(d.Features) == len(list) {
			r.Features[i] = steer.Features(d.Features[i])
		}
	}
}

// predict replaces the predictions, and with them the objective, and returns how many
// it had to leave as they were.
func (j *judge) predict(d *kvsteer.Decision) (kept int) {
	for i := range j.round.Candidates {
		// Shares of the objective, which would count in.
		j.round.Candidates[i].Affinity, j.round.Candidates[i].Near = 0, 0
	}
	j.round.Predict(j)
	for i := range d.Candidates {
		if c := &d.Candidates[i].Candidate; c.PrefillOn != "" {
			j.round.Candidates[i] = *c
			kept++
		}
	}
	return kept
}

// Predict implements [steer.Predictor] by the other predictor.
func (j *judge) Predict(in []steer.Features, out []steer.Prediction) {
	j.in = j.in[:0]
	for i := range in {
		j.in = append(j.in, kvsteer.Features(in[i]))
	}
	j.out = append(j.out[:0], make([]kvsteer.Prediction, len(in))...)
	j.predictor.Predict(j.in, j.out)
	for i := range out {
		out[i] = steer.Prediction(j.out[i])
	}
}

// choose asks the policy, which is told what it was told then.
func (j *judge) choose(r *steer.Round, d *kvsteer.Decision, prefill bool) {
	j.req = d.Request
	if prefill { // no target is for that
		j.req.Prefill, j.req.TargetTTFT, j.req.TargetITL = true, 0, 0
	}
	r.Choose(&steer.Prompt{TargetTTFT: j.req.TargetTTFT, TargetITL: j.req.TargetITL}, told{j})
}

// told is the policy, asked about what was recorded.
type told struct{ j *judge }

func (t told) Evaluate(_ *policy.Request, candidates []policy.Candidate, plan *policy.Plan) {
	t.j.policy.Evaluate(&t.j.req, candidates, plan)
}
