package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/oidc"
)

func TestMain(m *testing.M) { leak.Main(m) }

// keys are made once: RSA takes its time.
var (
	rsaKey, rsaOther = newRSA(2048), newRSA(2048)
	rsaShort         = newRSA(1024)
	ecKey            = newEC(elliptic.P256())
	ec384Key         = newEC(elliptic.P384())
	edKey            = newEd()
)

func newRSA(bits int) *rsa.PrivateKey          { return must(rsa.GenerateKey(rand.Reader, bits)) }
func newEC(c elliptic.Curve) *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(c, rand.Reader)) }
func newEd() ed25519.PrivateKey {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	return must(k, err)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// issuer is a real HTTP server of discovery and keys.
type issuer struct {
	*httptest.Server

	mu      sync.Mutex
	keys    []any // JSON of a key each
	claimed string
	fail    int // status
	wait    chan struct{}
	fetches atomic.Int64 // of keys
}

func startIssuer(t testing.TB, keys ...any) *issuer {
	t.Helper()
	i := &issuer{keys: keys}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answer(w, map[string]any{"issuer": i.claimed, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, r *http.Request) {
		i.fetches.Add(1)
		i.mu.Lock()
		wait := i.wait
		i.mu.Unlock()
		if wait != nil {
			select {
			case <-wait:
			case <-r.Context().Done():
			}
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.answer(w, map[string]any{"keys": i.keys})
	})
	i.Server = httptest.NewServer(mux)
	i.claimed = i.URL
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) answer(w http.ResponseWriter, v any) {
	if i.fail != 0 {
		w.WriteHeader(i.fail)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// jwk publishes the public half of a key.
func jwk(kid string, key crypto.Signer, change ...func(*jose.JSONWebKey)) any {
	k := jose.JSONWebKey{Key: key.Public(), KeyID: kid, Use: "sig"}
	for _, f := range change {
		f(&k)
	}
	return k
}

// token signs by hand, so that what is wrong is up to the test.
func token(key any, header, claims map[string]any) string {
	encode := func(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))) }
	text := encode(header) + "." + encode(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature(key, header["alg"], text))
}

func signature(key any, alg any, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if alg == "PS256" {
			return must(rsa.SignPSS(rand.Reader, k, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}))
		}
		return must(rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:]))
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		out := make([]byte, 2*((k.Params().BitSize+7)/8))
		must(0, err)
		r.FillBytes(out[:len(out)/2])
		s.FillBytes(out[len(out)/2:])
		return out
	case ed25519.PrivateKey:
		return ed25519.Sign(k, []byte(text))
	case []byte: // a secret
		m := hmac.New(sha256.New, k)
		m.Write([]byte(text))
		return m.Sum(nil)
	default:
		return nil
	}
}

// clock is one that stands.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()) }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

// rig is a Resolver for one issuer, and tokens for it.
type rig struct {
	*issuer

	clock    *clock
	resolver *oidc.Resolver
}

func newRig(t testing.TB, change func(*oidc.Options), keys ...any) *rig {
	t.Helper()
	r := &rig{issuer: startIssuer(t, keys...), clock: newClock()}
	opts := oidc.Options{
		Now: r.clock.now, Timeout: 30 * time.Second, // however busy the machine is
		Issuers: []oidc.Issuer{{
			URL: r.URL, Audiences: []string{"kvsteer", "other"}, Algorithms: []string{"RS256", "PS256", "ES256", "EdDSA"},
			Claims: oidc.Claims{Tenant: "tenant", Key: "sub"},
		}},
	}
	if change != nil {
		change(&opts)
	}
	var err error
	r.resolver, err = oidc.New(opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.resolver.Close()) })
	return r
}

// claims are good ones, changed. A nil value removes one.
func (r *rig) claims(change map[string]any) map[string]any {
	now := r.clock.now().Unix()
	c := map[string]any{
		"iss": r.URL, "aud": "kvsteer", "sub": "user-7", "tenant": "acme", "iat": now, "nbf": now, "exp": now + 300,
	}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func header(alg, kid string, change ...map[string]any) map[string]any {
	h := map[string]any{"alg": alg, "kid": kid, "typ": "JWT"}
	for _, c := range change {
		maps.Copy(h, c)
	}
	maps.DeleteFunc(h, func(_ string, v any) bool { return v == nil })
	return h
}

func bearer(token string) *tenancy.Presented {
	return &tenancy.Presented{Header: http.Header{"Authorization": {"Bearer " + token}}}
}
