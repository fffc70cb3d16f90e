package steer

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/policy"
)

// Prompt is the request that is to be placed.
type Prompt struct {
	// Model and API are what the client asked for.
	Model, API string
	// Tokens is the length of the prompt.
	Tokens int
	// Estimated: its token ids are not known.
	Estimated bool
	// Bypass: engines compute all of it, cached or not.
	Bypass bool
	// Attempt counts from 1. DryRun: nothing will be sent.
	Attempt int
	DryRun  bool
	// Prefill: who computes the prompt for another worker?
	Prefill bool
	// These are for the policy. Session: there is one.
	Tenant, QoS, Pool string
	Priority          int
	Session           bool
	Tags              []policy.Tag
	Header            map[string][]string
	Draw              uint64
	// Alias: nobody serves a model of that name.
	Alias bool
	// Price is what the request costs at a worker, in US dollars, if PriceKnown.
	Price      float64
	PriceKnown bool
	// TargetTTFT and TargetITL are 0 without a target.
	TargetTTFT, TargetITL time.Duration
}

// Place is what is known of one candidate: a data-parallel rank of a worker.
type Place struct {
	// Name, Instance and Rank identify it, Class is its hardware's.
	Name, Instance string
	Rank           int
	Class          string
	// Base is the model that the request's is an adapter of here, "" if it is none. What
	// takes time is the base model: adapters come and go, and learn and tell together.
	Base string
	// Labels must not be modified.
	Labels map[string]string

	// Hit is what the index says that it holds of the prompt, in blocks of
	// BlockSize tokens; Trust how far that holds.
	Hit       kvcache.Hit
	BlockSize int
	Trust     kvcache.Trust
	// Silent: events should come, and don't.
	Silent bool
	// Announces: events have told of its blocks.
	Announces bool
	// Speculative: its engine drops the last block of every hit.
	Speculative bool

	// PromisedTokens and PromisedPairs are the work of requests that wait in the
	// router for this rank, and come before.
	PromisedTokens int
	PromisedPairs  int64
	// Wanting is the other requests that wait in the router for this rank.
	Wanting int
	// Coming is those of Decoding whose prompt another worker computes, and that have
	// no first token yet.
	Coming int
	// Prefilling and Decoding are our own requests before and after their first
	// token; PrefillTokens is what the former have to compute, PrefillPairs the
	// attention work of that.
	Prefilling, Decoding int
	// OwnPrefilling is how many of Prefilling this router has sent itself, where there
	// are others that tell of theirs.
	OwnPrefilling int
	PrefillTokens int
	PrefillPairs  int64
	// PrefillFor is for how long the rank has been at the oldest of them, as far as
	// we can tell: since it was sent to an idle rank, or since the one before it had
	// its first token.
	PrefillFor time.Duration
	// Late is by how much the oldest of them is overdue, if that is known; else it is
	// worked out from PrefillFor. See [Round.Late].
	Late time.Duration
	// OtherWaiting and OtherRunning are requests that are not ours, and KVUsage the
	// share of KV memory in use, as the engine said ReportAge ago.
	OtherWaiting, OtherRunning int
	KVUsage                    float64
	ReportAge                  time.Duration

	// Follows: it can go on from a prompt that another worker has computed.
	Follows bool
	// Home: the request's session was last sent here.
	Home bool

	// Tie breaks exact ties: a number drawn at random.
	Tie uint32
}

// Round is one choice. Fill it by Add, then call Predict and Choose. The zero
// value is ready; Reset makes it so again and keeps its memory. It is not safe
// for concurrent use.
type Round struct {
	// Weights say what cached blocks are worth by tier. Nil counts all as 1.
	Weights *kvcache.TierWeights

	// Objective is what is minimised. Nil means DefaultObjective.
	Objective *Objective

	// Relay, if not nil, is who could compute the prompt for candidates that follow.
	Relay *Relay
	// Peers is the other routers that choose among the same workers: with any, the policy is
	// asked twice, see choose. Rush: somebody has just chosen, see [Rush].
	Peers int
	Rush  bool
	// Waiting is the requests that wait in the router for a worker to be free.
	Waiting int

	Candidates  []policy.Candidate
	Features    []Features
	Predictions []Prediction
	// Indexed is the cached tokens by the index, whatever its trust and wherever
	// they lie: what the engine should report.
	Indexed []int
	// Sure is how many of these it must report at least.
	Sure []int
	Plan policy.Plan

	req  policy.Request // here, so that none has to be allocated
	ways []way
	home []bool
	own  []int // of each candidate, Place.OwnPrefilling
	// equals are the candidates that are near the best.
	equals []int
	// fetching is how long handing over is expected to take, by candidate.
	fetching []time.Duration
	whole    []Features
	// computes: the candidates are asked to compute a prompt that another answers.
	computes bool
	beside   []beside
	before   []before
	ahead    []Features
	behind   []int // of the plan, in order, those that miss a target
}

