package oidc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/oidc"
)

func (r *rig) by(kid string, key any) *tenancy.Presented {
	return bearer(token(key, header("RS256", kid), r.claims(nil)))
}

// unknown expects that nobody could find out.
func (r *rig) unknown(t *testing.T, p *tenancy.Presented) error {
	t.Helper()
	id, err := r.resolver.Resolve(t.Context(), p)
	require.Nil(t, id)
	require.ErrorIs(t, err, oidc.ErrKeys)
	var u *tenancy.UnverifiedError
	require.NotErrorAs(t, err, &u, "the token may be good")
	return err
}

func TestRotation(t *testing.T) {
	r := newRig(t, nil, jwk("one", rsaKey))
	r.accepts(t, r.by("one", rsaKey))

	// A new key is fetched when the first token has it, and an old one is gone then.
	r.set(func() { r.keys = []any{jwk("two", rsaOther)} })
	r.clock.advance(10 * time.Second)
	r.accepts(t, r.by("two", rsaOther))
	require.Equal(t, "no key of the issuer is like that", r.refuses(t, r.by("one", rsaKey)))
	require.EqualValues(t, 2, r.fetches.Load())
	require.Equal(t, []oidc.Status{{Issuer: r.URL, Keys: 1, Fetched: r.clock.now()}}, r.resolver.Status())
}

// A key without a kid, replaced by another.
func TestRotationWithoutKid(t *testing.T) {
	r := newRig(t, nil, jwk("", rsaKey), jwk("", ecKey))
	old := bearer(token(rsaKey, header("RS256", "", map[string]any{"kid": nil}), r.claims(nil)))
	r.accepts(t, old)
	r.set(func() { r.keys = []any{jwk("", rsaOther)} })
	next := bearer(token(rsaOther, header("RS256", "", map[string]any{"kid": nil}), r.claims(nil)))
	require.Equal(t, "the signature is wrong", r.refuses(t, next), "fetched a moment ago")
	r.clock.advance(10 * time.Second)
	r.accepts(t, next)
	require.Equal(t, "the signature is wrong", r.refuses(t, old))
	require.EqualValues(t, 2, r.fetches.Load())
}

// Whoever forges kids makes the issuer answer once each MinInterval.
func TestForgedKidsDontReachTheIssuer(t *testing.T) {
	r := newRig(t, nil, jwk("one", rsaKey))
	good := r.by("one", rsaKey)
	r.accepts(t, good)
	for second := range 30 {
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() {
				id, err := r.resolver.Resolve(t.Context(), r.by(fmt.Sprint("forged", second, n), rsaOther))
				var u *tenancy.UnverifiedError
				if id != nil || !errors.As(err, &u) {
					t.Error(id, err)
				}
			})
		}
		wg.Wait()
		r.accepts(t, good)
		r.clock.advance(time.Second)
	}
	require.EqualValues(t, 3, r.fetches.Load(), "at 0 s, 10 s and 20 s")
}

// Even without an interval to speak of, a token waits for two fetches at most.
func TestTinyInterval(t *testing.T) {
	r := newRig(t, func(o *oidc.Options) { o.MinInterval, o.Now = 1, time.Now }, jwk("one", rsaKey))
	forged := bearer(token(rsaOther, header("RS256", "", map[string]any{"kid": nil}), r.claims(nil)))
	require.Equal(t, "the signature is wrong", r.refuses(t, forged))
	require.Equal(t, "no key of the issuer is like that", r.refuses(t, r.by("forged", rsaOther)))
	require.LessOrEqual(t, r.fetches.Load(), int64(8))
}

// Keys are fetched again before they are old, while those that are there serve.
func TestRefresh(t *testing.T) {
	r := newRig(t, nil, jwk("one", rsaKey))
	r.accepts(t, r.by("one", rsaKey))
	wait := make(chan struct{})
	r.set(func() { r.wait, r.keys = wait, []any{jwk("two", rsaOther)} })
	r.clock.advance(15*time.Minute - 1)
	r.accepts(t, r.by("one", rsaKey))
	require.EqualValues(t, 1, r.fetches.Load())
	r.clock.advance(1)
	r.accepts(t, r.by("one", rsaKey)) // though the issuer doesn't answer
	require.Eventually(t, func() bool { return r.fetches.Load() == 2 }, 30*time.Second, time.Millisecond)
	r.accepts(t, r.by("one", rsaKey))
	close(wait)
	require.Eventually(t, func() bool { return r.resolver.Status()[0].Fetched.Equal(r.clock.now()) }, 30*time.Second, time.Millisecond)
	require.Equal(t, "no key of the issuer is like that", r.refuses(t, r.by("one", rsaKey)), "taken back")
	r.accepts(t, r.by("two", rsaOther))
}

