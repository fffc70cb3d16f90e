package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
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

	round steer.Round
	// before is who could compute the prompt for workers that go on from there.
	before steer.Round
	relay  steer.Relay
	joint  steer.Joint
	at     int   // the candidate that was chosen last
	places []int // of the candidates, among the workers of the state
	known  []steer.Place
	firsts []int // and of those of before, in the fleet

	in       []kvsteer.Features
	out      []kvsteer.Prediction
	promised []promise // by worker
	wanting  []int     // others that wait for each
	near     bool      // several routers take near equals for equal
	turn     time.Duration
	audits   []audited // by worker
	errors   []float64
	covered  int // of those errors, within the predicted 90th percentile
}

var (
	_ HandOver = (*Steer)(nil)
	_ Relayer  = (*Steer)(nil)
)

// promise is the work of calls that wait in the router for a worker.
type promise struct {
	tokens int
	pairs  int64
}

// SimulatedModel is the model name that everything is served under.
const SimulatedModel = "simulated"

// expectation is what the rule remembers of a choice: what was known of the worker
// that answers, and of the one that computes the prompt for it.
type expectation struct {
	features, first kvsteer.Features
	ttft, p90       time.Duration
	fetching        time.Duration
	indexed         int // where the prompt is computed
	sure            int // of these, what must be reported
}

// NewSteer returns the product as it comes.
func NewSteer(seed uint64) *Steer {
	return &Steer{
		Predictor: kvsteer.NewPredictor(kvsteer.PredictorOptions{}), Policy: policy.Default{},
		Rng:  rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // breaks ties
		near: true,
	}
}

func (r *Steer) truth() bool { return r.Truth }

// Pick implements [Rule].
func (r *Steer) Pick(s *State) int {
	r.evaluate(s)
	if len(r.round.Plan.Order) == 0 {
		return -1
	}
	r.at = r.round.Plan.Order[0]
	return r.places[r.at]
}

// Relay implements [Relayer].
func (r *Steer) Relay() int {
	if k := r.first(); k >= 0 {
		return r.firsts[k]
	}
	return -1
}

// first is the candidate of before that computes the prompt; -1 if the one that was
// chosen does so itself.
func (r *Steer) first() int {
	if r.round.Candidates[r.at].PrefillOn == "" {
		return -1
	}
	return r.before.Plan.Order[0]
}

// computes is the candidate that computes the prompt, and the round it is of.
func (r *Steer) computes() (round *steer.Round, i int) {
	if k := r.first(); k >= 0 {
		return &r.before, k
	}
	return &r.round, r.at
}

// evaluate does what the router does between looking at the fleet and booking.
func (r *Steer) evaluate(s *State) {
	r.round.Reset()
	r.round.Objective, r.round.Waiting = r.Objective, s.Queued
	r.shares(s, &r.round)
	q := steer.Prompt{Model: SimulatedModel, API: "chat", Tokens: s.Call.Prompt, Attempt: s.Attempt, Draw: r.draw(s)}
	r.places, r.known = r.places[:0], r.known[:0]
	for i := range s.Workers {
		if s.Workers[i].answers() {
			r.places, r.known = append(r.places, i), append(r.known, r.place(s, &s.Workers[i]))
		}
	}
	r.relays(s, &q)
	for i := range r.known {
		r.round.Add(&q, &r.known[i])
	}
	r.round.Predict((*asks)(r))
	if r.Truth {
		for i := range r.round.Candidates {
			r.round.Candidates[i].PredictedTTFT = trueTTFT(s, &s.Workers[r.places[i]])
		}
	}
	r.round.Choose(&q, r.Policy)
}

// shares says what the router does where it is not alone.
func (r *Steer) shares(s *State, round *steer.Round) {
	if s.router != nil && r.near {
		round.Peers = s.router.peers()
		round.Rush = round.Peers > 0 && s.router.rush.On(epoch.Add(s.Now))
	}
}

// draw is the call's own random number, by which a policy may choose.
func (r *Steer) draw(s *State) uint64 {
	if s.job == nil {
		return 0
	}
	if s.job.draw == 0 {
		s.job.draw = r.Rng.Uint64()
	}
	return s.job.draw
}

// relays finds out who would compute the prompt for workers that can go on from
// there, if there are both.
func (r *Steer) relays(s *State, q *steer.Prompt) {
	role := func(role fleet.Role) bool {
		return slices.ContainsFunc(s.Workers, func(v View) bool { return v.Role == role })
	}
	if !s.Relays() || !role(fleet.RolePrefill) || !role(fleet.RoleDecode) {
		return
	}
	r.before.Reset()
	r.before.Objective = r.Objective
	r.shares(s, &r.before)
	leg := *q
	leg.Prefill = true
	r.firsts = r.firsts[:0]
	for i := range s.Workers {
		if v := &s.Workers[i]; !v.answers() {
			r.firsts = append(r.firsts, v.index)
			p := r.place(s, v)
			r.before.Add(&leg, &p)
		}
	}
	for i := range r.known {
		r.before.Beside(&r.known[i])
	}
	r.before.Predict((*asks)(r))
	r.before.Choose(&leg, r.Policy)
	if len(r.before.Plan.Order) > 0 {
		r.relay = steer.Relay{By: &r.before.Candidates[r.before.Plan.Order[0]], Pace: s.TransferRate, Wide: r.joint.Factor()}
		r.round.Relay = &r.relay
	}
}

