package steer

import (
	"iter"
	"time"
)

// hesitant is the part of its own prefill that a request waits for others that come
// at the same moment: it is going to keep them waiting for the whole.
const hesitant = 0.01

// notable is the least wait that is worth a timer.
const notable = 100 * time.Microsecond

// Hesitation is for how long a request whose prefill takes work waits for others
// that come at the same moment, at most for so long.
func Hesitation(work, most time.Duration) time.Duration {
	h := min(times(work, hesitant), most)
	if h < notable {
		return 0
	}
	return h
}

// Hesitates reports whether w, which is next in line, is still to wait for others
// that may come before it. It does not while one behind it could pass it by that
// which is there for another reason than a longer prefill.
func Hesitates(now time.Time, w *Waiter, behind iter.Seq[*Waiter]) bool {
	if !now.Before(w.Due) {
		return false
	}
	for o := range behind {
		if (o.Priority != w.Priority || o.Tenant != w.Tenant) && !now.Before(o.Due) {
			return false
		}
	}
	return true
}
