// Package attempt names the attempts of requests in few bytes.
package attempt

import (
	"crypto/sha256"
	"encoding/binary"
)

// Key stands for an ID and an attempt: 128 bits of a hash, which no two will share, even
// if somebody tries.
type Key [16]byte

// Of returns the Key.
func Of(id string, attempt int) Key {
	var buf [128]byte
	b := binary.AppendVarint(buf[:0], int64(attempt))
	sum := sha256.Sum256(append(b, id...))
	return Key(sum[:len(Key{})])
}
