package salt

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
)

// MinSecret is how long a secret must be, in bytes: as long as what is derived.
const MinSecret = sha256.Size

// Key is a secret and its name. Printing one does not show the secret.
type Key struct {
	// ID names the key in records, "2026-11" for one; it is no secret.
	ID string `json:"id"`
	// Secret is random, at least [MinSecret] bytes.
	Secret []byte `json:"-"`
}

// String shows the ID alone.
func (k Key) String() string { return fmt.Sprintf("salt.Key{ID: %q}", k.ID) }

// GoString shows the ID alone.
func (k Key) GoString() string { return k.String() }

// key is a Key made ready.
type key struct {
	id     string
	states *sync.Pool // of *state
}

func (k Key) prepare() (key, error) {
	switch {
	case k.ID == "":
		return key{}, errors.New("salt: a key has no ID; name it, by the month for one")
	case len(k.Secret) < MinSecret:
		return key{}, fmt.Errorf("salt: the secret of key %q has %d bytes; make one of %d random bytes or more", k.ID, len(k.Secret), MinSecret)
	default:
	}
	secret := append([]byte(nil), k.Secret...)
	return key{k.ID, &sync.Pool{New: func() any { return &state{mac: hmac.New(sha256.New, secret)} }}}, nil
}
