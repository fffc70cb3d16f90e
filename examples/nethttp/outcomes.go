package main

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/kvsteer/kvsteer"
)

// outcomeLog writes one line for each finished request.
type outcomeLog struct {
	mu  sync.Mutex
	enc *json.Encoder
}

func newOutcomeLog(w io.Writer) *outcomeLog { return &outcomeLog{enc: json.NewEncoder(w)} }

type outcomeLine struct {
	Decision        *kvsteer.Decision `json:"decision"`
	TTFT            float64           `json:"ttft_s"`
	Duration        float64           `json:"duration_s"`
	CachedPredicted int               `json:"cached_predicted"`
	Usage           kvsteer.Usage     `json:"usage"`
	Error           string            `json:"error,omitempty"`
}

func (l *outcomeLog) OnOutcome(o *kvsteer.Outcome) {
	line := outcomeLine{
		Decision: o.Decision, TTFT: o.TTFT.Seconds(), Duration: o.Duration.Seconds(),
		CachedPredicted: o.CachedPredicted, Usage: o.Usage,
	}
	if o.Err != nil {
		line.Error = o.Err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.enc.Encode(line) // a full disk must not fail requests
}
