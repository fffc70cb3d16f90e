package salt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"sync/atomic"
)

// Size is the length of every salt: 256 bits in the URL alphabet of base64, unpadded.
const Size = 43

// label separates these values from all others that the secret may be used for. It
// changes with what is derived.
const label = "kvsteer cache salt 1"

// Fields are whose cache it is. All are of any length and content; those who have equal
// Fields share a cache.
type Fields struct {
	// Org and Tenant are as in tenancy.Identity. All whom nobody has verified have
	// neither, and so share one cache that is nobody else's.
	Org, Tenant string
	// Client is the salt that the client sent, if it may divide its tenant's cache
	// further; it cannot reach another's with it. Absent is the same as empty.
	Client string
}

// Salter derives salts. Make it with [New]. Safe for concurrent use.
type Salter struct{ keys atomic.Pointer[[]key] }

// New returns a Salter with the key that salts are derived with, and those before it.
func New(current Key, previous ...Key) (*Salter, error) {
	s := new(Salter)
	if err := s.Rotate(current, previous...); err != nil {
		return nil, err
	}
	return s, nil
}

// Rotate replaces all keys at once. After an error those before are still in force. What
// engines hold under a key that is not used any more is found no more, and ages out of
// their caches: requests that follow a rotation are as slow as first ones.
func (s *Salter) Rotate(current Key, previous ...Key) error {
	all := append([]Key{current}, previous...)
	keys := make([]key, len(all))
	for i := range all {
		k, err := all[i].prepare()
		if err != nil {
			return err
		}
		for j := range i {
			if all[j].ID == k.id {
				return fmt.Errorf("salt: two keys have the ID %q; give each its own", k.id)
			}
			if hmac.Equal(all[j].Secret, all[i].Secret) {
				return fmt.Errorf("salt: the keys %q and %q have the same secret; a new key needs a new one", all[j].ID, k.id)
			}
		}
		keys[i] = k
	}
	s.keys.Store(&keys)
	return nil
}

// ID names the current key.
func (s *Salter) ID() string { return (*s.keys.Load())[0].id }

// Salt derives with the current key. The result has [Size] characters.
func (s *Salter) Salt(f *Fields) string { return (*s.keys.Load())[0].derive(f) }

// ErrUnknownKey is for whoever asks for a salt of a key that was retired: use
// [Salter.Salt], and what was cached is lost.
var ErrUnknownKey = errors.New("salt: there is no key of that ID, perhaps not any more")

// SaltWith derives with the key of an ID, current or previous: a conversation that began
// before a rotation finds its cache with the ID that it began with. The error is
// [ErrUnknownKey].
func (s *Salter) SaltWith(id string, f *Fields) (string, error) {
	for _, k := range *s.keys.Load() {
		if k.id == id {
			return k.derive(f), nil
		}
	}
	return "", ErrUnknownKey
}

// state is the memory of one derivation.
type state struct {
	mac hash.Hash
	buf []byte
	sum [sha256.Size]byte
	out [Size]byte
}

// mostKept bounds the memory that is kept for the next derivation, in bytes.
const mostKept = 4096

func (k *key) derive(f *Fields) string {
	s, _ := k.states.Get().(*state)
	defer k.states.Put(s)
	b := framed(s.buf[:0], label)
	b = framed(b, f.Org)
	b = framed(b, f.Tenant)
	b = framed(b, f.Client)
	s.mac.Reset()
	s.mac.Write(b)
	s.mac.Sum(s.sum[:0])
	base64.RawURLEncoding.Encode(s.out[:], s.sum[:])
	if cap(b) <= mostKept {
		s.buf = b
	}
	return string(s.out[:])
}

// framed appends the length of a field, in 8 bytes, and the field.
func framed(b []byte, field string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(field))), field...)
}
