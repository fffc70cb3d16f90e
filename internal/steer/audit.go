package steer

import (
	"math"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// The audit is Wald's sequential test, run over and over: it sums up the logarithms of
// how much likelier each comparison is at the intolerable share of disagreements than
// at the tolerable one, and ends at either of two bounds. A trusted owner becomes
// Suspect at the upper, a Suspect one is trusted again at the lower; at the other it
// begins anew. The bounds are Wald's, for these rates of error of one test:
//
//   - falseAlarm: an owner with the tolerable share is doubted. Where a test takes some
//     14 comparisons, as it does there, 100,000 requests are 7,000 tests. It is far less
//     than that asks for because races come together, and the test takes each for itself.
//   - missed: one with the intolerable share is taken for good. It costs one more
//     test, or a moment of trust.
//
// Some disagreements are honest: an engine stores or evicts between a pick and the
// admission of its request, siblings are computed side by side. Of an owner whose
// events are followed these are a few in a hundred, and a wrong block size, tokenizer
// or template, or lost events, show in half of the prompts and more. Between the two
// shares, at about a fifth, it is undecided for long.
//
// An owner without events is expected to be wrong, as nobody tells what its engine
// evicts. There only this counts: that nothing at all is found of what was expected.
// Half of the time may be bad luck; all the time is no cache.
//
// So an owner that is always wrong is doubted after 12 requests, 15 if the test was
// about to end well, one that is half wrong after 35 on average, and one without events,
// of which nothing is ever found, after 29 (TestAuditFindsWhatIsWrong). They are trusted again after 11 agreements, or 3 where
// anything found counts.
const (
	tolerable, intolerable             = 0.05, 0.5
	tolerableUnheard, intolerableZeros = 0.5, 0.95

	falseAlarm        = 1e-12
	falseAlarmUnheard = 1e-8
	missed            = 1e-3
)

// test is the sequential test of an owner.
type test struct{ tolerable, intolerable, falseAlarm float64 }

func testOf(trust kvcache.Trust) test {
	if trust <= kvcache.Approximate {
		return test{tolerableUnheard, intolerableZeros, falseAlarmUnheard}
	}
	return test{tolerable, intolerable, falseAlarm}
}

// weigh is what one comparison adds to the sum.
func (t test) weigh(wrong bool) float64 {
	if wrong {
		return math.Log(t.intolerable / t.tolerable)
	}
	return math.Log((1 - t.intolerable) / (1 - t.tolerable))
}

// bounds of the sum.
func (t test) bounds() (good, bad float64) {
	return math.Log(missed / (1 - t.falseAlarm)), math.Log((1 - missed) / t.falseAlarm)
}

// Comparison is what one answered request says of its owner's cache.
type Comparison struct {
	// Reported and Expected are the prompt's cached tokens, by the engine and by the
	// index when the request was sent. Sure is how many of the latter an engine that
	// works must find: the rest may still have been computed for another request.
	Reported, Expected, Sure int
	// Prompt is the prompt's tokens as they were taken for, Counted as the engine
	// counted them, 0 if it didn't say.
	Prompt, Counted int
	// Block is the block size in tokens that Expected was worked out with.
	Block int
}

// Agrees reports whether the cached tokens are what was expected, or at least what was
// sure, to less than a block.
func (c *Comparison) Agrees() bool {
	return c.Reported-c.Expected < c.Block && c.Sure-c.Reported < c.Block
}

// tells reports whether the comparison says anything of an owner trusted so: when
// nothing was cached for sure, whatever is wrong would say so too, and of one that is
// known in part an engine may find more.
func (c *Comparison) tells(trust kvcache.Trust) bool {
	switch {
	case c.Reported <= 0 && c.Sure <= 0:
		return false
	case trust <= kvcache.Approximate:
		return c.Expected > 0
	case trust == kvcache.Resyncing:
		return c.Agrees() || c.Reported < c.Expected
	default:
		return true
	}
}

// wrong reports whether it speaks against an owner trusted so.
func (c *Comparison) wrong(trust kvcache.Trust) bool {
	if trust <= kvcache.Approximate && c.Reported > 0 {
		return false
	}
	return !c.Agrees()
}

// Turn is what became of a test.
type Turn uint8

const (
	// Goes: it has not ended, or ended as the one before.
	Goes Turn = iota
	// Doubted: the owner is Suspect from now on.
	Doubted
	// Confirmed: the owner, Suspect already, is wrong as before.
	Confirmed
	// Restored: the owner is trusted again.
	Restored
)

// Audit compares an engine's reported cached tokens with ours, and says when they
// differ too often. Its doubt stands beside what events say of the owner, and outlasts
// whatever happens to them. The zero value is ready; it is not safe for concurrent use.
type Audit struct {
	sum     float64
	doubted bool
	// Doubts is what the running test has seen, or the one that Record has just ended.
	Doubts Doubts
	ended  bool
}

// Record takes in a comparison for an owner that is trusted so by what events say.
func (a *Audit) Record(c *Comparison, trust kvcache.Trust) Turn {
	if trust == kvcache.Blind || !c.tells(trust) {
		return Goes
	}
	if a.ended {
		a.Doubts, a.ended = Doubts{}, false
	}
	t := testOf(trust)
	wrong := c.wrong(trust)
	a.sum += t.weigh(wrong)
	a.Doubts.add(c, wrong)
	was := a.doubted
	switch good, bad := t.bounds(); {
	case a.sum >= bad:
		a.sum, a.ended, a.doubted = 0, true, true
		if was {
			return Confirmed
		}
		return Doubted
	case a.sum <= good:
		a.sum, a.ended, a.doubted = 0, true, false
		if was {
			return Restored
		}
	default:
	}
	return Goes
}

// Doubted reports whether the owner is Suspect.
func (a *Audit) Doubted() bool { return a.doubted }

// Forget begins anew: what the comparisons were with is no more.
func (a *Audit) Forget() { *a = Audit{} }

// Suspected is what an owner is trusted as that is doubted, by what events say of it. Of
// one that is Blind nothing is counted on, and nothing to be doubted.
func Suspected(trust kvcache.Trust) kvcache.Trust {
	if trust == kvcache.Blind {
		return trust
	}
	return kvcache.Suspect
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
