package steer

import (
	"math/bits"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// An owner becomes Suspect when auditBad of its last auditWindow telling requests
// disagree with the index, and is trusted again after auditGood agreements in a
// row. One lost race between a store and a pick is normal; half of them are a
// wrong block size, tokenizer or template, events of another worker, or lost
// ones.
const (
	auditWindow = 16 // the bits of Audit.past
	auditBad    = 8
	auditGood   = 10
)

// Audit counts how an engine's reported cached tokens compare with ours. The zero
// value is ready; it is not safe for concurrent use.
type Audit struct {
	// past holds the latest comparisons, the newest in the lowest bit; set is a
	// disagreement.
	past   uint16        // auditWindow of them
	agreed int           // in a row
	before kvcache.Trust // what Suspect replaced
}

// Tells reports whether a request says anything: when nothing was cached,
// whatever is wrong would say so too.
func Tells(reported, expected int) bool { return reported != 0 || expected != 0 }

// Agrees reports whether two counts of cached tokens differ by less than a block.
func Agrees(reported, expected, block int) bool {
	diff := reported - expected
	return diff < block && -diff < block
}

// Record takes in one comparison for an owner of trust now, and reports what its
// trust is to be changed to, if it is.
func (a *Audit) Record(agrees bool, now kvcache.Trust) (to kvcache.Trust, changed bool) {
	a.past <<= 1
	a.agreed++
	if !agrees {
		a.past |= 1
		a.agreed = 0
	}
	switch {
	case now > kvcache.Suspect && bits.OnesCount16(a.past) >= auditBad:
		// What led here is dealt with: whoever finds a remedy starts anew.
		a.before, a.past = now, 0
		return kvcache.Suspect, true
	case now == kvcache.Suspect && a.agreed >= auditGood && a.before > kvcache.Suspect:
		return a.before, true
	default:
		return now, false
	}
}

// shortAnswer is the number of tokens below which the time between them says
// little: engines and proxies send the first few together.
const shortAnswer = 8

// Pace is the time between tokens of an answer of n tokens whose last came took
// after its first; 0 if it is too short to tell.
func Pace(took time.Duration, n int) time.Duration {
	if n < shortAnswer {
		return 0
	}
	return max(took/time.Duration(n-1), 0)
}
