package replica

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// Bounds of the amounts in a message. They are far beyond what a worker takes; sums over a
// thousand peers fit an int64. (An int of 32 bits holds one, not a sum.)
const (
	MaxAmount = math.MaxInt32  // requests, and tokens, of a Load
	MaxPairs  = int64(1) << 53 // PrefillPairs of a Load
	MaxTime   = 24 * time.Hour // PrefillFor of a Load, TTL of a Booking
)

// ErrBounds says that a message is beyond the bounds of this package, or lacks what each
// message has. It is for whoever made the message: the text says what is wrong with it.
var ErrBounds = errors.New("replica: message out of bounds")

// Check reports what is wrong with a message: an error that wraps [ErrBounds], or nil.
// Carriers call it before they send and after they receive. It says nothing of Version.
func (m *Message) Check() error {
	switch {
	case m.Epoch == 0:
		return outOf("the epoch is 0")
	case m.Seq == 0:
		return outOf("the sequence number is 0; the first is 1")
	case len(m.Router) > MaxName:
		return outOf("the router's name has %d bytes, at most %d are allowed", len(m.Router), MaxName)
	case !utf8.ValidString(m.Router):
		return outOf("the router's name is not UTF-8")
	case len(m.Loads) > MaxLoads:
		return outOf("%d loads, at most %d are allowed", len(m.Loads), MaxLoads)
	case len(m.Bookings) > MaxBookings:
		return outOf("%d bookings, at most %d are allowed", len(m.Bookings), MaxBookings)
	}
	for i := range m.Loads {
		if err := m.Loads[i].check(); err != nil {
			return fmt.Errorf("%w (load %d)", err, i)
		}
	}
	keys := 0
	for i := range m.Bookings {
		b := &m.Bookings[i]
		if err := checkRank(b.Instance, b.Rank); err != nil {
			return fmt.Errorf("%w (booking %d)", err, i)
		}
		if b.TTL < 0 || b.TTL > MaxTime {
			return outOf("booking %d counts for %v, not from 0 to %v", i, b.TTL, MaxTime)
		}
		keys += len(b.Keys) // no overflow: each is in memory
	}
	if keys > MaxKeys {
		return outOf("%d keys, at most %d are allowed", keys, MaxKeys)
	}
	return nil
}

func (l *Load) check() error {
	if err := checkRank(l.Instance, l.Rank); err != nil {
		return err
	}
	for _, n := range [...]int{l.PrefillRequests, l.PrefillTokens, l.DecodeRequests, l.OutputTokens, l.ContextTokens} {
		if n < 0 || n > MaxAmount {
			return outOf("an amount is %d, not from 0 to %d", n, MaxAmount)
		}
	}
	if l.PrefillPairs < 0 || l.PrefillPairs > MaxPairs {
		return outOf("the pairs are %d, not from 0 to %d", l.PrefillPairs, MaxPairs)
	}
	if l.PrefillFor < 0 || l.PrefillFor > MaxTime {
		return outOf("a prefill lasts for %v, not from 0 to %v", l.PrefillFor, MaxTime)
	}
	return nil
}

func checkRank(instance string, rank int) error {
	switch {
	case instance == "":
		return outOf("an instance has no name")
	case len(instance) > MaxName:
		return outOf("an instance's name has %d bytes, at most %d are allowed", len(instance), MaxName)
	case !utf8.ValidString(instance):
		return outOf("an instance's name is not UTF-8")
	case rank < 0 || rank > MaxRank:
		return outOf("the rank is %d, not from 0 to %d", rank, MaxRank)
	}
	return nil
}

func outOf(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrBounds}, args...)...)
}
