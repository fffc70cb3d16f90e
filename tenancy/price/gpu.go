package price

import (
	"errors"
	"fmt"
	"math/bits"
)

// GPU is what a worker of one's own costs, and what it does for that: the price of a
// token is that of the time that a busy worker takes for it. Time in which a worker is
// idle is in no price; whoever must earn it too sets Hour higher by what part of the
// time workers are busy.
type GPU struct {
	// Hour is the price of an hour of one GPU, in millionths of the currency, at most a
	// million of the currency; Count is how many GPUs a worker has, 0 means 1.
	Hour  int64
	Count int
	// Input is how many tokens of prompts, not found in its cache, a worker computes in a
	// second when it does nothing else; Output how many of answers, of all requests at
	// a time. Both are at least 1; kvsteer predictor-eval and an engine's benchmark
	// measure them.
	Input, Output int64
}

const (
	secondsAnHour = 3600
	maxHour       = 1_000_000_000_000
	maxCount      = 1 << 20 // so that the product of both fits 64 bits
)

// Prices returns them, rounded up. Tokens that were found in a cache took no time and are
// free: set CacheRead otherwise.
func (g GPU) Prices() (Prices, error) {
	if g.Count == 0 {
		g.Count = 1
	}
	switch {
	case g.Hour < 0 || g.Hour > maxHour:
		return Prices{}, fmt.Errorf("price: the price of an hour, %d, must be from 0 to %d", g.Hour, int64(maxHour))
	case g.Count < 0 || g.Count > maxCount:
		return Prices{}, fmt.Errorf("price: a worker with %d GPUs; it must be from 1 to %d", g.Count, maxCount)
	case g.Input < 1 || g.Output < 1:
		return Prices{}, errors.New("price: Input and Output, the tokens a second of a worker, must be at least 1")
	default:
	}
	in, err := g.per(g.Input)
	if err != nil {
		return Prices{}, err
	}
	out, err := g.per(g.Output)
	if err != nil {
		return Prices{}, err
	}
	return Prices{Input: in, Output: out, CacheRead: At(0)}, nil
}

// per is the price of a million tokens, of which a worker does so many in a second.
func (g GPU) per(second int64) (int64, error) {
	hi, lo := bits.Mul64(uint64(g.Hour)*uint64(g.Count), perMillion)
	most, hour := bits.Mul64(uint64(second), secondsAnHour)
	if most > 0 { // no worker does that many; the price is as good as nothing
		hour = 1<<64 - 1
	}
	s := sum{hi, lo}
	p := s.over(hour, 0)
	if p > Max {
		return 0, fmt.Errorf("price: at %d tokens a second a million of them cost more than %d; is the price of an hour right?",
			second, int64(Max))
	}
	return p, nil
}