// Reset forgets the last choice.
func (r *Round) Reset() {
	clear(r.Candidates)
	clear(r.Features)
	r.Peers, r.Rush, r.own = 0, false, r.own[:0]
	r.Waiting, r.Relay, r.ways, r.fetching, r.computes = 0, nil, r.ways[:0], r.fetching[:0], false
	r.beside = r.beside[:0]
	r.Candidates, r.Features = r.Candidates[:0], r.Features[:0]
	r.Predictions, r.Indexed, r.home = r.Predictions[:0], r.Indexed[:0], r.home[:0]
	r.Sure = r.Sure[:0]
	r.before = r.before[:0]
	r.forgetPlan()
}

// forgetPlan: a Policy that leaves the plan alone rejects; it must not get another's,
// nor that of its own answer before.
func (r *Round) forgetPlan() {
	r.Plan.Reset("")
}

// Add takes in a candidate for q.
func (r *Round) Add(q *Prompt, p *Place) {
	c := policy.Candidate{
		Name: p.Name, Instance: p.Instance, Rank: p.Rank, Type: policy.Local,
		Model: q.Model, Labels: p.Labels,
		InFlight: p.Prefilling + p.Decoding, PrefillAhead: p.PrefillTokens + p.PromisedTokens,
		Queued: p.Prefilling + p.OtherWaiting, Running: p.Decoding + p.OtherRunning, KVUsage: p.KVUsage,
		Trust: p.trust(q), Tie: p.Tie, Price: q.Price, PriceKnown: q.PriceKnown,
	}
	indexed := kvcache.CachedTokens(int(p.Hit.Blocks), p.BlockSize, q.Tokens, p.Speculative)
	// A suspect index is still audited, but nothing is expected of it.
	if c.Trust != kvcache.Suspect && c.Trust != kvcache.Blind && !q.Bypass {
		c.CachedTokens, c.CachedBlocks, c.CachedTiers = indexed, int(p.Hit.Blocks), p.Hit.Tiers
		c.CachedWorth = r.worth(indexed, &p.Hit)
	}
	r.Indexed, r.Sure = append(r.Indexed, indexed), append(r.Sure, p.sure(q, indexed))
	r.home, r.own = append(r.home, p.Home), append(r.own, p.OwnPrefilling)
	r.computes = q.Prefill
	r.before = append(r.before, before{
		since: p.PrefillFor, requests: p.Prefilling, tokens: p.PromisedTokens, pairs: p.PromisedPairs, wanting: p.Wanting + p.Coming,
		late: p.Late,
	})
	r.Candidates = append(r.Candidates, c)
	r.Features = append(r.Features, Features{
		Model: cmp.Or(p.Base, q.Model), Class: q.class(p.Class), Worker: p.Name,
		Uncached: max(q.Tokens-c.CachedWorth, 0), Cached: c.CachedWorth,
		AheadTokens: p.PrefillTokens, AheadPairs: float64(p.PrefillPairs),
		Waiting: p.OtherWaiting, Decoding: p.Decoding + p.OtherRunning,
		KVUsage: p.KVUsage, ReportAge: p.ReportAge,
	})
	r.follows(q, p)
}

// Outside takes in a candidate whose numbers are known, after Predict: an external service.
func (r *Round) Outside(c *policy.Candidate) {
	r.Candidates = append(r.Candidates, *c)
	r.Features = append(r.Features, Features{Model: c.Model, Worker: c.Name})
	r.Predictions = append(r.Predictions, Prediction{TTFT: c.PredictedTTFT})
	r.Indexed, r.home, r.before = append(r.Indexed, 0), append(r.home, false), append(r.before, before{})
	r.own, r.Sure = append(r.own, 0), append(r.Sure, 0)
}

// worth is what cached tokens are worth of the time to compute them: loading those
// that lie elsewhere than in GPU memory takes time as well.
func (r *Round) worth(tokens int, h *kvcache.Hit) int {
	if r.Weights == nil || h.Blocks <= 0 {
		return tokens
	}
	part := h.Worth(r.Weights) / float64(h.Blocks)
	return int(math.Round(float64(tokens) * part))
}

// trust is how far the cache state holds for this prompt: without token ids, or
// where events fail to come, it is never better than approximate. Who is suspected of
// having no cache at all may well be silent, too.
func (p *Place) trust(q *Prompt) kvcache.Trust {
	if q.Estimated || p.Silent && p.Trust != kvcache.Suspect {
		return min(p.Trust, kvcache.Approximate)
	}
	return p.Trust
}

// sure is how many of the tokens that the index says are cached the engine must find.
// Those that are only booked may still be computed, for a sibling that was sent just
// before, or never be, for one that failed. Of an engine that announces its blocks it is
// what it has announced. Of another one bookings are all there is, and count when
// nothing is being computed there.
func (p *Place) sure(q *Prompt, indexed int) int {
	if !p.Announces && p.Prefilling == 0 {
		return indexed
	}
	return kvcache.CachedTokens(int(p.Hit.Confirmed), p.BlockSize, q.Tokens, p.Speculative)
}

