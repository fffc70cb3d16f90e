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
