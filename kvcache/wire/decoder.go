package wire

import (
	"errors"
	"fmt"
	"math"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Errors of the decoders. A payload that gives one yields no batch: what it
// announced is unknown, as if the message had been lost.
var (
	// ErrSyntax: the payload is not one well-formed value. It was damaged or cut
	// on the way, or the sender speaks another encoding.
	ErrSyntax = errors.New("wire: not well-formed")
	// ErrShape: the payload is well-formed but not a batch of events. The topic
	// or address belongs to something else.
	ErrShape = errors.New("wire: not an event batch")
)

// Bounds of what a Decoder keeps between calls.
const (
	// maxKept is the number of elements of one buffer beyond which it is let go
	// before the next batch, so that one huge batch doesn't pin its memory.
	maxKept = 1 << 20
	// maxInterned and maxInternedLen bound the table of names that recur.
	maxInterned    = 4096
	maxInternedLen = 256
)

// Decoder decodes the event batches of vLLM and SGLang. The zero value is
// ready. It reuses its buffers, so that decoding allocates nothing once they
// have grown; it is not for concurrent use. Its memory is proportional to the
// largest payload seen, up to a bound.
type Decoder struct {
	r     reader
	batch kvcache.Batch

	hashes   []kvcache.EngineHash
	tokens   []uint32
	extras   []kvcache.Extra
	perBlock [][]kvcache.Extra
	names    map[string]string
}

// Decode decodes one payload, the last frame of a message. The batch, with
// everything it refers to except strings, is valid until the next call. Either
// the batch or the error is nil; the error wraps [ErrSyntax] or [ErrShape].
func (d *Decoder) Decode(payload []byte) (*kvcache.Batch, error) {
	d.reset(payload)
	err := d.readBatch()
	d.r.b = nil
	if err != nil {
		return nil, err
	}
	return &d.batch, nil
}

func (d *Decoder) reset(payload []byte) {
	d.r = reader{b: payload}
	d.batch = kvcache.Batch{Rank: -1, Events: recycle(d.batch.Events)}
	d.hashes = recycle(d.hashes)
	d.tokens = recycle(d.tokens)
	d.extras = recycle(d.extras)
	d.perBlock = recycle(d.perBlock)
}

// recycle empties a buffer, or lets go of one that grew too large.
func recycle[T any](buf []T) []T {
	if cap(buf) > maxKept {
		return nil
	}
	return buf[:0]
}

// readBatch reads [ts, events, rank, ...] or a map with the same names.
func (d *Decoder) readBatch() error {
	h := d.r.next()
	var err error
	switch h.kind {
	case kindArray:
		err = d.readBatchArray(h.n)
	case kindMap:
		err = d.readBatchMap(h.n)
	case kindInvalid:
		return d.syntax()
	default:
		return fmt.Errorf("%w: neither an array nor a map", ErrShape)
	}
	if err != nil {
		return err
	}
	if d.r.left() > 0 {
		return fmt.Errorf("%w: %d bytes after the batch", ErrSyntax, d.r.left())
	}
	return nil
}

func (d *Decoder) readBatchArray(n uint64) error {
	const least = 2
	if n < least {
		return fmt.Errorf("%w: array of %d", ErrShape, n)
	}
	if err := d.readTime(); err != nil {
		return err
	}
	if err := d.readEvents(); err != nil {
		return err
	}
	if n > least {
		if err := d.readRank(); err != nil {
			return err
		}
	}
	for ; n > least+1; n-- {
		if !d.r.skip() {
			return d.syntax()
		}
	}
	return nil
}

func (d *Decoder) readBatchMap(n uint64) error {
	events := false
	for ; n > 0; n-- {
		key, ok := d.key()
		if !ok {
			return d.syntax()
		}
		var err error
		switch string(key) {
		case "ts":
			err = d.readTime()
		case "events":
			if events {
				return fmt.Errorf("%w: events twice", ErrShape)
			}
			events = true
			err = d.readEvents()
		case "data_parallel_rank", "attn_dp_rank":
			err = d.readRank()
		default:
			if !d.r.skip() {
				err = d.syntax()
			}
		}
		if err != nil {
			return err
		}
	}
	if !events {
		return fmt.Errorf("%w: map without events", ErrShape)
	}
	return nil
}

func (d *Decoder) readTime() error {
	h := d.r.next()
	switch h.kind {
	case kindFloat:
		d.batch.Time = math.Float64frombits(h.n)
	case kindUint:
		d.batch.Time = float64(h.n)
	case kindNil:
	case kindInvalid:
		return d.syntax()
	default:
		return fmt.Errorf("%w: time is not a number", ErrShape)
	}
	return nil
}

// readRank accepts anything: a rank that is not one is an absent one, and the
// endpoint's own rank holds.
func (d *Decoder) readRank() error {
	start := d.r.i
	if h := d.r.next(); h.kind == kindUint && h.n <= math.MaxInt32 {
		d.batch.Rank = int(h.n)
		return nil
	}
	d.r.i = start
	if !d.r.skip() {
		return d.syntax()
	}
	return nil
}

func (d *Decoder) readEvents() error {
	h := d.r.next()
	switch h.kind {
	case kindArray:
	case kindNil:
		return nil
	case kindInvalid:
		return d.syntax()
	default:
		return fmt.Errorf("%w: events are not an array", ErrShape)
	}
	for n := h.n; n > 0; n-- {
		start := d.r.i
		result := d.readEvent()
		switch result {
		case readOK:
			continue
		case readUnknown:
			d.batch.Unknown++
		case readBad:
			d.batch.Malformed++
		default:
			return d.syntax()
		}
		d.r.i = start
		if !d.r.skip() {
			return d.syntax()
		}
	}
	return nil
}

func (d *Decoder) syntax() error {
	return fmt.Errorf("%w: cut short or damaged near byte %d of %d", ErrSyntax, d.r.i, len(d.r.b))
}

// key reads a map's key: its bytes if it is a string, else nil. false means
// that the payload is damaged.
func (d *Decoder) key() ([]byte, bool) {
	start := d.r.i
	h := d.r.next()
	switch h.kind {
	case kindStr:
		return d.r.take(h.n), true
	case kindInvalid:
		return nil, false
	default:
		d.r.i = start
		return nil, d.r.skip()
	}
}

// name returns b as a string, the same one each time for names that recur.
func (d *Decoder) name(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(b) > maxInternedLen {
		return s
	}
	if len(d.names) >= maxInterned || d.names == nil {
		d.names = make(map[string]string)
	}
	d.names[s] = s
	return s
}
