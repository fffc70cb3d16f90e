package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// Steer is the product: what [kvsteer.Router] does between looking at the fleet
// and booking its choice, with the same predictor and policy. A test compares
// the two choice by choice.
type Steer struct {
	Predictor kvsteer.Predictor
	Policy    policy.Policy
	// Rng draws the ties. The router's is seeded with its seed twice.
	Rng *rand.Rand
	// Adjust, if not nil, may change what a candidate costs before the policy sees
	// it, to try out objectives.
	Adjust func(s *State, c *policy.Candidate, v *View)
	// Refine, if not nil, may change what is known of a worker before the predictor
	// sees it.
	Refine func(s *State, f *kvsteer.Features, v *View)

	cands  []policy.Candidate
	feats  []kvsteer.Features
	preds  []kvsteer.Prediction
	plan   policy.Plan
	errors []float64
	// streaks of agreeing (positive) or disagreeing requests, by worker.
	streaks []int
}

// SimulatedModel is the model name that everything is served under.
const SimulatedModel = "simulated"

// expectation is what the rule remembers of a choice.
type expectation struct {
	features kvsteer.Features
	ttft     time.Duration
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
	if len(r.plan.Order) == 0 {
		return -1
	}
	return r.plan.Order[0]
}

func (r *Steer) evaluate(s *State) {
	r.cands, r.feats = r.cands[:0], r.feats[:0]
	for i := range s.Workers {
		v := &s.Workers[i]
		trust := s.Index.Trust(v.Owner)
		cached, blocks := v.CachedTokens, v.CachedBlocks
		if trust == kvcache.Suspect || trust == kvcache.Blind {
			cached, blocks = 0, 0
		}
		r.cands = append(r.cands, policy.Candidate{
			Name: v.Name, Instance: v.Name, Type: policy.Local, Model: SimulatedModel,
			InFlight: v.InFlight, PrefillAhead: v.PrefillTokens, Queued: v.Prefilling,
			Running: v.Decoding, KVUsage: v.KVUsage,
			CachedTokens: cached, CachedBlocks: blocks, Trust: trust,
			Tie: r.Rng.Uint32(),
		})
		r.feats = append(r.feats, kvsteer.Features{
			Model: SimulatedModel, Class: v.Class, Worker: v.Name,
			Uncached: max(s.Call.Prompt-cached, 0), Cached: cached,
			AheadTokens: v.PrefillTokens, AheadPairs: float64(v.PrefillPairs), Decoding: v.Decoding,
			KVUsage: v.KVUsage, ReportAge: v.ReportAge,
		})
		if r.Refine != nil {
			r.Refine(s, &r.feats[i], v)
		}
	}
	r.preds = slices.Grow(r.preds[:0], len(r.feats))[:len(r.feats)]
	r.Predictor.Predict(r.feats, r.preds)
	for i := range r.cands {
		p := &r.preds[i]
		r.cands[i].PredictedTTFT, r.cands[i].Externality = p.TTFT, p.Externality
		r.cands[i].PredictedP90, r.cands[i].PredictedITL, r.cands[i].PredictedE2E = p.P90, p.ITL, p.E2E
		if r.Adjust != nil {
			r.Adjust(s, &r.cands[i], &s.Workers[i])
		}
	}
	req := policy.Request{Model: SimulatedModel, API: "chat", PromptTokens: s.Call.Prompt}
	r.Policy.Evaluate(&req, r.cands, &r.plan)
}

// Booked implements [Booker].
func (r *Steer) Booked(j *Job, worker int) {
	j.note = expectation{features: r.feats[worker], ttft: r.preds[worker].TTFT}
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
	r.Predictor.Observe(&x.features, max(ttft, 1))
}

// auditStreak is the router's: so many disagreements in a row make an index
// suspect, so many agreements restore it.
const auditStreak = 10

// Done implements [Auditor].
func (r *Steer) Done(s *State, j *Job, cached int) {
	r.audit(s, j, cached)
	r.answered(s, j)
}

// shortAnswer is the router's: of shorter ones the time between tokens says
// nothing.
const shortAnswer = 8

// answered lets the predictor learn from a whole answer.
func (r *Steer) answered(s *State, j *Job) {
	x, ok := j.note.(expectation)
	d, learns := r.Predictor.(kvsteer.DecodeObserver)
	if !ok || !learns {
		return
	}
	var itl time.Duration
	if n := j.Call.Output; n >= shortAnswer {
		itl = (s.Now - j.first) / time.Duration(n-1)
	}
	d.ObserveDecode(&x.features, itl, j.Call.Output)
}

// audit is the router's comparison of the cached tokens that engines report with
// those that the index predicted.
func (r *Steer) audit(s *State, j *Job, cached int) {
	v := &s.Workers[j.worker]
	diff := cached - j.cached
	agrees := diff < v.BlockSize && -diff < v.BlockSize
	if r.streaks == nil {
		r.streaks = make([]int, len(s.Workers))
	}
	streak := &r.streaks[j.worker]
	if agrees != (*streak > 0) {
		*streak = 0
	}
	if agrees {
		*streak++
	} else {
		*streak--
	}
	switch trust := s.Index.Trust(v.Owner); {
	case *streak <= -auditStreak && trust > kvcache.Suspect:
		s.Index.SetTrust(v.Owner, kvcache.Suspect)
	case *streak >= auditStreak && trust == kvcache.Suspect:
		s.Index.SetTrust(v.Owner, kvcache.Exact)
	}
}

func (r *Steer) predictionError() float64 {
	if len(r.errors) <= warmUp {
		return 0
	}
	e := slices.Clone(r.errors[warmUp:])
	slices.Sort(e)
	return Quantile(e, 0.5)
}
