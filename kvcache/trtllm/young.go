package trtllm

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// chunk is how many bytes of events are packed at a time.
const chunk = 64 << 10

// packers are shared, for each needs the memory of many packed events.
//
//nolint:gochecknoglobals // a pool is of the process
var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return w
}}

// young are an engine's first events, from number 0 on and without a gap. They are kept
// packed, in about an eighth of what they came in: events spell out each token of each block
// as an object of its own, and hardly any of them are ever asked for again.
type young struct {
	began  time.Time
	size   int64    // of the events, as they came
	packed [][]byte // each of whole events
	rest   []byte   // events that don't fill a chunk yet
}

// fits reports whether the next event may be kept as well.
func (y *young) fits(it *item, now time.Time) bool {
	return y.size+it.size <= maxUnclaimed && now.Sub(y.began) < youth
}

// add keeps an event. Nothing of it is shared.
func (y *young) add(it *item) {
	y.size += it.size
	y.rest = binary.AppendUvarint(y.rest, it.Seq)
	y.rest = binary.AppendUvarint(y.rest, uint64(it.size))
	y.rest = binary.AppendUvarint(y.rest, uint64(len(it.Payload)))
	y.rest = append(y.rest, it.Payload...)
	if len(y.rest) < chunk {
		return
	}
	w := packers.Get().(*flate.Writer) //nolint:forcetypeassert // nothing else is in there
	defer packers.Put(w)
	var to bytes.Buffer
	w.Reset(&to)
	_, _ = w.Write(y.rest) // to memory
	_ = w.Close()
	w.Reset(io.Discard) // so that it does not hold on to this
	y.packed = append(y.packed, slices.Clone(to.Bytes()))
	if y.rest = y.rest[:0]; cap(y.rest) > 2*chunk {
		y.rest = nil // one event was far longer than most are
	}
}

// items are all of them.
func (y *young) items() []item {
	var all []item
	for _, p := range y.packed {
		b, err := io.ReadAll(flate.NewReader(bytes.NewReader(p)))
		if err != nil {
			return all // it can't be; who reads them would find a gap
		}
		all = unpack(all, b)
	}
	return unpack(all, slices.Clone(y.rest))
}

// unpack appends what add wrote.
func unpack(to []item, b []byte) []item {
	number := func() uint64 {
		n, length := binary.Uvarint(b)
		b = b[length:]
		return n
	}
	for len(b) > 0 {
		seq, size, length := number(), number(), number()
		it := item{follow.Message{Seq: seq, Payload: b[:length:length]}, int64(size)}
		b, to = b[length:], append(to, it)
	}
	return to
}