// predict fills Predictions for features.
func (r *Round) predict(p Predictor, features []Features) {
	r.Predictions = slices.Grow(r.Predictions[:0], len(features))[:len(features)]
	clear(r.Predictions)
	p.Predict(features, r.Predictions)
	r.untried(p, features)
}

// Predict writes what p expects into the candidates.
func (r *Round) Predict(p Predictor) {
	o := DefaultObjective()
	if r.Objective != nil {
		o = *r.Objective
	}
	if !o.NoProgress {
		r.progress(p)
	}
	for i := range r.Features {
		r.Features[i].AheadTokens += r.before[i].tokens
		r.Features[i].AheadPairs += float64(r.before[i].pairs)
	}
	r.addWays()
	r.predict(p, r.Features)
	fewest, quickest, most := r.fewest(), r.quickest(), r.instead(&o)
	// Those that wait in a line don't meet the answers that are under way now, and who
	// only computes a prompt does not answer.
	answers := !o.NoAnswer && fewest <= 0 && !r.computes
	fill := func(i int, c *policy.Candidate, expected *Prediction) {
		late := r.before[i].late
		c.PredictedTTFT = plus(expected.TTFT, late)
		c.Externality = times(expected.Externality, min(o.others(c.Running, r.before[i].wanting, fewest), most))
		if answers {
			c.Externality = plus(c.Externality, times(max(expected.answer()-quickest, 0), perAnswer))
		}
		c.PredictedP90, c.PredictedITL, c.PredictedE2E = expected.P90, expected.ITL, expected.E2E
		if c.PredictedP90 > 0 {
			c.PredictedP90 = plus(c.PredictedP90, late)
		}
		if c.PredictedE2E > 0 {
			c.PredictedE2E = plus(c.PredictedE2E, late)
		}
	}
	for i := range r.Candidates {
		fill(i, &r.Candidates[i], &r.Predictions[i])
	}
	r.takeWays(fill)
	for i := range r.Candidates {
		if c := &r.Candidates[i]; r.home[i] {
			c.Affinity = max(c.Objective()/loyalty, 0)
		}
	}
}

// Late is by how much candidate i's predictions are more than the predictor's: its
// rank is overdue with what it computes.
func (r *Round) Late(i int) time.Duration { return r.before[i].late }

// loyalty: a session leaves its worker for one that is a tenth better.
const loyalty = 10

// Choose lets p order the candidates. An empty Plan.Order means that nobody is to
// get the prompt.
func (r *Round) Choose(q *Prompt, p policy.Policy) {
	r.req = q.Policy()
	r.choose(q, p)
}

// order is one evaluation.
func (r *Round) order(q *Prompt, p policy.Policy) {
	r.forgetPlan()
	p.Evaluate(&r.req, r.Candidates, &r.Plan)
	if q.TargetTTFT > 0 || q.TargetITL > 0 {
		r.target(q)
	}
}

// Policy is the request as a policy sees it.
func (q *Prompt) Policy() policy.Request {
	return policy.Request{
		Model: q.Model, API: q.API, PromptTokens: q.Tokens, Attempt: max(q.Attempt, 1), DryRun: q.DryRun,
		Prefill: q.Prefill, Tenant: q.Tenant, Priority: q.Priority, Session: q.Session,
		TargetTTFT: q.TargetTTFT, TargetITL: q.TargetITL,
		Pool: q.Pool, QoS: q.QoS, Tags: q.Tags, Header: q.Header, Draw: q.Draw, Alias: q.Alias,
	}
}

// target puts the candidates that are expected to meet the request's targets before
// those that aren't, as far as the plan's first stage goes.
func (r *Round) target(q *Prompt) {
	r.behind = r.behind[:0]
	for i := range r.Candidates {
		r.Candidates[i].Misses = q.missedBy(&r.Candidates[i])
	}
	met, head := 0, r.Plan.Head() // a later stage is not for who misses a target
	for _, i := range r.Plan.Order[:head] {
		if r.Candidates[i].Misses == "" {
			r.Plan.Order[met] = i
			met++
			continue
		}
		r.behind = append(r.behind, i)
	}
	copy(r.Plan.Order[met:], r.behind)
}

// missedBy names the targets that c is expected to miss. The time to the first
// token is met if nine of ten such requests would be in time, where the predictor
// tells; the time between tokens is a mean in any case.
func (q *Prompt) missedBy(c *policy.Candidate) string {
	late := q.TargetTTFT > 0 && max(c.PredictedP90, c.PredictedTTFT) > q.TargetTTFT
	slow := q.TargetITL > 0 && c.PredictedITL > q.TargetITL
	switch {
	case late && slow:
		return "ttft, itl"
	case late:
		return "ttft"
	case slow:
		return "itl"
	default:
		return ""
	}
}
