package usage

import (
	"math"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
)

// Amounts are tokens, and Cost in millionths of the currency. They stop at 2^63-1.
type Amounts struct {
	// Uncached and Cached are prompt tokens. Those of which nobody said how many were
	// found in a cache are in neither but in Unsplit: to take them for uncached would be a
	// guess. CacheWrite are those written to a cache for a price.
	Uncached   int64 `json:"uncached"`
	Cached     int64 `json:"cached"`
	Unsplit    int64 `json:"unsplit"`
	CacheWrite int64 `json:"cache_write"`
	// Output includes Reasoning.
	Output    int64 `json:"output"`
	Reasoning int64 `json:"reasoning"`
	Cost      int64 `json:"cost"`
}

// Tokens are those of prompts and answers.
func (a *Amounts) Tokens() int64 {
	return plus(plus(plus(a.Uncached, a.Cached), plus(a.Unsplit, a.CacheWrite)), a.Output)
}

func amountsOf(r *ledger.Record) Amounts {
	a := Amounts{CacheWrite: r.CacheWrite, Output: r.Output, Reasoning: r.Reasoning, Cost: r.Cost}
	if r.CachedKnown {
		a.Uncached, a.Cached = r.Uncached, r.Cached
	} else {
		a.Unsplit = r.Uncached
	}
	return a
}

// Sum is of so many attempts.
type Sum struct {
	Attempts int64 `json:"attempts"`
	Amounts
}

func (s *Sum) add(b Sum) {
	s.Attempts = plus(s.Attempts, b.Attempts)
	s.Uncached = plus(s.Uncached, b.Uncached)
	s.Cached = plus(s.Cached, b.Cached)
	s.Unsplit = plus(s.Unsplit, b.Unsplit)
	s.CacheWrite = plus(s.CacheWrite, b.CacheWrite)
	s.Output = plus(s.Output, b.Output)
	s.Reasoning = plus(s.Reasoning, b.Reasoning)
	s.Cost = plus(s.Cost, b.Cost)
}

func sumOf(r *ledger.Record) Sum { return Sum{1, amountsOf(r)} }

// plus adds what is not negative.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Sums are those of a group of attempts.
type Sums struct {
	// Reserved is what was expected of all that were let through. It is ReservedSettled,
	// ReservedVoided and ReservedOpen together: of those that were served, of those that
	// were not, and of those of which no end is known.
	Reserved        Sum `json:"reserved"`
	ReservedSettled Sum `json:"reserved_settled"`
	ReservedVoided  Sum `json:"reserved_voided"`
	ReservedOpen    Sum `json:"reserved_open"`
	// Used is what those that were served used, instead of their ReservedSettled; it is
	// what is to be paid. Estimated is the part of it that is an estimate.
	Used      Sum `json:"used"`
	Estimated Sum `json:"estimated"`
	// Unreserved attempts ended without a reservation in what was read: it may be in a
	// file that wasn't.
	Unreserved int64 `json:"unreserved"`
	// Unknown are those of Used of which nobody said how much was cached.
	Unknown int64 `json:"cached_unknown"`
}

func (s *Sums) add(b *Sums) {
	s.Reserved.add(b.Reserved)
	s.ReservedSettled.add(b.ReservedSettled)
	s.ReservedVoided.add(b.ReservedVoided)
	s.ReservedOpen.add(b.ReservedOpen)
	s.Used.add(b.Used)
	s.Estimated.add(b.Estimated)
	s.Unreserved = plus(s.Unreserved, b.Unreserved)
	s.Unknown = plus(s.Unknown, b.Unknown)
}
