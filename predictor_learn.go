package kvsteer

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/predict"
)

const (
	kilo = 1e3
	// meanPrompt stands for a waiting request of unknown length until the model
	// has seen some.
	meanPrompt = 1000

	// crowded is the KV usage from which engines begin to preempt and to hold
	// requests back.
	crowded = 0.85
	// usualAge is how old a report may be without meaning anything: to prefer the
	// worker that happened to be scraped last would crowd it. oldest bounds what
	// age is made to count for.
	usualAge, oldest = 2 * time.Second, 30 * time.Second

	// Biases outside this range are engines in trouble, not slow engines.
	minBias, maxBias = 1.0 / 8, 8
	biasStep         = 0.05
	// biasPull bounds what one request can say about a worker.
	biasPull = 0.5
	// biasSlack is how far a worker's bias, in logarithm, must lie from its peers'
	// before it counts, and what is taken off it then: equal workers differ by
	// noise, and to prefer one of them for that crowds it.
	biasSlack = 0.2
	// outputStep is how fast the usual length of answers follows.
	outputStep = 0.02
	// maxGroups and maxWorkers bound what is remembered.
	maxGroups  = 1024
	maxWorkers = 65536
)

type groupKey struct{ model, class string }

// learner is the Predictor of [NewPredictor]. Readers see published (copy on
// write) and each group's current snapshot; writers hold mu to add a group and
// the group's mu to learn.
type learner struct {
	opts  PredictorOptions
	prior snapshot

	published atomic.Pointer[map[groupKey]*group]
	clock     atomic.Int64 // counts observations: when a group or worker was last heard of
	workers   atomic.Int64 // biases remembered, over all groups
	mu        sync.Mutex
	groups    map[groupKey]*group
}

// snapshot is what predictions are made from. It is immutable once published.
type snapshot struct {
	surface predict.Surface
	curve   predict.Curve
	tempo   predict.Tempo
	output  float64 // tokens
	updates int
}

type group struct {
	current atomic.Pointer[snapshot]
	biases  sync.Map // worker name -> *bias
	heard   atomic.Int64
	gone    atomic.Bool // no longer in groups: nothing of it may be kept

	mu          sync.Mutex
	ttft, itl   *predict.Fit
	calibration *predict.Calibration
	output      float64
}

type bias struct {
	bits  atomic.Uint64 // of a logarithm
	heard atomic.Int64
}

func newGroup(o *PredictorOptions) *group {
	g := &group{
		ttft:        predict.NewTTFT(o.PriorBase.Seconds(), kilo/o.PriorTokensPerSecond, meanPrompt, o.Forget),
		itl:         predict.NewITL(o.PriorITL.Seconds(), o.Forget*o.Forget), // paces change faster
		calibration: predict.NewCalibration(),
		output:      float64(o.PriorOutputTokens),
	}
	g.current.Store(g.snapshot())
	return g
}

// snapshot makes a snapshot of what g has learned. The caller holds g.mu.
func (g *group) snapshot() *snapshot {
	s := &snapshot{
		surface: predict.NewSurface(g.ttft.Coefficients()), tempo: predict.NewTempo(g.itl.Coefficients()),
		output: g.output, updates: g.ttft.Updates(),
	}
	s.curve.Fill(g.calibration)
	return s
}

func (f *Features) load() predict.Load {
	return predict.Load{
		Own: float64(max(f.Uncached, 0)), Ahead: float64(max(f.AheadTokens, 0)),
		OwnPairs:   AttentionPairs(max(f.Uncached, 0), max(f.Cached, 0)),
		AheadPairs: max(f.AheadPairs, 0),
		Waiting:    float64(max(f.Waiting, 0)), Decoding: float64(max(f.Decoding, 0)),
		Pressure: f.pressure(),
		Stale:    min(max(f.ReportAge-usualAge, 0), oldest).Seconds(),
	}
}

func (f *Features) pressure() float64 {
	return min(max(f.KVUsage-crowded, 0)/(1-crowded), 1)
}

func (f *Features) pace() predict.Pace {
	return predict.Pace{
		Decoding: float64(max(f.Decoding, 0)), Context: float64(max(f.Uncached, 0) + max(f.Cached, 0)),
		Arriving: float64(max(f.Uncached, 0) + max(f.AheadTokens, 0)), Pressure: f.pressure(),
	}
}

// Predict implements [Predictor] without allocating.
func (p *learner) Predict(in []Features, out []Prediction) {
	groups := *p.published.Load()
	var key groupKey
	var g *group
	s := &p.prior
	for i := range in {
		f := &in[i]
		if k := (groupKey{f.Model, f.Class}); i == 0 || k != key {
			key, g, s = k, groups[k], &p.prior
			if g != nil {
				s = g.current.Load()
			}
		}
		factor := 1.0
		if g != nil {
			factor = g.bias(f.Worker)
		}
		p.predict(s, f, factor, &out[i])
	}
}

func (p *learner) predict(s *snapshot, f *Features, bias float64, out *Prediction) {
	load, pace := f.load(), f.pace()
	total, own := s.surface.Time(&load)
	mean, mid, high := s.curve.At(total)
	// The same prompt costs others the same on equal workers, whatever is ahead of
	// it there: corrected at its own height, or an idle worker could lose to a busy
	// one whose height happens to be corrected downwards.
	own, _, _ = s.curve.At(own)
	tokens := s.output
	if f.OutputTokens > 0 {
		tokens = float64(f.OutputTokens)
	}
	itl := s.tempo.Time(&pace)
	*out = Prediction{
		TTFT: seconds(mean * bias), P50: seconds(mid * bias), P90: seconds(high * bias),
		Prefill: seconds(own * bias), Externality: seconds(own * bias * p.opts.ExternalityWeight),
		ITL: seconds(itl), E2E: seconds(mean*bias + itl*max(tokens-1, 0)),
		Observations: s.updates,
	}
}

