package tenancy

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	byKey      = "api key"
	hashPrefix = "sha256:"
	// minSecret is the length, in characters, below which no key has the 128 bits that
	// make its hash safe to keep.
	minSecret    = 16
	maxKeyErrors = 20
)

// HashKey returns what a [Key] holds in place of the secret: "sha256:" and 64
// hexadecimal digits. In a shell:
//
//	printf %s "$KEY" | sha256sum | sed 's/^/sha256:/; s/ .*//'
//
// A plain hash is safe only because nobody can guess a key. Make keys at random, of 128
// bits or more (openssl rand -hex 32); never let people choose them. HashKey refuses
// what can't be such a key: less than 16 characters, blanks, commas, and whatever isn't
// visible ASCII, for example the end of line that a file brings along.
func HashKey(secret string) (string, error) {
	switch {
	case len(secret) < minSecret:
		return "", errors.New("tenancy: the key has less than 16 characters and can be guessed; make one at random: openssl rand -hex 32")
	case len(secret) > maxSecret:
		return "", fmt.Errorf("tenancy: the key is longer than %d bytes; make a shorter one: openssl rand -hex 32", maxSecret)
	case !opaque(secret):
		return "", errors.New("tenancy: the key has a blank, a comma, an end of line or another character that a header can't hold; remove it")
	}
	sum := sha256.Sum256([]byte(secret))
	return hashPrefix + hex.EncodeToString(sum[:]), nil
}

// Key is an API key, by its hash.
type Key struct {
	// Hash is as [HashKey] returns it.
	Hash string
	// Identity is who presents the key. Its Key must name the key, and is no secret: it
	// is in logs and records. Two Keys may share it, while one replaces the other.
	// By and Spent are set by [Keys].
	Identity Identity
	// Expires is when it ceases to be valid; the zero Time is never.
	Expires time.Time
	// Disabled keys are refused.
	Disabled bool
}

// KeyError says what is wrong with one of several Keys.
type KeyError struct {
	// Index is that of the Key, ID its Identity.Key, Field what is wrong: "Hash", or a
	// field of Identity.
	Index     int
	ID, Field string
	Problem   string
}

// Error implements error.
func (e *KeyError) Error() string {
	return fmt.Sprintf("tenancy: key %d (%q): %s %s", e.Index, e.ID, e.Field, e.Problem)
}

// KeysOptions are for [NewKeys]. The zero value is fine.
type KeysOptions struct {
	// Now tells the time, by which keys expire. Default time.Now.
	Now func() time.Time
}

// Keys is a [Resolver] by API keys. It knows their hashes only. It is safe for
// concurrent use, and starts nothing that would have to end.
//
// It has the last word on every secret in the headers that [Presented.Secret] looks at:
// what it doesn't know is refused. In a [Chain] it comes after those that verify tokens.
//
// How long a lookup takes says nothing of the keys: it depends on the SHA-256 of what
// was presented, and nobody can choose secrets whose hashes come nearer and nearer to
// one that they don't know. What remains of the hash is compared in constant time.
type Keys struct {
	now   func() time.Time
	table atomic.Pointer[keyTable]
}

// keyTable finds keys by the first bytes of their hashes. More than one key there is
// next to impossible, but no reason to fail.
type keyTable struct {
	slots map[[8]byte][]*keyEntry
	count int
}

type keyEntry struct {
	Key

	sum [sha256.Size]byte
	// presented has the Identity for each set of headers that the key was in, made when
	// it is first seen: they differ in Spent.
	presented [8]atomic.Pointer[Identity]
}

var _ Resolver = (*Keys)(nil)

// NewKeys returns a Resolver for the keys; the error is, or joins, *[KeyError].
func NewKeys(opts KeysOptions, keys ...Key) (*Keys, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	k := &Keys{now: opts.Now}
	if err := k.Replace(keys); err != nil {
		return nil, err
	}
	return k, nil
}

