package quota

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// pace is a Rate made ready. One unit takes num/den nanoseconds to refill.
type pace struct {
	num, den uint64
	limit    Rate
}

func newPace(r Rate) (pace, error) {
	if r.Per == 0 {
		r.Per = time.Minute
	}
	if r.Burst == 0 {
		r.Burst = r.Amount
	}
	switch {
	case r.Amount < 1 || r.Amount > maxAmount:
		return pace{}, fmt.Errorf("the Amount %d is not between 1 and %d", r.Amount, int64(maxAmount))
	case r.Per < time.Millisecond || r.Per > maxPer:
		return pace{}, fmt.Errorf("the Per is %v, not between 1ms and %v", r.Per, maxPer)
	case r.Burst < 1 || r.Burst > maxAmount:
		return pace{}, fmt.Errorf("the Burst %d is not between 1 and %d", r.Burst, int64(maxAmount))
	}
	p := pace{num: uint64(r.Per), den: uint64(r.Amount), limit: r}
	if d := gcd(p.num, p.den); d > 1 {
		p.num, p.den = p.num/d, p.den/d
	}
	if ns, _ := p.span(r.Burst); ns == maxSpan {
		return pace{}, errors.New("the Burst takes more than 70 years to refill")
	}
	return p, nil
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// limits reports whether there is a limit at all.
func (p *pace) limits() bool { return p.den != 0 }

// capped is how much of an estimate is reserved: no more than the bucket can hold.
func (p *pace) capped(n int64) int64 { return min(n, p.limit.Burst) }

// span is how long n units take to refill: ns nanoseconds and frac/den of one. n is
// at most maxTake; the result saturates at 73 years.
func (p *pace) span(n int64) (ns int64, frac uint32) {
	hi, lo := bits.Mul64(uint64(n), p.num)
	if hi >= p.den {
		return maxSpan, 0
	}
	q, r := bits.Div64(hi, lo, p.den)
	if q > maxSpan {
		return maxSpan, 0
	}
	return int64(q), uint32(r)
}

// maxSpan is in nanoseconds, so that some of them together still are within 64 bits.
const maxSpan = math.MaxInt64 / 4

// bucket is the state of one rate: when it would be full again (GCRA's theoretical
// arrival time), as nanoseconds of the Limiter's clock and frac/den of one.
type bucket struct {
	full int64
	frac uint32
	// fills counts how often it was found full by a request: what was reserved before
	// is refilled, and can't be given back any more.
	fills uint32
}

// wait is how long from now until n units are let through; 0 is now. It must be
// asked only for what fits into the bucket at all.
func (b *bucket) wait(p *pace, n, now int64) int64 {
	full, frac := b.full, b.frac
	if full < now {
		full, frac = now, 0
	}
	ns, f := p.span(n)
	burst, bf := p.span(p.limit.Burst)
	// full + n - burst - now, rounded up to whole nanoseconds
	wait := full - now + ns - burst
	rest := int64(frac) + int64(f) - int64(bf)
	den := int64(p.den)
	switch {
	case rest > den:
		wait += 2
	case rest > 0:
		wait++
	default: // more than -den
	}
	return max(wait, 0)
}

// loan is what was taken: n units. The bucket was to be full at full and frac/den then, and
// had been found full so often as fills says.
type loan struct {
	n, full     int64
	frac, fills uint32
}

// take takes n units, which wait has said are there, or more: debt. It returns what
// put needs to give them back.
func (b *bucket) take(p *pace, n, now int64) loan {
	if b.full < now {
		b.full, b.frac = now, 0
		b.fills++
	}
	ns, frac := p.span(n)
	b.add(p, ns, frac)
	return loan{n: n, full: b.full, frac: b.frac, fills: b.fills}
}

func (b *bucket) add(p *pace, ns int64, frac uint32) {
	sum := uint64(b.frac) + uint64(frac)
	if sum >= p.den {
		sum -= p.den
		ns++
	}
	b.frac = uint32(sum)
	b.full = min(b.full+ns, 2*maxSpan) // the sums in wait stay within 64 bits
}

// put gives n units of a loan back, at most the Burst, but for what has been refilled
// already: the bucket refills what was taken first first, so all of it when the bucket has
// been full since, or would be now if nothing else had been taken since.
func (b *bucket) put(p *pace, n int64, l *loan, now int64) {
	if b.fills != l.fills || l.full < now {
		return
	}
	ns, frac := p.span(n)
	if left := l.full - now; ns > left || ns == left && frac > l.frac {
		ns, frac = left, l.frac
	}
	if b.frac < frac {
		b.frac += uint32(p.den) - frac
		ns++
	} else {
		b.frac -= frac
	}
	b.full -= ns
}

// left is how many whole units the bucket holds, negative while there is debt.
func (b *bucket) left(p *pace, now int64) int64 {
	if b.full <= now && (b.full < now || b.frac == 0) {
		return p.limit.Burst
	}
	// units that are missing: (full + frac/den - now) · den/num, rounded up
	hi, lo := bits.Mul64(uint64(b.full-now), p.den)
	lo, carry := bits.Add64(lo, uint64(b.frac), 0)
	hi += carry
	lo, carry = bits.Add64(lo, p.num-1, 0)
	hi += carry
	if hi >= p.num {
		return math.MinInt64
	}
	q, _ := bits.Div64(hi, lo, p.num)
	if q > math.MaxInt64/2 {
		return math.MinInt64
	}
	return p.limit.Burst - int64(q)
}
