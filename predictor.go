package kvsteer

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/rls"
)

// Features is what is known about a request on one candidate at the moment of
// choosing. Tokens are counted, never estimated from text unless the decision
// says so.
type Features struct {
	// Model, Class and Worker say whose behaviour this is: observations are shared
	// within (Model, Class), and Worker adds a bias of its own.
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
	// TTFT is the expected time from sending to the first token.
	TTFT time.Duration
	// Prefill is the part of TTFT that computing this very prompt takes.
	Prefill time.Duration
	// Externality is the delay that this prefill would cause to other requests.
	Externality time.Duration
	// Observations counts what the prediction rests on; below 20 it is mostly the
	// prior.
	Observations int
}

// Predictor predicts time to first token and learns from what then happened.
// Implementations are safe for concurrent use; Predict is on the request path
// and must not block.
type Predictor interface {
	// Predict fills out[i] for in[i]; the slices have equal length.
	Predict(in []Features, out []Prediction)
	// Observe takes in a measured time to first token. The router calls it only
	// for requests whose first token came on the first attempt.
	Observe(f *Features, ttft time.Duration)
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
	// Forget is the weight that an observation keeps with every later one, in
	// (0, 1]. 0 means 0.995: about the last 200 observations count.
	Forget float64
	// ExternalityWeight scales the cost to others; 0 means 1, that is, a request
	// counts its own prefill twice. Negative switches it off.
	ExternalityWeight float64
}

// Defaults and shape of the model. Features are scaled so that coefficients
// come out near one tenth of a second.
const (
	defaultPriorRate = 8000
	defaultPriorBase = 30 * time.Millisecond
	defaultForget    = 0.995

	kilo = 1e3
	mega = 1e6
	// meanPrompt stands for a waiting request of unknown length until the model
	// has seen prompts.
	meanPrompt = 1000

	featBase    = 0
	featTokens  = 1 // thousand tokens to compute
	featPairs   = 2 // million attention pairs, ours and ahead
	featAhead   = 3 // thousand tokens ahead: part of them is done, nobody says which
	featDecode  = 4 // ten decoding requests
	featWaiting = 5 // waiting requests of unknown length

	// noise is the usual error of one measurement in seconds: a step of a loaded
	// engine, more or less.
	noise = 0.02

	// fastest is the least time that a thousand tokens take, in seconds: no worker
	// prefills a million tokens a second. Without it, a few noisy observations
	// could make computing a prompt look free and a cache worthless.
	fastest = 1e-3

	// A residual beyond this many times the usual one is an outlier and is pulled
	// in to it.
	outlierFactor = 4
	// Biases outside this range are engines in trouble, not slow engines.
	minBias, maxBias = 1.0 / 8, 8
	biasStep         = 0.05
	// biasSlack is how far a worker's bias, in logarithm, must lie from its peers'
	// before it counts, and what is taken off it then: equal workers differ by
	// noise, and to prefer one of them for that crowds it.
	biasSlack    = 0.2
	residualStep = 0.05
	// maxGroups and maxWorkers bound what is remembered; beyond them the prior
	// (or no bias) serves.
	maxGroups  = 1024
	maxWorkers = 65536
)

// NewPredictor returns the default Predictor. Per (model, class) it fits
//
//	TTFT = base + a*uncached + b*ahead + c*pairs + d*decoding + e*waiting
//
// by recursive least squares with forgetting and without negative coefficients,
// where uncached and ahead count the tokens to compute for this prompt and for
// those before it, and pairs the attention work of both. It keeps a
// multiplicative bias for every worker.
func NewPredictor(o PredictorOptions) Predictor {
	if o.PriorTokensPerSecond <= 0 {
		o.PriorTokensPerSecond = defaultPriorRate
	}
	if o.PriorBase <= 0 {
		o.PriorBase = defaultPriorBase
	}
	if o.Forget <= 0 || o.Forget > 1 {
		o.Forget = defaultForget
	}
	switch {
	case o.ExternalityWeight == 0:
		o.ExternalityWeight = 1
	case o.ExternalityWeight < 0:
		o.ExternalityWeight = 0
	}
	p := &learner{opts: o, groups: map[groupKey]*group{}}
	p.prior = coefficients{theta: p.priorTheta()}
	p.published.Store(&map[groupKey]*group{})
	return p
}

type groupKey struct{ model, class string }

// learner implements Predictor. Readers see published (copy on write) and each
// group's current coefficients; writers hold mu.
type learner struct {
	opts  PredictorOptions
	prior coefficients

	published atomic.Pointer[map[groupKey]*group]
	mu        sync.Mutex
	groups    map[groupKey]*group
}

// coefficients are immutable once published.
type coefficients struct {
	theta   rls.Vector
	updates int
}

type group struct {
	current atomic.Pointer[coefficients]
	biases  sync.Map // worker name -> *atomic.Uint64 holding the bits of a logarithm
	workers atomic.Int32

	mu       sync.Mutex
	model    *rls.Model
	residual float64 // mean absolute residual in seconds
}

func (p *learner) priorTheta() rls.Vector {
	perKilo := kilo / p.opts.PriorTokensPerSecond
	return rls.Vector{
		featBase:    p.opts.PriorBase.Seconds(),
		featTokens:  perKilo,
		featAhead:   perKilo,
		featWaiting: perKilo * meanPrompt / kilo,
	}
}