// Replace puts other keys in the place of all there are, at once. If one is wrong,
// nothing changes; the error is, or joins, *[KeyError].
func (k *Keys) Replace(keys []Key) error {
	t := &keyTable{slots: make(map[[8]byte][]*keyEntry, len(keys)), count: len(keys)}
	var errs []error
	for i := range keys {
		if err := t.add(i, &keys[i]); err != nil {
			if errs = append(errs, err); len(errs) == maxKeyErrors {
				break
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	k.table.Store(t)
	return nil
}

// Len is how many keys there are.
func (k *Keys) Len() int { return k.table.Load().count }

func (t *keyTable) add(index int, key *Key) error {
	e := &keyEntry{Key: *key}
	e.Identity.By, e.Identity.Spent = byKey, nil
	e.Identity.Groups = slices.Clone(key.Identity.Groups)
	e.Identity.Models, e.Identity.Providers = slices.Clone(key.Identity.Models), slices.Clone(key.Identity.Providers)
	wrong := func(field, problem string) error {
		id := key.Identity.Key
		if wrongName(id) != "" {
			id = "" // it may be anything
		}
		return &KeyError{Index: index, ID: id, Field: field, Problem: problem}
	}
	sum, problem := parseHash(key.Hash)
	if problem != "" {
		return wrong("Hash", problem)
	}
	if key.Identity.Key == "" {
		return wrong("Key", "is empty; give the key a name, which isn't secret")
	}
	var field *FieldError
	if errors.As(e.Identity.Validate(), &field) {
		return wrong(field.Field, field.Problem)
	}
	if other := t.find(sum); other != nil {
		return wrong("Hash", fmt.Sprintf("is that of key %q, too; remove one", other.Identity.Key))
	}
	e.sum = sum
	slot := [8]byte(sum[:8])
	t.slots[slot] = append(t.slots[slot], e)
	return nil
}

// parseHash says what is wrong without showing it: it may be the key itself.
func parseHash(hash string) (sum [sha256.Size]byte, problem string) {
	digits, ok := strings.CutPrefix(hash, hashPrefix)
	if n, err := hex.Decode(sum[:], []byte(digits[:min(len(digits), hex.EncodedLen(len(sum)))])); !ok ||
		err != nil || n != len(sum) || len(digits) != hex.EncodedLen(len(sum)) {
		return sum, `must be "sha256:" and 64 hexadecimal digits, never the key itself; make it with: ` +
			`printf %s "$KEY" | sha256sum`
	}
	if sum == sha256.Sum256(nil) || sum == sha256.Sum256([]byte("\n")) {
		return sum, "is that of nothing; the key was empty when it was made"
	}
	return sum, ""
}

// find compares the whole of the hash in constant time.
func (t *keyTable) find(sum [sha256.Size]byte) *keyEntry {
	for _, e := range t.slots[[8]byte(sum[:8])] {
		if subtle.ConstantTimeCompare(e.sum[:], sum[:]) == 1 {
			return e
		}
	}
	return nil
}

// Resolve implements [Resolver]. It doesn't block.
func (k *Keys) Resolve(_ context.Context, p *Presented) (*Identity, error) {
	secret, mask, err := findSecret(p.Header, byKey)
	if err != nil || mask == 0 {
		return nil, err
	}
	var buf [256]byte // on the stack, for all keys there are
	e := k.table.Load().find(sha256.Sum256(append(buf[:0], secret...)))
	switch {
	case e == nil:
		return nil, &UnverifiedError{Kind: byKey, Reason: "unknown"}
	case e.Disabled:
		return nil, &UnverifiedError{Kind: byKey, Reason: "disabled", Err: e.name()}
	case !e.Expires.IsZero() && !k.now().Before(e.Expires):
		return nil, &UnverifiedError{Kind: byKey, Reason: "expired", Err: e.name()}
	}
	if id := e.presented[mask].Load(); id != nil {
		return id, nil
	}
	id := e.Identity
	id.Spent = maskedHeaders(mask)
	e.presented[mask].Store(&id)
	return &id, nil
}

// name is for the operator, who looks for the key.
func (e *keyEntry) name() error { return fmt.Errorf("key %q", e.Identity.Key) }