// place is what is known of a worker.
func (r *Steer) place(s *State, v *View) steer.Place {
	p := steer.Place{
		Name: v.Name, Instance: v.Name, Class: v.Class,
		Hit: v.Hit, BlockSize: v.BlockSize, Trust: s.Index.Trust(v.Owner),
		Announces: s.Index.BlockSize(v.Owner) > 0, Follows: v.Role == fleet.RoleDecode,
		Prefilling: v.Prefilling, Decoding: v.Decoding, OwnPrefilling: v.OwnPrefilling, Coming: v.Coming,
		PrefillTokens: v.PrefillTokens, PrefillPairs: v.PrefillPairs,
		OtherWaiting: v.OtherWaiting, OtherRunning: v.OtherRunning,
		KVUsage: v.KVUsage, ReportAge: v.ReportAge, Tie: r.Rng.Uint32(),
	}
	if v.index < len(r.audits) && r.audits[v.index].of == v.Owner && r.audits[v.index].Doubted() {
		p.Trust = steer.Suspected(p.Trust)
	}
	if v.Prefilling > 0 {
		p.PrefillFor = s.Now - v.PrefillSince
	}
	if v.index < len(r.promised) {
		p.PromisedTokens, p.PromisedPairs = r.promised[v.index].tokens, r.promised[v.index].pairs
	}
	if r.wanting != nil {
		p.Wanting = r.wanting[v.index]
	}
	return p
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

// turns is by how much each of several routers chooses later than the one before it.
func (r *Steer) turns() time.Duration { return r.turn }

// expects is the time to first token that was predicted for the last choice.
func (r *Steer) expects() time.Duration { return r.round.Candidates[r.at].PredictedTTFT }

// Booked implements [Booker].
func (r *Steer) Booked(j *Job) {
	c := &r.round.Candidates[r.at]
	at, i := r.computes()
	x := expectation{
		features: kvsteer.Features(r.round.Features[r.at]), ttft: c.PredictedTTFT, p90: c.PredictedP90, indexed: at.Indexed[i], sure: at.Sure[i],
	}
	if at == &r.before {
		x.first, x.fetching = kvsteer.Features(at.Features[i]), r.round.Fetching(r.at)
	}
	j.note = x
}

// warmUp is the observations before the predictor's errors count.
const warmUp = 200

// Handed implements [HandOver].
func (r *Steer) Handed(s *State, j *Job, took time.Duration, cached int) {
	r.computed(j, took)
	r.audit(s, j, cached)
}

// computed lets the predictor learn from a prompt that was computed for another worker.
func (r *Steer) computed(j *Job, took time.Duration) {
	if x, ok := j.note.(expectation); ok && j.attempt == 1 {
		r.learn(j.by, &x.first, max(took, 1))
	}
}

// learn is the router's.
func (r *Steer) learn(l *Leg, f *kvsteer.Features, took time.Duration) {
	if !(*steer.Features)(f).Surprised(l.unheard) {
		r.Predictor.Observe(f, took)
	} else if c, ok := r.Predictor.(kvsteer.CrowdObserver); ok {
		c.ObserveCrowded(f, took)
	}
}

// FirstToken implements [Observer].
func (r *Steer) FirstToken(j *Job, ttft time.Duration) {
	x, ok := j.note.(expectation)
	if !ok || j.attempt > 1 {
		return
	}
	whole := j.first - j.began
	r.errors = append(r.errors, math.Abs(x.ttft.Seconds()-whole.Seconds())/max(whole.Seconds(), 1e-6))
	if len(r.errors) > warmUp && whole <= x.p90 {
		r.covered++
	}
	if j.by != nil {
		r.joint.Observe(whole, x.p90)
	}
	r.learn(j.Leg, &x.features, steer.Fetched(ttft, x.fetching))
}

// Done implements [Auditor]. Of a prompt that came from elsewhere all looks cached.
func (r *Steer) Done(s *State, j *Job, cached int) {
	if j.by == nil {
		r.audit(s, j, cached)
	}
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

// audited is an audit of one instance.
type audited struct {
	steer.Audit

	of kvcache.Owner
}

// audit is the router's comparison of the cached tokens that engines report with
// those that the index predicted. The simulator has nothing to read anew.
func (r *Steer) audit(s *State, j *Job, cached int) {
	x, ok := j.note.(expectation)
	if !ok {
		return
	}
	i := j.computes().worker
	if n := i + 1 - len(r.audits); n > 0 {
		r.audits = append(r.audits, make([]audited, n)...)
	}
	v := s.worker(i)
	c := steer.Comparison{
		Reported: cached, Expected: x.indexed, Sure: x.sure,
		Prompt: j.Call.Prompt, Counted: j.Call.Prompt, Block: v.BlockSize,
	}
	if r.audits[i].of != v.Owner { // it was restarted
		r.audits[i] = audited{of: v.Owner}
	}
	r.audits[i].Record(&c, s.Index.Trust(v.Owner))
}

// predictions returns the errors of predicted times as a share of the actual ones, and
// how many of those were within the 90th percentile.
func (r *Steer) predictions() (errors []float64, covered int) {
	if len(r.errors) <= warmUp {
		return nil, 0
	}
	return r.errors[warmUp:], r.covered
}
