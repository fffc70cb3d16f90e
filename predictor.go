package kvsteer

import (
	"time"
)

// Features is what is known about a request on one candidate at the moment of
// choosing. Tokens are counted, never estimated from text unless the decision
// says so.
type Features struct {
	// Model, Class and Worker say whose behaviour this is: observations are shared
	// within (Model, Class), and Worker adds a bias of its own. Of an adapter Model is
	// the base model, as the worker names it. Of a request that two workers serve, Class
	// is the hardware's with " (prefill)" behind it for who computes the prompt and
	// " (relayed)" for who answers, once a prediction of that rests on 20 Observations.
	Model, Class, Worker string
	// Uncached tokens must be computed; Cached ones are in the KV cache.
	Uncached, Cached int
	// AheadTokens is the uncached tokens of requests that are on the worker and
	// have no first token yet.
	AheadTokens int
	// AheadPairs is the attention work of the same requests, as [AttentionPairs].
	AheadPairs float64
	// Waiting counts requests that the engine reports as queued beyond those that
	// AheadTokens covers.
	Waiting int
	// Decoding counts requests that are generating.
	Decoding int
	// KVUsage is the share of KV-cache memory held by unfinished requests, 0 to 1;
	// 0 also if unknown.
	KVUsage float64
	// ReportAge is how old the engine's last report is, from which Waiting,
	// KVUsage and part of Decoding come. 0 means current, or that there is none.
	ReportAge time.Duration
	// OutputTokens is how long the answer is expected to be. 0 means as long as
	// answers of this model have been.
	OutputTokens int
}

// AttentionPairs is the number of (query, key) pairs that causal attention
// visits to compute uncached tokens behind cached ones: the quadratic part of a
// prefill's cost.
func AttentionPairs(uncached, cached int) float64 {
	u, c := float64(uncached), float64(cached)
	return u*c + u*(u+1)/2
}

// Prediction is what a [Predictor] expects.
type Prediction struct {
	// TTFT is the expected time from sending to the first token, stalls that no
	// feature foretells left out.
	TTFT time.Duration
	// P50 and P90 are the times that half and nine tenths of such requests stay
	// below, stalls included. P90 is not below TTFT. 0 if the predictor has none.
	P50, P90 time.Duration
	// Prefill is the part of TTFT that computing this very prompt takes.
	Prefill time.Duration
	// Externality is the delay that this prefill would cause to each request behind
	// it. The router multiplies it by how many that are, see docs/routing.md.
	Externality time.Duration
	// ITL is the expected time between tokens after the first, E2E the expected
	// time to the last. 0 if the predictor has none.
	ITL, E2E time.Duration
	// Observations counts what the prediction rests on; below 20 it is mostly the
	// prior.
	Observations int
}

// Predictor predicts time to first token and learns from what then happened.
// Implementations are safe for concurrent use; Predict is on the request path,
// where a lock is held, and must not block, nor call the Router. One that is also a [DecodeObserver] is told about the rest
// of the answer.
type Predictor interface {
	// Predict fills out[i] for in[i]; the slices have equal length.
	Predict(in []Features, out []Prediction)
	// Observe takes in a measured time to first token. The router calls it only
	// for requests whose first token came on the first attempt, but for those of which
	// [CrowdObserver] is told.
	Observe(f *Features, ttft time.Duration)
}

// DecodeObserver may be implemented by a [Predictor] that learns how answers go
// on. It is safe for concurrent use.
type DecodeObserver interface {
	// ObserveDecode takes in the mean time between tokens of an answer, 0 if it was
	// too short to tell, and how many tokens it had, 0 if that is not known. The
	// router calls it for answers that came to their end after a first token and
	// whose length the engine reported.
	ObserveDecode(f *Features, itl time.Duration, outputTokens int)
}

// CrowdObserver may be implemented by a [Predictor] of a router that has others beside it
// ([WithReplicas]). It is safe for concurrent use.
type CrowdObserver interface {
	// ObserveCrowded takes in the time to first token of a request that met others of
	// routers which chose the same worker at the same moment, so that f could not count
	// them. They may have been computed before it: the time tells of what happens, but not
	// how long the work in f takes. Observe is not told of it.
	ObserveCrowded(f *Features, ttft time.Duration)
}

// PredictorOptions are the settings of [NewPredictor]. The zero value works.
type PredictorOptions struct {
	// PriorTokensPerSecond is the prefill rate assumed before anything was
	// observed. 0 means 8,000, the order of magnitude of a 30B model on one
	// current data-centre GPU. Only ratios between candidates matter to a choice,
	// so the prior's error hardly does.
	PriorTokensPerSecond float64
	// PriorBase is the time to first token of an empty prompt. 0 means 30 ms.
	PriorBase time.Duration
	// PriorITL is the time between tokens assumed before anything was observed.
	// 0 means 30 ms.
	PriorITL time.Duration
	// PriorOutputTokens is the length of an answer assumed before anything was
	// observed. 0 means 250.
	PriorOutputTokens int
	// Forget is the weight that an observation keeps with every later one, in
	// (0, 1]. 0 means 0.995: about the last 200 observations count.
	Forget float64
	// ExternalityWeight scales the cost to others; 0 means 1: each request behind a
	// prefill is delayed by as long as that takes. Negative switches it off.
	ExternalityWeight float64
}

// Defaults of PredictorOptions.
const (
	defaultPriorRate   = 8000
	defaultPriorBase   = 30 * time.Millisecond
	defaultPriorITL    = 30 * time.Millisecond
	defaultPriorOutput = 250
	defaultForget      = 0.995
)

// NewPredictor returns the default Predictor. docs/routing.md describes its model.
// It keeps one for each (Model, Class), which starts from the prior of the
// options, and a factor for every worker. It is also a [DecodeObserver], a [CrowdObserver] and
// an [encoding.BinaryMarshaler] and [encoding.BinaryUnmarshaler], so that what
// was learned outlives a restart.
//
// What it remembers is bounded: 1,024 pairs of model and class and 65,536 workers.
// Beyond that it forgets what was longest without an observation.
func NewPredictor(o PredictorOptions) Predictor {
	o.fill()
	p := &learner{opts: o, groups: map[groupKey]*group{}}
	p.prior = *newGroup(&p.opts).current.Load()
	p.published.Store(&map[groupKey]*group{})
	return p
}

func (o *PredictorOptions) fill() {
	if !(o.PriorTokensPerSecond > 0) {
		o.PriorTokensPerSecond = defaultPriorRate
	}
	if o.PriorBase <= 0 {
		o.PriorBase = defaultPriorBase
	}
	if o.PriorITL <= 0 {
		o.PriorITL = defaultPriorITL
	}
	if o.PriorOutputTokens <= 0 {
		o.PriorOutputTokens = defaultPriorOutput
	}
	if !(o.Forget > 0) || o.Forget > 1 {
		o.Forget = defaultForget
	}
	switch {
	case o.ExternalityWeight == 0:
		o.ExternalityWeight = 1
	case o.ExternalityWeight < 0:
		o.ExternalityWeight = 0
	}
}
