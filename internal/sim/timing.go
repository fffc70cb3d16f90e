package sim

import "time"

// Timing holds the coefficients of a step's duration, each in seconds:
//
//	Base + PrefillToken*p + PrefillPair*a + DecodeSequence*d + DecodeContext*c
//
// where p is the number of prompt tokens computed in the step, a the number of
// (query, key) pairs that their attention visits, d the number of sequences
// that decode one token, and c the sum of those sequences' context lengths.
type Timing struct {
	// Base is paid by every step: reading the weights once, launching kernels,
	// scheduling.
	Base float64
	// PrefillToken is the cost of one prompt token in everything but attention.
	PrefillToken float64
	// PrefillPair is the attention cost of one (query, key) pair; it makes prefill
	// quadratic in the context.
	PrefillPair float64
	// DecodeSequence is the cost of one more sequence in the decode batch.
	DecodeSequence float64
	// DecodeContext is the cost of reading one cached token back for a decode.
	DecodeContext float64
}

// DefaultTiming resembles a 27B model in FP8 on one NVIDIA L40S with a step
// budget of 2,048 tokens. Fitted on two published figures (Kinference, November
// 2026): an unloaded prefill of 16,256 unique tokens takes 6.8 s to the first token
// (control workload), and the median inter-token latency is about 42 ms with some
// four sequences of 16,000 tokens in flight (shared prefix; control's is not
// published). How the 6.8 s divides was not published and is an estimate from the
// hardware: eight bases of 36 ms (27 GB of weights at 864 GB/s is 31 ms), 8%
// attention (a hybrid model with full attention in every fourth layer), the rest
// linear. A cached token is read at 64 KiB.
func DefaultTiming() Timing {
	return Timing{
		Base:           36e-3,
		PrefillToken:   366e-6,
		PrefillPair:    4.2e-9,
		DecodeSequence: 0.3e-3,
		DecodeContext:  75e-9,
	}
}

// Scale returns the timing of hardware on which everything takes factor times
// as long.
func (t Timing) Scale(factor float64) Timing {
	t.Base *= factor
	t.PrefillToken *= factor
	t.PrefillPair *= factor
	t.DecodeSequence *= factor
	t.DecodeContext *= factor
	return t
}

// Load is what one step has to compute.
type Load struct {
	// PrefillTokens is the number of prompt tokens, Prefills the number of
	// requests they belong to.
	PrefillTokens, Prefills int
	// PrefillPairs is the number of (query, key) pairs of their attention.
	PrefillPairs float64
	// Decodes is the number of sequences that decode one token, DecodeContext the
	// sum of their context lengths in tokens.
	Decodes       int
	DecodeContext int
}

// prefill adds a chunk of n tokens that follows context computed ones.
func (l *Load) prefill(context, n int) {
	l.Prefills++
	l.PrefillTokens += n
	l.PrefillPairs += float64(n)*float64(context) + float64(n)*float64(n+1)/2
}

// decode adds one token of a sequence with the given context.
func (l *Load) decode(context int) {
	l.Decodes++
	l.DecodeContext += context
}

// Duration returns how long a step with the given load takes.
func (t Timing) Duration(l Load) time.Duration {
	s := t.Base +
		t.PrefillToken*float64(l.PrefillTokens) +
		t.PrefillPair*l.PrefillPairs +
		t.DecodeSequence*float64(l.Decodes) +
		t.DecodeContext*float64(l.DecodeContext)
	return time.Duration(s * float64(time.Second))
}
