package pb

import (
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/pb/internal/replicav1"
)

// maxInstances is as many as there are loads and bookings to speak of them.
const maxInstances = replica.MaxLoads + replica.MaxBookings

// Numbers of fields in replica.proto.
const (
	fieldVersion   = 1
	fieldInstances = 7
	fieldLoads     = 8
	fieldBookings  = 9
)

// Unmarshal decodes a message, which shares nothing with data. The error wraps
// [ErrVersion], [ErrMalformed] or [ErrBounds]; it contains nothing of the message but
// numbers. It takes memory in proportion to data, at most some 24 MB on the way.
func Unmarshal(data []byte) (*replica.Message, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrBounds, len(data), MaxBytes)
	}
	if err := survey(data); err != nil {
		return nil, err
	}
	w := &replicav1.Message{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, w); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	m := &replica.Message{
		Version: replica.Version, Router: w.GetRouter(), Epoch: w.GetEpoch(), Seq: w.GetSeq(), Full: w.GetFull(), Bye: w.GetBye(),
	}
	var err error
	if m.Loads, err = loads(w); err != nil {
		return nil, err
	}
	if m.Bookings, err = bookings(w); err != nil {
		return nil, err
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return m, nil
}

// survey looks at a message's own fields without room for any: at its version, and how
// many of each there are. So few bytes that claim to be very many loads do no harm, and
// of another version nothing else is judged.
func survey(data []byte) error {
	var version uint64
	var count [fieldBookings + 1]int
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return fmt.Errorf("%w: a field's tag is cut off or wrong", ErrMalformed)
		}
		data = data[n:]
		size := protowire.ConsumeFieldValue(number, kind, data)
		if size < 0 {
			return fmt.Errorf("%w: field %d is cut off or wrong", ErrMalformed, number)
		}
		if number == fieldVersion && kind == protowire.VarintType {
			version, _ = protowire.ConsumeVarint(data)
		}
		if int(number) < len(count) {
			count[number]++
		}
		data = data[size:]
	}
	switch {
	case version == 0:
		return fmt.Errorf("%w: it says no version", ErrMalformed)
	case version != replica.Version:
		return &VersionError{version}
	case count[fieldLoads] > replica.MaxLoads:
		return tooMany("loads", count[fieldLoads], replica.MaxLoads)
	case count[fieldBookings] > replica.MaxBookings:
		return tooMany("bookings", count[fieldBookings], replica.MaxBookings)
	case count[fieldInstances] > maxInstances:
		return tooMany("instances", count[fieldInstances], maxInstances)
	}
	return nil
}

func tooMany(what string, n, most int) error {
	return fmt.Errorf("%w: %d %s, at most %d are allowed", ErrBounds, n, what, most)
}

func loads(w *replicav1.Message) ([]replica.Load, error) {
	if len(w.GetLoads()) == 0 {
		return nil, nil
	}
	all := make([]replica.Load, len(w.GetLoads()))
	for i, from := range w.GetLoads() {
		instance, err := instanceAt(w, from.GetInstance())
		if err != nil {
			return nil, err
		}
		all[i] = replica.Load{
			Instance: instance, Rank: number(from.GetRank()),
			PrefillRequests: number(from.GetPrefillRequests()), PrefillTokens: number(from.GetPrefillTokens()),
			PrefillPairs: long(from.GetPrefillPairs()), PrefillFor: time.Duration(long(from.GetPrefillNanos())),
			DecodeRequests: number(from.GetDecodeRequests()), OutputTokens: number(from.GetOutputTokens()),
			ContextTokens: number(from.GetContextTokens()),
		}
	}
	return all, nil
}

func bookings(w *replicav1.Message) ([]replica.Booking, error) {
	if len(w.GetBookings()) == 0 {
		return nil, nil
	}
	total := 0
	for _, from := range w.GetBookings() {
		total += len(from.GetKeys())
	}
	if total > replica.MaxKeys {
		return nil, tooMany("keys", total, replica.MaxKeys)
	}
	keys := make([]kvcache.Key, 0, total) // all in one piece
	all := make([]replica.Booking, len(w.GetBookings()))
	for i, from := range w.GetBookings() {
		instance, err := instanceAt(w, from.GetInstance())
		if err != nil {
			return nil, err
		}
		begin := len(keys)
		for _, k := range from.GetKeys() {
			keys = append(keys, kvcache.Key(k))
		}
		all[i] = replica.Booking{
			Instance: instance, Rank: number(from.GetRank()),
			TTL: time.Duration(long(from.GetTtlNanos())),
		}
		if begin < len(keys) {
			all[i].Keys = keys[begin:len(keys):len(keys)]
		}
	}
	return all, nil
}

func instanceAt(w *replicav1.Message, at uint64) (string, error) {
	if at >= uint64(len(w.GetInstances())) {
		return "", fmt.Errorf("%w: it speaks of instance %d of %d", ErrMalformed, at, len(w.GetInstances()))
	}
	return w.GetInstances()[at], nil
}

// number is n, or -1 if that is beyond all bounds, which Check finds then.
func number(n uint64) int {
	if n > math.MaxInt32 {
		return -1
	}
	return int(n)
}

// long is as number.
func long(n uint64) int64 {
	if n > math.MaxInt64 {
		return -1
	}
	return int64(n)
}