// An issuer that is down takes nobody down until MaxAge.
func TestIssuerDown(t *testing.T) {
	var mu sync.Mutex
	var told []error // by one after the other
	r := newRig(t, func(o *oidc.Options) {
		o.OnError = func(_ string, err error) { mu.Lock(); defer mu.Unlock(); told = append(told, err) }
	}, jwk("one", rsaKey))
	good := func() *tenancy.Presented { return r.by("one", rsaKey) }
	r.set(func() { r.fail = http.StatusInternalServerError })
	require.ErrorContains(t, r.unknown(t, good()), "answers 500")
	_ = r.unknown(t, good())
	require.ErrorIs(t, r.resolver.Ready(t.Context()), oidc.ErrKeys)
	r.set(func() { r.fail = 0 })
	_ = r.unknown(t, good()) // too soon for another try
	r.clock.advance(10 * time.Second)
	require.NoError(t, r.resolver.Ready(t.Context()))
	r.accepts(t, good())

	r.set(func() { r.fail = http.StatusServiceUnavailable })
	settle := func() {
		t.Helper()
		require.Eventually(t, func() bool { return r.resolver.Status()[0].Err != nil }, 30*time.Second, time.Millisecond)
	}
	r.clock.advance(time.Hour)
	r.accepts(t, good())
	settle()
	r.clock.advance(23*time.Hour - 1)
	r.accepts(t, good())
	require.ErrorContains(t, r.unknown(t, r.by("two", rsaOther)), "answers 503", "a key that may be new")
	r.clock.advance(1)
	_ = r.unknown(t, good())
	require.Equal(t, 1, r.resolver.Status()[0].Keys)
	r.set(func() { r.fail = 0 })
	r.clock.advance(10 * time.Second)
	r.accepts(t, good())
	require.NoError(t, r.resolver.Status()[0].Err)
	require.NoError(t, r.resolver.Close()) // all is told
	require.GreaterOrEqual(t, len(told), 3)
}

// A clock that is set back doesn't keep keys forever.
func TestClockSetBack(t *testing.T) {
	r := newRig(t, nil, jwk("one", rsaKey))
	r.accepts(t, r.by("one", rsaKey))
	r.clock.advance(-24 * time.Hour)
	r.accepts(t, r.by("one", rsaKey))
	require.Eventually(t, func() bool { return r.resolver.Status()[0].Fetched.Equal(r.clock.now()) }, 30*time.Second, time.Millisecond)
}

// The context of a request ends its wait, not the fetch that others wait for.
func TestContext(t *testing.T) {
	r := newRig(t, nil, jwk("one", rsaKey))
	wait := make(chan struct{})
	r.set(func() { r.wait = wait })
	gone, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the client left")
	cancel(left)
	_, err := r.resolver.Resolve(gone, r.by("one", rsaKey))
	require.ErrorIs(t, err, left)
	require.ErrorIs(t, err, oidc.ErrKeys)
	require.ErrorIs(t, r.resolver.Ready(gone), left)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { r.accepts(t, r.by("one", rsaKey)) })
	}
	close(wait)
	wg.Wait()
	require.EqualValues(t, 1, r.fetches.Load(), "one for all")
}

func TestTimeout(t *testing.T) {
	r := newRig(t, func(o *oidc.Options) { o.Timeout = time.Millisecond }, jwk("one", rsaKey))
	wait := make(chan struct{})
	defer close(wait)
	r.set(func() { r.wait = wait })
	require.ErrorIs(t, r.unknown(t, r.by("one", rsaKey)), context.DeadlineExceeded)
}

// Close ends a fetch, and everything after it.
func TestClose(t *testing.T) {
	r := newRig(t, func(o *oidc.Options) { o.OnError = func(string, error) { t.Error("an error, because of Close") } }, jwk("one", rsaKey))
	wait := make(chan struct{})
	defer close(wait)
	r.set(func() { r.wait = wait })
	ended := make(chan error)
	go func() {
		_, err := r.resolver.Resolve(t.Context(), r.by("one", rsaKey))
		ended <- err
	}()
	require.Eventually(t, func() bool { return r.fetches.Load() == 1 }, 30*time.Second, time.Millisecond)
	require.NoError(t, r.resolver.Close())
	require.Error(t, <-ended)
	require.NoError(t, r.resolver.Close())
	_, err := r.resolver.Resolve(t.Context(), r.by("one", rsaKey))
	require.ErrorIs(t, err, oidc.ErrClosed)
	require.Error(t, r.resolver.Ready(t.Context()))
	require.EqualValues(t, 1, r.fetches.Load())
}

// lingering is a connection that ends some time after its context.
type lingering struct{ began, ended chan struct{} }

func (l *lingering) RoundTrip(r *http.Request) (*http.Response, error) {
	close(l.began)
	<-r.Context().Done()
	for range 10_000 {
		runtime.Gosched()
	}
	close(l.ended)
	return nil, r.Context().Err()
}

// When Close returns, nothing of the user's code runs any more.
func TestCloseWaits(t *testing.T) {
	l := &lingering{make(chan struct{}), make(chan struct{})}
	r := newRig(t, func(o *oidc.Options) { o.Client = &http.Client{Transport: l} })
	ended := make(chan error)
	go func() { ended <- r.resolver.Ready(t.Context()) }()
	<-l.began
	require.NoError(t, r.resolver.Close())
	select {
	case <-l.ended:
	default:
		t.Error("a fetch still runs")
	}
	require.ErrorIs(t, <-ended, oidc.ErrKeys)
}

