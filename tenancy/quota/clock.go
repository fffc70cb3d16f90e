package quota

import (
	"sync/atomic"
	"time"
)

// clock counts nanoseconds that never go back.
type clock struct {
	read func() time.Time
	base time.Time
	last atomic.Int64
}

// now returns the nanoseconds since the clock was made, and the time of the day. A
// time with a monotonic reading is compared by it, whatever the clock was set to;
// without one, time that is set back stands still until it is where it was.
func (c *clock) now() (ns int64, wall time.Time) {
	wall = c.read()
	ns = int64(wall.Sub(c.base))
	for {
		last := c.last.Load()
		if ns <= last {
			return last, wall
		}
		if c.last.CompareAndSwap(last, ns) {
			return ns, wall
		}
	}
}
