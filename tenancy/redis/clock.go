package redis

import (
	"sync/atomic"
	"time"
)

const micro = int64(time.Microsecond)

// clock is our idea of Redis's time: what it said last, and what has passed since. It is
// only for telling in which period of a calendar that is; Redis checks it.
type clock struct {
	base time.Time
	// offset is what Redis's time was when base was, in microseconds.
	offset atomic.Int64
	// set is Redis's clock in tests; nil else.
	set func() int64
}

func newClock(set func() int64) *clock {
	c := &clock{base: time.Now(), set: set}
	c.offset.Store(c.base.UnixMicro())
	return c
}

func (c *clock) now() int64 {
	if c.set != nil {
		return c.set()
	}
	return c.offset.Load() + time.Since(c.base).Microseconds()
}

// is takes in that Redis's time is now.
func (c *clock) is(now int64) {
	if c.set == nil {
		c.offset.Store(now - time.Since(c.base).Microseconds())
	}
}

// micros rounds up: no time of Redis's, which are whole, is on another side of it then.
func micros(t time.Time) int64 {
	us := t.UnixMicro() // rounds down
	if t.Nanosecond()%int(micro) != 0 {
		us++
	}
	return us
}

func fromMicros(us int64) time.Time { return time.UnixMicro(us) }
