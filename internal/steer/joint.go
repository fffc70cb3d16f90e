package steer

import (
	"math"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/internal/predict"
)

// Joint learns how widely scatters what two workers do one after the other. The 90th
// percentiles of either do not tell: a rare stall of the one that answers has no share in
// its own, and still adds to what the other's misses. The zero value has seen nothing; it
// is safe for concurrent use.
type Joint struct {
	mu   sync.Mutex
	wide float64 // logarithm
	seen float64
}

// Factor is what the distance between the mean of both and their 90th percentile, as if
// they were independent, is to be multiplied by.
func (j *Joint) Factor() float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return math.Exp(j.wide)
}

// Observe takes in that both together took so long where p90 was predicted; 0 if nothing was.
func (j *Joint) Observe(took, p90 time.Duration) {
	if p90 <= 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen++
	j.wide = predict.Wider(j.wide, float64(took-p90), j.seen)
}
