package predict

// Load is what decides the time to first token, in plain numbers.
type Load struct {
	// Own tokens must be computed for this request, Ahead for those before it;
	// OwnPairs and AheadPairs count the (query, key) pairs of their attention.
	Own, Ahead, OwnPairs, AheadPairs float64
	// Waiting requests of unknown length; Decoding requests generate.
	Waiting, Decoding float64
	// Pressure is how full the KV cache is beyond where engines start to preempt,
	// 0 to 1. Stale is the age of the engine's report beyond the usual, in seconds.
	Pressure, Stale float64
}

// knots are the batch sizes, in tokens, between which the cost of a step is
// taken to be linear. They are dense where engines change gear: captured graphs
// end at a few hundred tokens, and matrix kernels fill up.
var knots = [...]float64{0, 64, 128, 192, 256, 320, 384, 512, 768, 1024, 2048, 4096, 8192} //nolint:gochecknoglobals // an immutable table

// The terms of the model. Between termTokens and termOwn stands one for every
// segment between knots, and one for what lies beyond the last.
const (
	termBase   = 0
	termBusy   = 1 // an engine that is at work finishes its step first
	termTokens = 2
	termOwn    = termTokens + len(knots)
	termPairs  = termOwn + 1
	termAhead  = termOwn + 2
	termDecode = termOwn + 3 // ten of them
	termWait   = termOwn + 4
	termFull   = termOwn + 5
	termStale  = termOwn + 6
	terms      = termOwn + 7

	kilo = 1e3
	mega = 1e6
	ten  = 10

	// fastest is the least time that a thousand tokens take, in seconds: no worker
	// prefills a million tokens a second. Without it, a few noisy observations
	// could make computing a prompt look free and a cache worthless.
	fastest = 1e-3
)

// vector writes the model's terms for l to x.
func (l *Load) vector(x []float64) {
	x[termBase] = 1
	x[termBusy] = l.busy()
	batch := l.Own + l.Ahead
	last := len(knots) - 1
	for i := range last {
		x[termTokens+i] = min(max(batch-knots[i], 0)/(knots[i+1]-knots[i]), 1)
	}
	x[termTokens+last] = max(batch-knots[last], 0) / kilo
	x[termOwn] = l.Own / kilo
	x[termPairs] = (l.OwnPairs + l.AheadPairs) / mega
	x[termAhead] = l.Ahead / kilo
	x[termDecode] = l.Decoding / ten
	x[termWait] = l.Waiting
	x[termFull] = l.Pressure
	x[termStale] = l.Stale
}

func (l *Load) busy() float64 {
	if l.Ahead > 0 {
		return 1
	}
	return min(l.Decoding+l.Waiting, 1)
}

// NewTTFT returns the Fit for the time to first token: base seconds for an empty
// prompt, perKilo seconds for a thousand tokens, ours or before us, and meanPrompt
// tokens in a waiting request of which nothing is known.
func NewTTFT(base, perKilo, meanPrompt, forget float64) *Fit {
	const (
		// A step may take this much longer with any number of tokens.
		gear = 0.01
		// How far rates may lie from the prior, as a multiple of it.
		wide = 1.2
	)
	prior, spread := make([]float64, terms), make([]float64, terms)
	set := func(i int, p, s float64) { prior[i], spread[i] = p, s }
	set(termBase, base, max(base, 0.05))
	set(termBusy, 0, 0.05)
	half := perKilo / 2 // the cost of a token is shared by two terms
	for i := range len(knots) - 1 {
		width := (knots[i+1] - knots[i]) / kilo
		set(termTokens+i, half*width, max(wide*perKilo*width, gear))
	}
	set(termTokens+len(knots)-1, half, wide*perKilo)
	set(termOwn, half, wide*perKilo)
	set(termPairs, 0, 0.01)
	set(termAhead, half, wide*perKilo)
	set(termDecode, 0, 0.02)
	set(termWait, perKilo*meanPrompt/kilo, wide*perKilo)
	set(termFull, 0, 1)
	set(termStale, 0, 0.02)
	return NewFit(prior, spread, forget)
}

// Surface evaluates the coefficients of a Fit quickly. It is not modified once
// made.
type Surface struct {
	at   [len(knots)]float64 // cost of a batch of as many tokens as the knot says
	tail float64             // of a thousand tokens beyond
	base, busy, own, pairs, ahead, decode,
	wait, full, stale float64
}

// NewSurface makes a Surface of the coefficients of a Fit from [NewTTFT].
func NewSurface(c []float64) Surface {
	s := Surface{
		tail: c[termTokens+len(knots)-1], base: c[termBase], busy: c[termBusy],
		own: max(c[termOwn], fastest), pairs: c[termPairs], ahead: c[termAhead], decode: c[termDecode],
		wait: c[termWait], full: c[termFull], stale: c[termStale],
	}
	for i := 1; i < len(knots); i++ {
		s.at[i] = s.at[i-1] + c[termTokens+i-1]
	}
	return s
}

// Time returns the time to first token, and what computing this request's own
// tokens would take alone, which is never more.
func (s *Surface) Time(l *Load) (total, own float64) {
	mine := s.own*l.Own/kilo + s.pairs*l.OwnPairs/mega
	total = s.base + s.busy*l.busy() + s.batch(l.Own+l.Ahead) + mine +
		s.ahead*l.Ahead/kilo + s.pairs*l.AheadPairs/mega +
		s.decode*l.Decoding/ten + s.wait*l.Waiting + s.full*l.Pressure + s.stale*l.Stale
	return total, s.batch(l.Own) + mine
}

// batch is what computing so many tokens costs, as far as their sum decides.
func (s *Surface) batch(tokens float64) float64 {
	last := len(knots) - 1
	if tokens >= knots[last] {
		return s.at[last] + s.tail*(tokens-knots[last])/kilo
	}
	i := 1
	for tokens > knots[i] {
		i++
	}
	return s.at[i-1] + (s.at[i]-s.at[i-1])*max(tokens-knots[i-1], 0)/(knots[i]-knots[i-1])
}

// UpdateTTFT takes in a measured time to first token where expected was predicted.
func (f *Fit) UpdateTTFT(l *Load, y, expected float64) {
	var x [terms]float64
	l.vector(x[:])
	f.Update(x[:], y, expected)
}
