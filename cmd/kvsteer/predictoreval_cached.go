package main

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/kvsteer/kvsteer"
)

// cachedMode says how prefix_cache_score is read. It is a [flag.Value]; without a value
// the flag means true.
type cachedMode string

const (
	cachedAuto cachedMode = "auto"
	cachedOn   cachedMode = "true"
	cachedOff  cachedMode = "false"
)

func (m *cachedMode) String() string { return string(*m) }

// IsBoolFlag lets the flag stand alone.
func (m *cachedMode) IsBoolFlag() bool { return true }

// Set implements [flag.Value].
func (m *cachedMode) Set(s string) error {
	if s == string(cachedAuto) {
		*m = cachedAuto
		return nil
	}
	on, err := strconv.ParseBool(s)
	if err != nil {
		return errors.New("not auto, true or false")
	}
	*m = cachedOff
	if on {
		*m = cachedOn
	}
	return nil
}

// readings are the ways to read a file. Of several the first is preferred.
func (m *cachedMode) readings() []*reading {
	switch *m {
	case cachedOn:
		return []*reading{newReading(true)}
	case cachedOff:
		return []*reading{newReading(false)}
	default:
		return []*reading{newReading(false), newReading(true)}
	}
}

// reading is a predictor that learns from a file with one meaning of prefix_cache_score.
type reading struct {
	cached    bool
	predictor kvsteer.Predictor
	features  kvsteer.Features
	out       []kvsteer.Prediction
	off       float64 // usual error of late, in logarithm
}

func newReading(cached bool) *reading {
	return &reading{
		cached: cached, predictor: kvsteer.NewPredictor(kvsteer.PredictorOptions{}), out: make([]kvsteer.Prediction, 1),
	}
}

func (r *reading) predict(rec *recorded) {
	r.features = rec.features(r.cached)
	r.predictor.Predict([]kvsteer.Features{r.features}, r.out)
}

func (r *reading) observe(rec *recorded) {
	const (
		step = 0.02 // about the last 50 rows count
		most = 2.0  // bounds what one of them says
	)
	if rec.TTFT > 0 {
		ms := max(float64(r.out[0].TTFT)/float64(time.Millisecond), 1e-3)
		r.off += step * (min(math.Abs(math.Log(rec.TTFT/ms)), most) - r.off)
		r.predictor.Observe(&r.features, time.Duration(rec.TTFT*float64(time.Millisecond)))
	}
	if d, ok := r.predictor.(kvsteer.DecodeObserver); ok && rec.TPOT > 0 {
		d.ObserveDecode(&r.features, time.Duration(rec.TPOT*float64(time.Millisecond)), 0)
	}
}

// nearest is the reading to predict by: the first, unless another has been nearer by far.
func (e *evaluation) nearest() *reading {
	const far = 0.95
	best := e.readings[0]
	for _, r := range e.readings[1:] {
		if r.off < far*best.off {
			best = r
		}
	}
	return best
}
