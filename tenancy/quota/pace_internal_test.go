package quota

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slow is a bucket by the book: what is missing from it, as a fraction, refilled as
// time passes.
type slow struct {
	rate    Rate
	missing *big.Rat
	at      int64
	fills   int
}

func (s *slow) advance(now int64) {
	refill := big.NewRat(s.rate.Amount, int64(s.rate.Per))
	refill.Mul(refill, new(big.Rat).SetInt64(now-s.at))
	s.at = now
	s.missing.Sub(s.missing, refill)
	if s.missing.Sign() < 0 {
		s.missing.SetInt64(0)
		s.fills++
	}
}

// wait is how long until n are there, rounded up to nanoseconds.
func (s *slow) wait(n, now int64) int64 {
	s.advance(now)
	over := new(big.Rat).Add(s.missing, big.NewRat(n-s.rate.Burst, 1))
	if over.Sign() <= 0 {
		return 0
	}
	over.Mul(over, big.NewRat(int64(s.rate.Per), s.rate.Amount))
	q, r := new(big.Int).QuoRem(over.Num(), over.Denom(), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// lent is what was missing when something had been taken.
type lent struct {
	missing *big.Rat
	at      int64
	fills   int
}

func (s *slow) take(n, now int64) lent {
	s.advance(now)
	s.missing.Add(s.missing, big.NewRat(n, 1))
	return lent{new(big.Rat).Set(s.missing), now, s.fills}
}

// put gives n back, but no more than would still be missing if nothing had been taken since.
func (s *slow) put(n, now int64, l lent) {
	s.advance(now)
	if s.fills != l.fills {
		return
	}
	refilled := big.NewRat(s.rate.Amount, int64(s.rate.Per))
	refilled.Mul(refilled, new(big.Rat).SetInt64(now-l.at))
	back := new(big.Rat).Sub(l.missing, refilled)
	if back.Sign() <= 0 {
		return
	}
	if most := big.NewRat(n, 1); back.Cmp(most) > 0 {
		back = most
	}
	if s.missing.Sub(s.missing, back).Sign() < 0 {
		s.missing.SetInt64(0)
		s.fills++
	}
}

func (s *slow) left() int64 {
	q, r := new(big.Int).QuoRem(s.missing.Num(), s.missing.Denom(), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return s.rate.Burst - q.Int64()
}

// Random takes, debts and refunds come to the same in whole numbers as by the book.
func TestBucketAgainstFractions(t *testing.T) {
	t.Parallel()
	type pair struct {
		n       int64
		fast    loan
		slow    lent
		settled bool
	}
	rng := rand.New(rand.NewPCG(2026, 11))
	rates := []Rate{
		{Amount: 100_000},
		{Amount: 7},
		{Amount: 999_983, Burst: 5_000_000},
		{Amount: 60, Per: time.Second, Burst: 1},
		{Amount: maxAmount},
		{Amount: 3, Per: time.Hour, Burst: 10},
		{Amount: 1_000_003, Per: 24 * time.Hour},
		{Amount: 4_294_967_291, Per: 7 * time.Minute, Burst: 4_294_967_295},
	}
	for _, rate := range rates {
		p, err := newPace(rate)
		require.NoError(t, err)
		rate = p.limit
		model := &slow{rate: rate, missing: new(big.Rat)}
		var b bucket
		var now int64
		var loans []pair
		refill := int64(rate.Per) / rate.Amount
		for range 4000 {
			now += rng.Int64N(2*refill + 2)
			if rng.IntN(50) == 0 {
				now += rng.Int64N(int64(rate.Per))
			}
			switch n := 1 + rng.Int64N(min(rate.Burst, 1+rng.Int64N(rate.Burst))); rng.IntN(4) {
			case 0, 1:
				want := model.wait(n, now)
				require.Equal(t, want, b.wait(&p, n, now), "%v: %d at %d", rate, n, now)
				if want == 0 {
					loans = append(loans, pair{n: n, fast: b.take(&p, n, now), slow: model.take(n, now)})
				}
			case 2: // more was used than estimated
				if len(loans) > 0 {
					b.take(&p, n/3, now)
					model.take(n/3, now)
				}
			default:
				if len(loans) == 0 {
					continue
				}
				l := &loans[rng.IntN(len(loans))]
				if l.settled {
					continue
				}
				back := rng.Int64N(l.n + 1)
				l.settled = true
				model.put(back, now, l.slow)
				// The bucket is found full by who looks; the book looks at each instant.
				if b.full < now {
					b.take(&p, 0, now)
				}
				b.put(&p, back, &l.fast, now)
			}
			model.advance(now)
			require.Equal(t, model.left(), b.left(&p, now), "%v at %d", rate, now)
		}
	}
}

func TestRatesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, r := range []Rate{
		{Amount: -1},
		{Amount: maxAmount + 1},
		{Amount: 1, Per: -1},
		{Amount: 1, Per: time.Microsecond},
		{Amount: 1, Per: 32 * 24 * time.Hour},
		{Amount: 1, Burst: -1},
		{Amount: 1, Per: 31 * 24 * time.Hour, Burst: 100_000},
	} {
		_, err := newPace(r)
		require.Error(t, err, r)
	}
}

// A debt beyond all bounds stays a debt.
func TestDebtSaturates(t *testing.T) {
	t.Parallel()
	p, err := newPace(Rate{Amount: 1, Per: maxPer, Burst: 1})
	require.NoError(t, err)
	var b bucket
	for range 100 {
		b.take(&p, maxTake, 5)
		require.Positive(t, b.wait(&p, 1, 5))
		require.Negative(t, b.left(&p, 5))
	}
}

// In any time no more is taken for good than the Burst, what is refilled in it, and what is
// given back in it of what was let through before. That is at most so long before as an empty
// bucket needs to be full.
func TestBoundWithRefunds(t *testing.T) {
	t.Parallel()
	const burst, unit = 100, int64(time.Microsecond) // one a microsecond
	p, err := newPace(Rate{Amount: 1000, Per: time.Millisecond, Burst: burst})
	require.NoError(t, err)
	type request struct {
		loan       loan
		at, backAt int64 // backAt is 0 while it is held
		kept, back int64
	}
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 6))
		pause := unit * []int64{1, 10, 60, 150}[seed%4]
		var b bucket
		var all []request
		now := int64(1)
		for range 300 {
			now += rng.Int64N(pause)
			n := 1 + rng.Int64N(burst)
			if b.wait(&p, n, now) == 0 {
				all = append(all, request{loan: b.take(&p, n, now), at: now, kept: n})
				continue
			}
			r := &all[rng.IntN(len(all))]
			if r.backAt != 0 {
				continue
			}
			before := b.full
			back := 1 + rng.Int64N(r.kept)
			b.put(&p, back, &r.loan, now)
			given := (max(before, now) - max(b.full, now) + unit - 1) / unit // rounded up
			require.LessOrEqual(t, given, back)
			if now-r.at >= burst*unit {
				require.Zero(t, given, "it has been refilled")
			}
			r.backAt, r.kept, r.back = now, r.kept-back, given
		}
		for from := range all {
			taken := int64(0)
			for to := from; to < len(all); to++ {
				taken += all[to].kept
				returned := int64(0)
				for i := range from {
					if r := &all[i]; r.backAt >= all[from].at && r.backAt <= all[to].at {
						returned += r.back
					}
				}
				refilled := (all[to].at - all[from].at) / unit
				require.LessOrEqual(t, taken, burst+refilled+returned, "seed %d: %d to %d", seed, from, to)
			}
		}
	}
}
