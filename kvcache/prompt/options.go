package prompt

import (
	"net/http"
	"time"
)

// Options configure an [Encoder]. The zero value asks engines over a client of
// its own.
type Options struct {
	// Sources are tried after the caller's ids and before the engine, in order:
	// this is where local tokenizers go. Those of kind [SourceLocal] that come first
	// are called for every request, in its own goroutine and without the cache: they
	// must answer from memory. What they share with the others is the deadline. Those
	// that are a [Prefixer] are asked once more when nothing else but bytes is left.
	// They are not closed with the Encoder.
	Sources []Source
	// NoRender and NoTokenize leave the engine's endpoints out.
	NoRender, NoTokenize bool
	// Client makes the calls to engines. Nil means one that keeps connections
	// alive, uses no proxy, and is closed with the Encoder. Redirects are not followed,
	// which would send prompts to where an engine says, unless Client has a CheckRedirect.
	Client *http.Client
	// Deadline is the time that all sources together may take for one request, on
	// top of what its size explains (a millisecond for each KiB, up to two
	// seconds). 0 means [DefaultDeadline].
	Deadline time.Duration
	// CacheBytes bounds the memory of cached encodings: 0 means
	// [DefaultCacheBytes], negative means no cache.
	CacheBytes int64
	// MaxReply bounds a reply of an engine, in bytes: 0 means [DefaultMaxReply].
	MaxReply int64
	// MaxCalls bounds the calls in flight to one engine; what comes on top is
	// encoded as bytes. 0 means [DefaultMaxCalls].
	MaxCalls int
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

const (
	// DefaultDeadline is a quarter of a second: about what the prefill of a few
	// thousand tokens costs, which is at stake when the ids are not known. An idle
	// engine answers within milliseconds; a busy one's front end may take much
	// longer, and is worth waiting for. One that hangs is left alone after three
	// calls, so that the deadline is not paid for long.
	DefaultDeadline = 250 * time.Millisecond
	// DefaultCacheBytes is 64 MiB, two thousand prompts of 8,000 tokens.
	DefaultCacheBytes = 64 << 20
	// DefaultMaxReply is 16 MiB, two million tokens.
	DefaultMaxReply = 16 << 20
	// DefaultMaxCalls is 64 to one engine.
	DefaultMaxCalls = 64

	// Fast tokenizers do one to five MB/s on one core; prefill of the same text
	// takes several times as long.
	bytesPerMillisecond = 1 << 10
	maxExtraDeadline    = 2 * time.Second

	maxHeader     = 64 << 10 // bytes of a reply's header
	idlePerEngine = 32
	idleFor       = 90 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Deadline <= 0 {
		o.Deadline = DefaultDeadline
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.MaxReply <= 0 {
		o.MaxReply = DefaultMaxReply
	}
	if o.MaxCalls <= 0 {
		o.MaxCalls = DefaultMaxCalls
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// deadline is the time that a request of that many bytes may take.
func (o Options) deadline(size int) time.Duration {
	extra := time.Duration(size/bytesPerMillisecond) * time.Millisecond
	return o.Deadline + min(extra, maxExtraDeadline)
}

// newClient has a transport of its own, so that closing it disturbs nobody.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: idlePerEngine,
			IdleConnTimeout:     idleFor,

			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: stay,
	}
}

// staying is a user's client that goes to the engine's address and nowhere else.
func staying(c *http.Client) *http.Client {
	if c.CheckRedirect != nil {
		return c
	}
	copied := *c
	copied.CheckRedirect = stay
	return &copied
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
