package pb

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/pb/internal/replicav1"
)

// MaxBytes is how long a message may be. One that is within the bounds of package replica
// is shorter, whatever is in it.
const MaxBytes = 4 << 20

// Marshal encodes m, which it keeps nothing of. The error wraps [ErrBounds] if m is beyond
// the bounds of package replica.
func Marshal(m *replica.Message) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	if m.Version <= 0 {
		return nil, fmt.Errorf("%w: the version is %d; set it to replica.Version", ErrBounds, m.Version)
	}
	w := &replicav1.Message{
		Version: uint64(m.Version), Router: m.Router, Epoch: m.Epoch, Seq: m.Seq, Full: m.Full, Bye: m.Bye,
		Loads: make([]*replicav1.Load, len(m.Loads)), Bookings: make([]*replicav1.Booking, len(m.Bookings)),
	}
	names := places{at: make(map[string]uint64)}
	loads := make([]replicav1.Load, len(m.Loads))
	for i := range m.Loads {
		l, to := &m.Loads[i], &loads[i]
		to.Instance, to.Rank = names.place(l.Instance), uint64(l.Rank)
		to.PrefillRequests, to.PrefillTokens = uint64(l.PrefillRequests), uint64(l.PrefillTokens)
		to.PrefillPairs, to.PrefillNanos = uint64(l.PrefillPairs), uint64(l.PrefillFor)
		to.DecodeRequests, to.OutputTokens, to.ContextTokens = uint64(l.DecodeRequests), uint64(l.OutputTokens), uint64(l.ContextTokens)
		w.Loads[i] = to
	}
	bookings := make([]replicav1.Booking, len(m.Bookings))
	for i := range m.Bookings {
		b, to := &m.Bookings[i], &bookings[i]
		to.Instance, to.Rank, to.TtlNanos = names.place(b.Instance), uint64(b.Rank), uint64(b.TTL)
		to.Keys = make([]uint64, len(b.Keys))
		for j, k := range b.Keys {
			to.Keys[j] = uint64(k)
		}
		w.Bookings[i] = to
	}
	w.Instances = names.all
	return proto.MarshalOptions{Deterministic: true}.Marshal(w)
}

// places numbers the instances of a message in the order in which they are met.
type places struct {
	at  map[string]uint64
	all []string
}

func (p *places) place(name string) uint64 {
	at, ok := p.at[name]
	if !ok {
		at = uint64(len(p.all))
		p.at[name] = at
		p.all = append(p.all, name)
	}
	return at
}
