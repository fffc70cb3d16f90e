package simulate

import (
	"math"
	"math/rand/v2"
)

// least returns the index of the smallest cost, ties at random.
func least(n int, rng *rand.Rand, cost func(i int) float64) int {
	best, ties := 0, 0
	lowest := math.Inf(1)
	for i := range n {
		switch c := cost(i); {
		case c < lowest:
			best, lowest, ties = i, c, 1
		case c == lowest:
			ties++
			if rng.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// Random chooses any worker.
type Random struct{ Rng *rand.Rand }

// Pick implements [Rule].
func (r *Random) Pick(s *State) int { return r.Rng.IntN(len(s.Workers)) }

// RoundRobin takes turns.
type RoundRobin struct{ next int }

// Pick implements [Rule].
func (r *RoundRobin) Pick(s *State) int {
	i := r.next % len(s.Workers)
	r.next = i + 1
	return i
}

// LeastRequests chooses the fewest requests in flight.
type LeastRequests struct{ Rng *rand.Rand }

// Pick implements [Rule].
func (r *LeastRequests) Pick(s *State) int {
	return least(len(s.Workers), r.Rng, func(i int) float64 { return float64(s.Workers[i].InFlight) })
}

// PowerOfTwo looks at two workers and chooses the one with fewer requests.
type PowerOfTwo struct{ Rng *rand.Rand }

// Pick implements [Rule].
func (r *PowerOfTwo) Pick(s *State) int {
	n := len(s.Workers)
	a := r.Rng.IntN(n)
	if n == 1 {
		return a
	}
	b := r.Rng.IntN(n - 1)
	if b >= a {
		b++
	}
	if s.Workers[b].InFlight < s.Workers[a].InFlight {
		return b
	}
	return a
}

// SessionHash is consistent hashing of the session with bounded load: of the
// workers in the order that the session's hash gives them, the first with no
// more than its share of the requests, and a quarter.
type SessionHash struct{}

const loadBound = 1.25

// Pick implements [Rule].
func (SessionHash) Pick(s *State) int {
	total := 1
	for i := range s.Workers {
		total += s.Workers[i].InFlight
	}
	bound := int(math.Ceil(loadBound * float64(total) / float64(len(s.Workers))))
	best, most := -1, uint64(0)
	for i := range s.Workers {
		if s.Workers[i].InFlight+1 > bound {
			continue
		}
		if h := chain(s.Call.Session, uint64(i)); best < 0 || h > most {
			best, most = i, h
		}
	}
	return best
}

// SGLang is its router's cache-aware rule, with that router's default numbers.
type SGLang struct{ Rng *rand.Rand }

const (
	sglangAbsolute = 64
	sglangRelative = 1.5
	sglangMatch    = 0.5
)

// Pick implements [Rule].
func (r *SGLang) Pick(s *State) int {
	low, high := math.MaxInt, 0
	for i := range s.Workers {
		low, high = min(low, s.Workers[i].InFlight), max(high, s.Workers[i].InFlight)
	}
	n := len(s.Workers)
	if high-low > sglangAbsolute && float64(high) > sglangRelative*float64(low) {
		return least(n, r.Rng, func(i int) float64 { return float64(s.Workers[i].InFlight) })
	}
	best := least(n, r.Rng, func(i int) float64 { return -float64(s.Workers[i].CachedBlocks) })
	v := &s.Workers[best]
	if float64(v.CachedBlocks*v.BlockSize)/float64(s.Call.Prompt) > sglangMatch {
		return best
	}
	return least(n, r.Rng, func(i int) float64 {
		return float64(s.Index.OwnerStats(s.Workers[i].Owner).Pairs)
	})
}

// LLMD is llm-d's default scorers: the best weighted sum of the prompt's cached
// share, the queue's place between the longest and the shortest, and free KV
// memory.
type LLMD struct{ Rng *rand.Rand }

const (
	llmdPrefix = 3
	llmdQueue  = 2
	llmdKV     = 2
)

// Pick implements [Rule].
func (r *LLMD) Pick(s *State) int {
	low, high := math.MaxInt, 0
	for i := range s.Workers {
		low, high = min(low, s.Workers[i].Waiting), max(high, s.Workers[i].Waiting)
	}
	return least(len(s.Workers), r.Rng, func(i int) float64 {
		v := &s.Workers[i]
		queue := 1.0
		if high > low {
			queue = float64(high-v.Waiting) / float64(high-low)
		}
		prefix := 0.0
		if total := s.Call.Prompt / v.BlockSize; total > 0 {
			prefix = float64(min(v.CachedBlocks, total)) / float64(total)
		}
		return -(llmdPrefix*prefix + llmdQueue*queue + llmdKV*(1-v.KVUsage))
	})
}

// Dynamo is NVIDIA Dynamo's KV router at temperature 0.
type Dynamo struct{ Rng *rand.Rand }

// Pick implements [Rule].
func (r *Dynamo) Pick(s *State) int {
	return least(len(s.Workers), r.Rng, func(i int) float64 {
		v := &s.Workers[i]
		size := float64(v.BlockSize)
		prefill := max(0, float64(v.PrefillTokens+s.Call.Prompt)/size-float64(v.CachedBlocks))
		full := s.Call.Prompt / v.BlockSize
		fresh := (s.Call.Prompt+v.BlockSize-1)/v.BlockSize - full
		for _, b := range s.Call.Blocks[:min(full, len(s.Call.Blocks))] {
			if v.Live[b] == 0 {
				fresh++
			}
		}
		return prefill + float64(len(v.Live)+v.Tails+fresh)
	})
}

// LowestTTFT chooses the lowest time to first token and nothing else, with what
// no router has: sight of the engine's own queue and batch, and of the true cost
// of a step.
type LowestTTFT struct{ Rng *rand.Rand }

// Pick implements [Rule].
func (r *LowestTTFT) Pick(s *State) int {
	return least(len(s.Workers), r.Rng, func(i int) float64 { return trueTTFT(s, &s.Workers[i]).Seconds() })
}
