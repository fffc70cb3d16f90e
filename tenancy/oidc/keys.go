package oidc

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// errUnknownKey: the issuer has no such key.
var errUnknownKey = errors.New("unknown key")

// keySet is an issuer's keys. Fetches run in goroutines of the Resolver, never more than
// one at a time, so that no request's deadline ends what others wait for.
type keySet struct {
	resolver *Resolver
	issuer   *Issuer

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	fetched  time.Time     // of keys
	tried    time.Time     // the last fetch began or ended
	err      error         // of the last fetch
	fetching chan struct{} // closed when the fetch that runs has ended; else nil
}

// find returns the keys that a token may be signed by, and when they were fetched; none
// that were fetched at or before after. It fetches what is not there, if it may.
func (s *keySet) find(ctx context.Context, kid string, algorithm jose.SignatureAlgorithm, after time.Time) (
	keys []jose.JSONWebKey, fetched time.Time, err error,
) {
	// Of two fetches the first may have begun before the key was there.
	const most = 2
	for waited := 0; ; waited++ {
		keys, fetched, wait, err := s.look(kid, algorithm, after, waited < most)
		if wait == nil {
			return keys, fetched, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, time.Time{}, fmt.Errorf("%w: %s: %w", ErrKeys, s.issuer.URL, context.Cause(ctx))
		}
	}
}

// look is one look at what there is; wait is closed when another one is worth it. may
// says whether a fetch may be waited for.
func (s *keySet) look(kid string, algorithm jose.SignatureAlgorithm, after time.Time, may bool) (
	keys []jose.JSONWebKey, fetched time.Time, wait <-chan struct{}, err error,
) {
	opts := &s.resolver.opts
	s.mu.Lock()
	defer s.mu.Unlock()
	now := opts.Now()
	age := now.Sub(s.fetched)
	current := !s.fetched.IsZero() && age < opts.MaxAge
	if current && s.fetched.After(after) {
		for i := range s.keys {
			if k := &s.keys[i]; (kid == "" || k.KeyID == kid) && fits(k, algorithm) {
				keys = append(keys, *k)
			}
		}
	}
	if len(keys) > 0 {
		if age >= opts.Refresh || age < 0 { // the clock was set back
			s.start(now) // nobody waits for it
		}
		return keys, s.fetched, nil, nil
	}
	switch {
	case may && s.start(now):
		return nil, time.Time{}, s.fetching, nil
	case s.err != nil:
		return nil, time.Time{}, nil, fmt.Errorf("%w: %s: %w", ErrKeys, s.issuer.URL, s.err)
	case !current:
		return nil, time.Time{}, nil, fmt.Errorf("%w: %s: those there are have reached Options.MaxAge", ErrKeys, s.issuer.URL)
	default:
		return nil, time.Time{}, nil, errUnknownKey
	}
}

// start lets a fetch run unless one ended or began less than MinInterval ago; it reports
// whether one runs. s.mu is held.
func (s *keySet) start(now time.Time) bool {
	r := s.resolver
	if s.fetching != nil {
		return true
	}
	if since := now.Sub(s.tried); !s.tried.IsZero() && since >= 0 && since < r.opts.MinInterval {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		s.err = ErrClosed
		return false
	}
	s.tried = now
	s.fetching = make(chan struct{})
	r.fetches.Go(s.fetch)
	return true
}

// fetch runs once.
func (s *keySet) fetch() {
	r := s.resolver
	ctx, cancel := context.WithTimeout(r.ctx, r.opts.Timeout)
	defer cancel()
	keys, err := r.fetchKeys(ctx, s.issuer)

	s.mu.Lock()
	s.err, s.tried = err, r.opts.Now()
	if err == nil {
		s.keys, s.fetched = keys, s.tried
	}
	close(s.fetching)
	s.fetching = nil
	s.mu.Unlock()

	if err != nil && r.ctx.Err() == nil { // not because of Close
		r.opts.Logger.Error("keys of an issuer could not be fetched", "issuer", s.issuer.URL, "error", err)
		if r.opts.OnError != nil {
			r.opts.OnError(s.issuer.URL, err)
		}
	}
}

// ready waits for keys, whichever they are.
func (s *keySet) ready(ctx context.Context) error {
	for waited := false; ; waited = true {
		s.mu.Lock()
		now := s.resolver.opts.Now()
		there := !s.fetched.IsZero() && now.Sub(s.fetched) < s.resolver.opts.MaxAge
		running := !there && !waited && s.start(now)
		wait, err := s.fetching, s.err
		s.mu.Unlock()
		switch {
		case there:
			return nil
		case !running:
			return fmt.Errorf("%w: %s: %w", ErrKeys, s.issuer.URL, err)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %w", ErrKeys, s.issuer.URL, context.Cause(ctx))
		}
	}
}

func (s *keySet) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{Issuer: s.issuer.URL, Keys: len(s.keys), Fetched: s.fetched, Err: s.err}
}

// minRSA is the least length of RSA keys, in bits, that is taken (RFC 7518, 3.3).
const minRSA = 2048

// usable reports whether a published key can verify signatures. Secrets, which some
// publish by mistake, are none: who can read them can sign.
func usable(k *jose.JSONWebKey) bool {
	if !k.Valid() || k.Use != "" && k.Use != "sig" {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minRSA
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	default:
		return false
	}
}

// fits reports whether a key is for an algorithm. Each algorithm has one kind of keys:
// without that, a public key could be taken for the secret of another algorithm.
func fits(k *jose.JSONWebKey, algorithm jose.SignatureAlgorithm) bool {
	if k.Algorithm != "" && k.Algorithm != string(algorithm) {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		switch algorithm {
		case jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512:
			return true
		default:
			return false
		}
	case *ecdsa.PublicKey:
		bits := map[jose.SignatureAlgorithm]int{jose.ES256: 256, jose.ES384: 384, jose.ES512: 521}
		return bits[algorithm] == key.Curve.Params().BitSize
	case ed25519.PublicKey:
		return algorithm == jose.EdDSA
	default:
		return false
	}
}
