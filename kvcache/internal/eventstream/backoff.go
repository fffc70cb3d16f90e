package eventstream

import (
	"context"
	"math/rand/v2"
	"time"
)

// Defaults of Backoff. libzmq retries every 100 ms for ever; an engine loads for
// minutes, so the pause grows, but not so far that its first events are missed
// for long.
const (
	DefaultRetryMin = 100 * time.Millisecond
	DefaultRetryMax = 2 * time.Second
)

// Backoff spaces attempts to connect: Min, doubling to Max, each shortened by a
// random part of up to a quarter so that routers don't march in step.
type Backoff struct {
	// Min and Max bound the pause; 0 means the defaults.
	Min, Max time.Duration
	pause    time.Duration
}

// Next returns the pause before the next attempt.
func (b *Backoff) Next() time.Duration {
	lo, hi := b.Min, b.Max
	if lo <= 0 {
		lo = DefaultRetryMin
	}
	if hi <= 0 {
		hi = DefaultRetryMax
	}
	hi = max(hi, lo)
	if b.pause == 0 {
		b.pause = lo
	} else {
		b.pause = min(2*b.pause, hi)
	}
	const jitter = 4
	return b.pause - time.Duration(rand.Int64N(int64(b.pause)/jitter+1)) //nolint:gosec // spreading, not secrecy
}

// Wait pauses until the next attempt is due. It returns ctx's error if that ends
// first.
func (b *Backoff) Wait(ctx context.Context) error {
	t := time.NewTimer(b.Next())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
