package steer

import "time"

// Features has the fields of kvsteer.Features, where they are explained: the one
// converts to the other, and the compiler sees to it that this stays so.
type Features struct {
	Model, Class, Worker string
	Uncached, Cached     int
	AheadTokens          int
	AheadPairs           float64
	Waiting              int
	Decoding             int
	KVUsage              float64
	ReportAge            time.Duration
	OutputTokens         int
}

// Prediction has the fields of kvsteer.Prediction, likewise.
type Prediction struct {
	TTFT         time.Duration
	P50, P90     time.Duration
	Prefill      time.Duration
	Externality  time.Duration
	ITL, E2E     time.Duration
	Observations int
}

// Predictor fills out[i] for in[i].
type Predictor interface {
	Predict(in []Features, out []Prediction)
}

// unheardOf is the share of a request's own work and of what was known to be ahead of it
// that others' requests of the same moment may be for it still to teach how long its work
// takes. It is less than measurements scatter.
const unheardOf = 0.1

// Surprised reports whether a request whose worker was chosen by f met so many tokens of
// other routers, chosen at the same moment, that its time tells nothing of f: they may
// have been computed before it, or after. A predictor that learned from it would take
// its own work for slow. When routers begin with a burst, all that they see is like that.
func (f *Features) Surprised(unheard int) bool {
	return float64(unheard) > unheardOf*float64(f.Uncached+f.AheadTokens)
}