// Which of the keys that an issuer publishes count.
func TestPublishedKeys(t *testing.T) {
	secret := map[string]any{"kty": "oct", "kid": "one", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA", "alg": "HS256"}
	for name, c := range map[string]struct {
		keys []any
		ok   bool
	}{
		"plain":             {[]any{jwk("one", rsaKey)}, true},
		"with its alg":      {[]any{jwk("one", rsaKey, func(k *jose.JSONWebKey) { k.Algorithm = "RS256" })}, true},
		"without use":       {[]any{jwk("one", rsaKey, func(k *jose.JSONWebKey) { k.Use = "" })}, true},
		"beside odd ones":   {[]any{map[string]any{"kty": "new", "kid": "one"}, 7, "x", map[string]any{}, secret, jwk("one", rsaKey)}, true},
		"the second of two": {[]any{jwk("one", rsaOther), jwk("one", rsaKey)}, true},
		"for another alg":   {[]any{jwk("one", rsaKey, func(k *jose.JSONWebKey) { k.Algorithm = "RS512" }), jwk("two", ecKey)}, false},
		"for encryption":    {[]any{jwk("one", rsaKey, func(k *jose.JSONWebKey) { k.Use = "enc" }), jwk("two", ecKey)}, false},
		"another kind":      {[]any{jwk("one", ecKey)}, false},
		"another kid":       {[]any{jwk("One", rsaKey)}, false},
		"no kid":            {[]any{jwk("", rsaKey)}, false},
		"private by error":  {[]any{jose.JSONWebKey{Key: rsaKey, KeyID: "one"}, jwk("two", ecKey)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil, c.keys...)
			if c.ok {
				r.accepts(t, r.by("one", rsaKey))
				return
			}
			r.refuses(t, r.by("one", rsaKey))
		})
	}
	t.Run("short", func(t *testing.T) {
		r := newRig(t, nil, jwk("one", rsaShort), jwk("two", ecKey))
		require.Equal(t, "no key of the issuer is like that", r.refuses(t, r.by("one", rsaShort)))
	})
	t.Run("a secret alone", func(t *testing.T) {
		r := newRig(t, nil, secret)
		require.ErrorContains(t, r.unknown(t, r.by("one", []byte("secret-secret-secret-secret-secret"))), "none of its 1 keys can be used")
	})
	t.Run("bad keys don't replace good ones", func(t *testing.T) {
		r := newRig(t, nil, jwk("one", rsaKey))
		r.accepts(t, r.by("one", rsaKey))
		r.set(func() { r.keys = nil })
		r.clock.advance(time.Hour)
		r.accepts(t, r.by("one", rsaKey))
		require.Eventually(t, func() bool { return r.resolver.Status()[0].Err != nil }, 30*time.Second, time.Millisecond)
		r.accepts(t, r.by("one", rsaKey))
	})
}

func about(w http.ResponseWriter, issuer, keys string) {
	_ = json.NewEncoder(w).Encode(map[string]string{"issuer": issuer, "jwks_uri": keys})
}

// What issuers answer that is no answer.
func TestBadIssuers(t *testing.T) {
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"another name": {func(w http.ResponseWriter, _ *http.Request) {
			about(w, "https://evil.example", "https://evil.example/keys")
		}, "correct Issuer.URL"},
		"no JSON":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "not the JSON that is expected"},
		"not found": {http.NotFound, "answers 404"},
		"too much": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 2<<20))
		}, "answers more than 1048576 bytes"},
		"plain http elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			about(w, "http://"+r.Host, "http://keys.example/keys")
		}, "its jwks_uri is plain http"},
		"a file": {func(w http.ResponseWriter, r *http.Request) {
			about(w, "http://"+r.Host, "file:///etc/passwd")
		}, "its jwks_uri is not the address of a server"},
		"redirect to plain http": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://keys.example/", http.StatusFound)
		}, "redirects to what is plain http"},
		"redirects without end": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusFound)
		}, "redirects too often"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			r := newRig(t, func(o *oidc.Options) { o.Issuers[0].URL = server.URL }, jwk("one", rsaKey))
			require.ErrorContains(t, r.resolver.Ready(t.Context()), c.want)
		})
	}
}

// Keys may be elsewhere, without discovery, and behind an authority of one's own.
func TestKeysURL(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{jwk("one", rsaKey)}})
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that fails
	server.StartTLS()
	defer server.Close()
	r := newRig(t, func(o *oidc.Options) {
		o.Issuers[0].URL, o.Issuers[0].KeysURL, o.Client = "kubernetes/serviceaccount", server.URL, server.Client()
	})
	r.accepts(t, bearer(token(rsaKey, header("RS256", "one"), r.claims(map[string]any{"iss": "kubernetes/serviceaccount"}))))
	strange := newRig(t, func(o *oidc.Options) { o.Issuers[0].KeysURL = server.URL })
	require.ErrorContains(t, strange.resolver.Ready(t.Context()), "certificate")
}