// Observe implements [Predictor].
func (p *learner) Observe(f *Features, ttft time.Duration) {
	if ttft > 0 {
		p.observe(f, ttft, true)
	}
}

// observe takes in a time; alone says that it is that of the work in f.
func (p *learner) observe(f *Features, ttft time.Duration, alone bool) {
	now := p.clock.Add(1)
	g := p.group(groupKey{f.Model, f.Class})
	g.heard.Store(now)
	y, load := ttft.Seconds(), f.load()

	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.current.Load()
	total, _ := s.surface.Time(&load)
	mean, _, _ := s.curve.At(total)
	typical := y / g.bias(f.Worker)
	g.calibration.Observe(&s.curve, total, typical)
	if alone {
		g.ttft.UpdateTTFT(&load, typical, total)
	}
	p.learnBias(g, f.Worker, y/mean, now)

	next := *s
	next.surface = predict.NewSurface(g.ttft.Coefficients())
	next.curve.Fill(g.calibration)
	next.updates = g.ttft.Updates()
	g.current.Store(&next)
}

// ObserveCrowded implements [CrowdObserver]: what others do is no matter of the load, but
// of how far predictions are to be trusted. A worker's bias is against the mean of all
// that happens, so it learns as from any other, or its plain times would look short.
func (p *learner) ObserveCrowded(f *Features, ttft time.Duration) {
	if ttft > 0 {
		p.observe(f, ttft, false)
	}
}

// ObserveDecode implements [DecodeObserver].
func (p *learner) ObserveDecode(f *Features, itl time.Duration, outputTokens int) {
	if itl <= 0 && outputTokens <= 0 {
		return
	}
	g := p.group(groupKey{f.Model, f.Class})
	pace := f.pace()

	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.current.Load()
	if itl > 0 {
		g.itl.UpdateITL(&pace, itl.Seconds(), s.tempo.Time(&pace))
	}
	if outputTokens > 0 {
		g.output += outputStep * (float64(outputTokens) - g.output)
	}
	next := *s
	next.tempo = predict.NewTempo(g.itl.Coefficients())
	next.output = g.output
	g.current.Store(&next)
}

// group returns the group of a key, making it, and room for it, if need be.
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
		p.dropGroup()
	}
	g := newGroup(&p.opts)
	g.heard.Store(p.clock.Load())
	p.groups[key] = g
	p.publish()
	return g
}

// publish makes the groups visible to readers. The caller holds p.mu.
func (p *learner) publish() {
	next := make(map[groupKey]*group, len(p.groups))
	maps.Copy(next, p.groups)
	p.published.Store(&next)
}

// dropGroup forgets the group that was longest unheard of. The caller holds p.mu.
func (p *learner) dropGroup() {
	var oldest groupKey
	least := int64(math.MaxInt64)
	for k, g := range p.groups {
		if h := g.heard.Load(); h < least {
			oldest, least = k, h
		}
	}
	g := p.groups[oldest]
	delete(p.groups, oldest)
	g.gone.Store(true)
	g.biases.Range(func(name, _ any) bool {
		p.forgetWorker(g, name)
		return true
	})
}

func (p *learner) forgetWorker(g *group, name any) {
	if _, ok := g.biases.LoadAndDelete(name); ok {
		p.workers.Add(-1)
	}
}

// bias is the factor to apply for a worker.
func (g *group) bias(worker string) float64 {
	b, ok := g.biases.Load(worker)
	if !ok {
		return 1
	}
	log := math.Float64frombits(b.(*bias).bits.Load()) //nolint:forcetypeassert // the map holds nothing else
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
// ratio of what happened to what the group expects. The caller holds g.mu.
func (p *learner) learnBias(g *group, worker string, ratio float64, now int64) {
	if !(ratio > 0) {
		return
	}
	v, ok := g.biases.Load(worker)
	if !ok {
		if p.workers.Load() >= maxWorkers && !p.dropWorker(g) {
			return
		}
		if v, ok = g.biases.LoadOrStore(worker, new(bias)); !ok {
			p.workers.Add(1)
		}
	}
	b := v.(*bias) //nolint:forcetypeassert // the map holds nothing else
	log := math.Float64frombits(b.bits.Load())
	target := math.Log(min(max(ratio, minBias), maxBias))
	b.bits.Store(math.Float64bits(log + biasStep*min(max(target-log, -biasPull), biasPull)))
	b.heard.Store(now)
	if g.gone.Load() {
		p.forgetWorker(g, worker)
	}
}

// dropWorker forgets the worker of g that was longest unheard of, and reports
// whether there was one.
func (p *learner) dropWorker(g *group) bool {
	var oldest any
	least := int64(math.MaxInt64)
	g.biases.Range(func(name, v any) bool {
		if h := v.(*bias).heard.Load(); h < least { //nolint:forcetypeassert // as above
			oldest, least = name, h
		}
		return true
	})
	if oldest == nil {
		return false
	}
	p.forgetWorker(g, oldest)
	return true
}

func seconds(s float64) time.Duration {
	const most = 1e6 // eleven days: beyond it only the order matters
	if !(s > 0) {    // not a number, too: nothing may come out negative
		return 0
	}
	return time.Duration(min(s, most) * float64(time.Second))
}
