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
	// index when the request was sent.
	Reported, Expected int
	// Prompt is the prompt's tokens as they were taken for, Counted as the engine
	// counted them, 0 if it didn't say.
	Prompt, Counted int
	// Block is the block size in tokens that Expected was worked out with.
	Block int
}

// Agrees reports whether the counts of cached tokens differ by less than a block.
func (c *Comparison) Agrees() bool {
	diff := c.Reported - c.Expected
	return diff < c.Block && -diff < c.Block
}

// tells reports whether the comparison says anything of an owner trusted so: when
// nothing was cached, whatever is wrong would say so too, and of one that is known in
// part an engine may find more.
func (c *Comparison) tells(trust kvcache.Trust) bool {
	switch {
	case c.Reported <= 0 && c.Expected <= 0:
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
	// Doubted: the owner is to be Suspect.
	Doubted
	// Confirmed: the owner, Suspect already, is wrong as before.
	Confirmed
	// Restored: the owner is to be trusted as before.
	Restored
)

// Audit compares an engine's reported cached tokens with ours, and says when they
// differ too often. The zero value is ready; it is not safe for concurrent use.
type Audit struct {
	sum    float64
	before kvcache.Trust // what Suspect replaced
	// Doubts is what the running test has seen, or the one that Record has just ended.
	Doubts Doubts
	ended  bool
}

// Record takes in a comparison for an owner of trust now, and reports what its trust
// is to be, which is another one if the Turn is Doubted or Restored.
func (a *Audit) Record(c *Comparison, now kvcache.Trust) (to kvcache.Trust, turn Turn) {
	if now == kvcache.Blind {
		return now, Goes
	}
	trust := now
	if now == kvcache.Suspect {
		trust = a.before
	}
	if !c.tells(trust) {
		return now, Goes
	}
	if a.ended {
		a.Doubts, a.ended = Doubts{}, false
	}
	t := testOf(trust)
	wrong := c.wrong(trust)
	a.sum += t.weigh(wrong)
	a.Doubts.add(c, wrong)
	good, bad := t.bounds()
	switch {
	case a.sum >= bad:
		a.sum, a.ended = 0, true
		if now == kvcache.Suspect {
			return now, Confirmed
		}
		a.before = now
		return kvcache.Suspect, Doubted
	case a.sum <= good:
		a.sum, a.ended = 0, true
		if now == kvcache.Suspect && a.before != kvcache.Blind {
			return a.before, Restored
		}
	default:
	}
	return now, Goes
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
