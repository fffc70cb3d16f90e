package providers

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/predict"
)

// Prior is what is expected of a model before anything was measured. A zero is the default.
type Prior struct {
	// TTFT is the time to the first token for a short prompt, 700 ms; TTFTPerThousand what
	// each thousand tokens of the prompt add, 60 ms; ITL the time between tokens, 20 ms.
	// They are round figures of the large services as measured from outside.
	TTFT, TTFTPerThousand, ITL time.Duration
}

const (
	priorTTFT        = 700 * time.Millisecond
	priorPerThousand = 60 * time.Millisecond
	priorITL         = 20 * time.Millisecond
	// forget is the weight that an observation loses with each later one: the last two
	// hundred count. Services change with the hour.
	forget = 0.995
	// unknownOutput is how long an answer is expected to be until some were seen.
	unknownOutput = 256
	outputStep    = 0.02
	// fewest tokens say something of the time between them.
	fewest = 8
)

// latency learns how long a model takes: a time to first token that is a + b*tokens,
// robustly (one answer that took a minute moves it little), with its 90th percentile, and
// a time between tokens. Readers take no lock.
type latency struct {
	now atomic.Pointer[pace]

	mu          sync.Mutex
	ttft, itl   *predict.Fit
	calibration *predict.Calibration
}

// pace is what expectations are made from. It is not modified once published.
type pace struct {
	surface predict.Surface
	curve   predict.Curve
	tempo   predict.Tempo
	output  float64
	updates int
}

func newLatency(p Prior) *latency {
	or := func(d, other time.Duration) float64 {
		if d <= 0 {
			d = other
		}
		return d.Seconds()
	}
	l := &latency{
		ttft:        predict.NewTTFT(or(p.TTFT, priorTTFT), or(p.TTFTPerThousand, priorPerThousand), 0, forget),
		itl:         predict.NewITL(or(p.ITL, priorITL), forget),
		calibration: predict.NewCalibration(),
	}
	first := &pace{output: unknownOutput}
	l.fill(first)
	l.now.Store(first)
	return l
}

func (l *latency) fill(p *pace) {
	p.surface, p.tempo = predict.NewSurface(l.ttft.Coefficients()), predict.NewTempo(l.itl.Coefficients())
	p.curve.Fill(l.calibration)
	p.updates = l.ttft.Updates()
}

func load(promptTokens int) predict.Load { return predict.Load{Own: float64(max(promptTokens, 0))} }

func (l *latency) expect(promptTokens, outputTokens int) Expectation {
	p := l.now.Load()
	own := load(promptTokens)
	total, _ := p.surface.Time(&own)
	_, mid, high := p.curve.At(total)
	itl := p.tempo.Time(&predict.Pace{})
	tokens := p.output
	if outputTokens > 0 {
		tokens = float64(outputTokens)
	}
	return Expectation{
		TTFT: duration(mid), P90: duration(max(mid, high)), ITL: duration(itl),
		E2E: duration(mid + itl*max(tokens-1, 0)), Observations: p.updates,
	}
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// first takes in a time to first token.
func (l *latency) first(promptTokens int, took time.Duration) {
	if took <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := *l.now.Load()
	own := load(promptTokens)
	total, _ := next.surface.Time(&own)
	l.calibration.Observe(&next.curve, total, took.Seconds())
	l.ttft.UpdateTTFT(&own, took.Seconds(), total)
	l.fill(&next)
	l.now.Store(&next)
}

// rest takes in how long an answer of so many tokens took after its first one.
func (l *latency) rest(tokens int, took time.Duration) {
	if tokens <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := *l.now.Load()
	next.output += outputStep * (float64(tokens) - next.output)
	if tokens >= fewest && took > 0 {
		alone := &predict.Pace{}
		l.itl.UpdateITL(alone, took.Seconds()/float64(tokens-1), next.tempo.Time(alone))
	}
	l.fill(&next)
	l.now.Store(&next)
}
