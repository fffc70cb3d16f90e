package price

import "math/bits"

// Where a model is served, besides by a provider of a name.
const (
	// Fleet is the gateway's own workers, of whatever kind.
	Fleet = ""
	// Any is every provider that has no price of its own for a model. It is not the Fleet.
	Any = "*"
)

// Max is the highest price, of a thousand of the currency for each token. It keeps sums
// within bounds.
const Max = 1_000_000_000_000_000

// Tokens are what a request used. Those of the prompt are each in one of Uncached,
// CacheRead and CacheWrite; Output includes Reasoning. Negative ones count as 0.
type Tokens struct {
	Uncached, CacheRead, CacheWrite, Output, Reasoning int64
}

// Rate is a price that there may be or not. The zero Rate is none.
type Rate struct {
	amount int64
	set    bool
}

// At returns a Rate of so many millionths of the currency per million tokens. At(0) is
// free, which is not the same as the zero Rate.
func At(amount int64) Rate { return Rate{amount, true} }

// Amount returns the price; ok is false if there is none.
func (r Rate) Amount() (amount int64, ok bool) { return r.amount, r.set }

func (r Rate) or(other int64) int64 {
	if r.set {
		return r.amount
	}
	return other
}

// Prices are for tokens by what becomes of them, in millionths of the currency per
// million tokens: from 0 to [Max].
type Prices struct {
	Input, Output int64
	// CacheRead and CacheWrite are for tokens of a prompt that were found in a cache, or
	// written to one for a price; none means that they cost as Input does. Reasoning is
	// for tokens of the answer that are thought only; none means as Output.
	CacheRead, CacheWrite, Reasoning Rate
}

// Tier is the prices of requests with long prompts.
type Tier struct {
	// Above is the length of a prompt, in tokens, cached or not: longer ones have these
	// Prices, for all of their tokens.
	Above int64
	Prices
}

// Entry is what a model costs, and what else a price list says of it.
type Entry struct {
	// Provider is its name, [Fleet] or [Any].
	Provider string
	// Model is its name there. One that ends in an asterisk stands for all that begin so,
	// the asterisk alone for all.
	Model string
	Prices
	// Tiers are in order of Above, the lowest first.
	Tiers []Tier
	// Request is what a request costs besides, in millionths of the currency.
	Request int64

	// MaxInput and MaxOutput are the longest prompt and answer, in tokens; 0 means that
	// the list doesn't say. Supports are the features that it names, sorted, Lacks
	// those of which it says that they are not there. They have no part in the price.
	MaxInput, MaxOutput int64
	Supports, Lacks     []string
}

// perMillion is what prices are for; their millionths are those of the result.
const perMillion = 1_000_000

// Cost returns what a request costs, in millionths of the currency, rounded up; at most
// the largest int64.
func (e *Entry) Cost(t *Tokens) int64 {
	uncached, read, written := positive(t.Uncached), positive(t.CacheRead), positive(t.CacheWrite)
	output := positive(t.Output)
	reasoning := min(positive(t.Reasoning), output)
	p := e.at(uncached + read + written)
	var s sum
	s.add(uncached, p.Input)
	s.add(read, p.CacheRead.or(p.Input))
	s.add(written, p.CacheWrite.or(p.Input))
	s.add(output-reasoning, p.Output)
	s.add(reasoning, p.Reasoning.or(p.Output))
	return s.over(perMillion, e.Request)
}

// at returns the prices of a prompt so long.
func (e *Entry) at(prompt uint64) *Prices {
	p := &e.Prices
	for i := range e.Tiers {
		if prompt <= uint64(e.Tiers[i].Above) {
			break
		}
		p = &e.Tiers[i].Prices
	}
	return p
}

// mostTokens bounds one count, so that three of them fit 64 bits.
const mostTokens = 1 << 62

func positive(n int64) uint64 { return uint64(min(max(n, 0), mostTokens)) }

// sum is of 128 bits: a few products of a count and a price are far from filling it.
type sum struct{ hi, lo uint64 }

func (s *sum) add(tokens uint64, price int64) {
	hi, lo := bits.Mul64(tokens, uint64(price))
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, lo, 0)
	s.hi, _ = bits.Add64(s.hi, hi, carry)
}

const maxInt64 = 1<<63 - 1

// over is s divided by n, rounded up, and more.
func (s *sum) over(n uint64, more int64) int64 {
	if s.hi >= n {
		return maxInt64
	}
	quo, rem := bits.Div64(s.hi, s.lo, n)
	if quo >= maxInt64 {
		return maxInt64
	}
	if rem > 0 {
		quo++
	}
	if quo > maxInt64-uint64(more) {
		return maxInt64
	}
	return int64(quo) + more
}
