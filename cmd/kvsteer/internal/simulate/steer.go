package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/policy"
)

// Steer is the product: the steps of [kvsteer.Router] between looking at the
// fleet and booking its choice, by the same code, with the same predictor and
// policy. A test compares the two choice by choice.
type Steer struct {
	Predictor kvsteer.Predictor
	Policy    policy.Policy
	// Objective is the product's if nil.
	Objective *steer.Objective
	// Truth replaces predicted times to first token by what the engine's state says.
	Truth bool
	// Rng draws the ties. The router's is seeded with its seed twice.
	Rng *rand.Rand

	round    steer.Round
	in       []kvsteer.Features
	out      []kvsteer.Prediction
	promised []promise // by worker
	wanting  []int     // others that wait for each
	audits   []steer.Audit
	errors   []float64
	covered  int // of those errors, within the predicted 90th percentile
}

// promise is the work of calls that wait in the router for a worker.
type promise struct {
	tokens int
	pairs  int64
}

// SimulatedModel is the model name that everything is served under.
const SimulatedModel = "simulated"

// expectation is what the rule remembers of a choice.
type expectation struct {
	features  kvsteer.Features
	ttft, p90 time.Duration
	indexed   int
}

// NewSteer returns the product as it comes.
func NewSteer(seed uint64) *Steer {
	return &Steer{
		Predictor: kvsteer.NewPredictor(kvsteer.PredictorOptions{}), Policy: policy.Default{},
		Rng: rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // breaks ties
	}
}

// Pick implements [Rule].
func (r *Steer) Pick(s *State) int {
	r.evaluate(s)
	if len(r.round.Plan.Order) == 0 {
		return -1
	}
	return r.round.Plan.Order[0]
}

func (r *Steer) evaluate(s *State) {
	r.round.Reset()
	r.round.Objective, r.round.Waiting = r.Objective, s.Queued
	q := steer.Prompt{Model: SimulatedModel, API: "chat", Tokens: s.Call.Prompt}
	for i := range s.Workers {
		v := &s.Workers[i]
		p := steer.Place{
			Name: v.Name, Instance: v.Name, Class: v.Class,
			Hit: v.Hit, BlockSize: v.BlockSize, Trust: s.Index.Trust(v.Owner),
			Prefilling: v.Prefilling, Decoding: v.Decoding,
			PrefillTokens: v.PrefillTokens, PrefillPairs: v.PrefillPairs,
			KVUsage: v.KVUsage, ReportAge: v.ReportAge, Tie: r.Rng.Uint32(),
		}
		if v.Prefilling > 0 {
			p.PrefillFor = s.Now - v.PrefillSince
		}
		if i < len(r.promised) {
			p.PromisedTokens, p.PromisedPairs = r.promised[i].tokens, r.promised[i].pairs
		}
		if r.wanting != nil {
			p.Wanting = r.wanting[i]
		}
		r.round.Add(&q, &p)
	}
	r.round.Predict((*asks)(r))
	if r.Truth {
		for i := range r.round.Candidates {
			r.round.Candidates[i].PredictedTTFT = trueTTFT(s, i)
		}
	}
	r.round.Choose(&q, r.Policy)
}

// asks queries the predictor, which has types that users know.
type asks Steer

// Predict implements [steer.Predictor].
func (a *asks) Predict(in []steer.Features, out []steer.Prediction) {
	a.in = a.in[:0]
	for i := range in {
		a.in = append(a.in, kvsteer.Features(in[i]))
	}
	a.out = append(a.out[:0], make([]kvsteer.Prediction, len(in))...)
	a.Predictor.Predict(a.in, a.out)
	for i := range out {
		out[i] = steer.Prediction(a.out[i])
	}
}

// expects is the time to first token that was predicted last.
func (r *Steer) expects(worker int) time.Duration { return r.round.Candidates[worker].PredictedTTFT }

// Booked implements [Booker].
func (r *Steer) Booked(j *Job, worker int) {
	p := &r.round.Predictions[worker]
	j.note = expectation{
		features: kvsteer.Features(r.round.Features[worker]), ttft: p.TTFT, p90: p.P90, indexed: r.round.Indexed[worker],
	}
}

// warmUp is the observations before the predictor's errors count.
const warmUp = 200

// FirstToken implements [Observer].
func (r *Steer) FirstToken(j *Job, ttft time.Duration) {
	x, ok := j.note.(expectation)
	if !ok {
		return
	}
	r.errors = append(r.errors, math.Abs(x.ttft.Seconds()-ttft.Seconds())/max(ttft.Seconds(), 1e-6))
	if len(r.errors) > warmUp && ttft <= x.p90 {
		r.covered++
	}
	r.Predictor.Observe(&x.features, max(ttft, 1))
}

// Done implements [Auditor].
func (r *Steer) Done(s *State, j *Job, cached int) {
	r.audit(s, j, cached)
	r.answered(s, j)
}

// answered lets the predictor learn from a whole answer.
func (r *Steer) answered(s *State, j *Job) {
	x, ok := j.note.(expectation)
	d, learns := r.Predictor.(kvsteer.DecodeObserver)
	if ok && learns {
		d.ObserveDecode(&x.features, steer.Pace(s.Now-j.first, j.Call.Output), j.Call.Output)
	}
}

// audit is the router's comparison of the cached tokens that engines report with
// those that the index predicted. The simulator has nothing to read anew.
func (r *Steer) audit(s *State, j *Job, cached int) {
	x, ok := j.note.(expectation)
	if !ok || !steer.Tells(cached, x.indexed) {
		return
	}
	if r.audits == nil {
		r.audits = make([]steer.Audit, len(s.Workers))
	}
	v := &s.Workers[j.worker]
	agrees := steer.Agrees(cached, x.indexed, v.BlockSize)
	if to, changed := r.audits[j.worker].Record(agrees, s.Index.Trust(v.Owner)); changed {
		s.Index.SetTrust(v.Owner, to)
	}
}

// predictions returns the median error of predicted times as a share of the
// actual ones, and the share of those within the 90th percentile; 0 if too few
// were made.
func (r *Steer) predictions() (median, covered float64) {
	if len(r.errors) <= warmUp {
		return 0, 0
	}
	e := slices.Clone(r.errors[warmUp:])
	slices.Sort(e)
	return Quantile(e, 0.5), float64(r.covered) / float64(len(e))
}
