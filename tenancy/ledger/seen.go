package ledger

import (
	"crypto/sha256"
	"encoding/binary"
)

// Seen drops doubles. Its zero value has seen none. It remembers about 50 bytes for each
// attempt; it is not safe for concurrent use.
type Seen struct {
	states map[attempt]uint8
}

// attempt stands for an ID and an Attempt: 128 bits of a hash, that no two will share.
type attempt [16]byte

func attemptOf(r *Record) attempt {
	var buf [MaxID + binary.MaxVarintLen64]byte
	b := binary.AppendVarint(buf[:0], int64(r.Attempt))
	sum := sha256.Sum256(append(b, r.ID...))
	return attempt(sum[:len(attempt{})])
}

func bit(s State) uint8 {
	switch s {
	case Reserved:
		return 1
	case Settled:
		return 2
	default:
		return 4
	}
}

// First reports whether it is the first time that it sees this ID, Attempt and State.
func (s *Seen) First(r *Record) bool {
	if s.states == nil {
		s.states = map[attempt]uint8{}
	}
	key, b := attemptOf(r), bit(r.State)
	had := s.states[key]
	s.states[key] = had | b
	return had&b == 0
}
