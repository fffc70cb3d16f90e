package kvcache

import "time"

// Defaults of [Options].
const (
	DefaultMaxBytes       = 1 << 30
	DefaultMaxOrphans     = 1 << 14
	DefaultMaxProvisional = 1 << 18
)

// Options configures an [Index]. The zero value works.
type Options struct {
	// MaxBytes bounds the memory of the whole index, over all owners. When it is
	// reached, the blocks that no prompt has matched for longest leave, and are
	// counted as evictions. 0 is DefaultMaxBytes, 1 GiB; the least is MinBytes,
	// 4 MiB.
	MaxBytes int64
	// MaxOrphans bounds the blocks per owner that wait for their parent; those
	// beyond it are dropped and reported. 0 is DefaultMaxOrphans, 16,384.
	MaxOrphans int
	// MaxProvisional bounds the booked blocks per owner that no event has
	// confirmed; beyond it the ones booked least recently leave. 0 is
	// DefaultMaxProvisional, 262,144.
	MaxProvisional int
	// Now tells the time for expiry; nil is time.Now. It is called from whatever
	// goroutine uses the index.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	o.MaxBytes = max(o.MaxBytes, MinBytes)
	if o.MaxOrphans <= 0 {
		o.MaxOrphans = DefaultMaxOrphans
	}
	if o.MaxProvisional <= 0 {
		o.MaxProvisional = DefaultMaxProvisional
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