func vector(f *Features) rls.Vector {
	return rls.Vector{
		featBase:    1,
		featTokens:  float64(f.Uncached) / kilo,
		featAhead:   float64(f.AheadTokens) / kilo,
		featPairs:   (AttentionPairs(f.Uncached, f.Cached) + f.AheadPairs) / mega,
		featDecode:  float64(f.Decoding) / 10,
		featWaiting: float64(f.Waiting),
	}
}

// Predict implements [Predictor] without allocating.
func (p *learner) Predict(in []Features, out []Prediction) {
	groups := *p.published.Load()
	var lastKey groupKey
	var last *group
	for i := range in {
		f := &in[i]
		key := groupKey{f.Model, f.Class}
		if i == 0 || key != lastKey {
			last, lastKey = groups[key], key
		}
		c, bias := &p.prior, 1.0
		if last != nil {
			c, bias = last.current.Load(), last.bias(f.Worker)
		}
		x := vector(f)
		own := c.theta[featTokens]*float64(f.Uncached)/kilo +
			c.theta[featPairs]*AttentionPairs(f.Uncached, f.Cached)/mega
		total := c.theta.Dot(&x)
		prefill := seconds(own * bias)
		out[i] = Prediction{
			TTFT:         max(seconds(total*bias), prefill),
			Prefill:      prefill,
			Externality:  seconds(own * bias * p.opts.ExternalityWeight),
			Observations: c.updates,
		}
	}
}

// Observe implements [Predictor].
func (p *learner) Observe(f *Features, ttft time.Duration) {
	y := ttft.Seconds()
	if y <= 0 {
		return
	}
	g := p.group(groupKey{f.Model, f.Class})
	if g == nil {
		return
	}
	bias := g.bias(f.Worker)
	x := vector(f)

	g.mu.Lock()
	defer g.mu.Unlock()
	expected := g.current.Load().theta.Dot(&x)
	target := y / bias
	residual := target - expected
	if n := g.model.Updates(); n > rls.Dim {
		if limit := outlierFactor * g.residual; math.Abs(residual) > limit {
			residual = math.Copysign(limit, residual)
			target = expected + residual
		}
		g.residual += residualStep * (math.Abs(target-expected) - g.residual)
	} else {
		g.residual += (math.Abs(residual) - g.residual) / float64(n+1)
	}
	g.model.Update(&x, target)
	theta := g.model.NonNegative() // no work makes an engine faster
	theta[featTokens] = max(theta[featTokens], fastest)
	g.learnBias(f.Worker, y, theta.Dot(&x))
	g.current.Store(&coefficients{theta: theta, updates: g.model.Updates()})
}

func (p *learner) group(key groupKey) *group {
	if g := (*p.published.Load())[key]; g != nil {
		return g
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if g := p.groups[key]; g != nil {
		return g
	}
	if len(p.groups) >= maxGroups {
		return nil
	}
	prior := p.priorTheta()
	// How far each coefficient may lie from the prior, in seconds, over the noise
	// of a measurement.
	perKilo := 2 * prior[featTokens] / noise
	spread := rls.Vector{
		featBase: 0.1 / noise, featTokens: perKilo, featPairs: 0.01 / noise,
		featAhead: perKilo, featDecode: 0.05 / noise, featWaiting: perKilo,
	}
	g := &group{model: rls.New(prior, spread, p.opts.Forget)}
	g.current.Store(&coefficients{theta: prior})
	p.groups[key] = g
	next := make(map[groupKey]*group, len(p.groups))
	for k, v := range p.groups {
		next[k] = v
	}
	p.published.Store(&next)
	return g
}

// bias is the factor to apply for a worker.
func (g *group) bias(worker string) float64 {
	b, ok := g.biases.Load(worker)
	if !ok {
		return 1
	}
	log := math.Float64frombits(b.(*atomic.Uint64).Load()) //nolint:forcetypeassert // the map holds nothing else
	switch {
	case log > biasSlack:
		return math.Exp(log - biasSlack)
	case log < -biasSlack:
		return math.Exp(log + biasSlack)
	default:
		return 1
	}
}

// learnBias moves the worker's bias a small step, in the logarithm, towards the
// ratio of what happened to what the group expects.
func (g *group) learnBias(worker string, actual, expected float64) {
	if expected <= 0 {
		return
	}
	ratio := math.Log(min(max(actual/expected, minBias), maxBias))
	b, ok := g.biases.Load(worker)
	if !ok {
		if g.workers.Load() >= maxWorkers {
			return
		}
		if b, ok = g.biases.LoadOrStore(worker, new(atomic.Uint64)); !ok {
			g.workers.Add(1)
		}
	}
	bits := b.(*atomic.Uint64) //nolint:forcetypeassert // the map holds nothing else
	log := math.Float64frombits(bits.Load())
	bits.Store(math.Float64bits(log + biasStep*(ratio-log))) // g.mu is held
}

func seconds(s float64) time.Duration {
	const most = 1e6 // eleven days: beyond it only the order matters
	return time.Duration(min(max(s, 0), most) * float64(time.Second))
}
