package ledger

import "github.com/kvsteer/kvsteer/tenancy/ledger/internal/attempt"

// Seen drops doubles. Its zero value has seen none. It remembers about 50 bytes for each
// attempt; it is not safe for concurrent use.
type Seen struct {
	states map[attempt.Key]uint8
}

// First reports whether it is the first time that it sees this ID, Attempt and State.
func (s *Seen) First(r *Record) bool {
	if s.states == nil {
		s.states = map[attempt.Key]uint8{}
	}
	bit := uint8(1)
	switch r.State {
	case Reserved:
	case Settled:
		bit = 2
	default:
		bit = 4
	}
	key := attempt.Of(r.ID, r.Attempt)
	had := s.states[key]
	s.states[key] = had | bit
	return had&bit == 0
}
