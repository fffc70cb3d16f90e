package salt_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/salt"
)

func secret(first byte) []byte {
	b := make([]byte, salt.MinSecret)
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

func newSalter(t testing.TB, keys ...salt.Key) *salt.Salter {
	t.Helper()
	s, err := salt.New(keys[0], keys[1:]...)
	require.NoError(t, err)
	return s
}

// The vectors were made by another implementation, Python's hmac and base64: caches
// outlive the gateway's version, and replicas of several versions must agree.
func TestVectors(t *testing.T) {
	t.Parallel()
	long := append(bytes.Repeat([]byte{0xff}, 64), "longer than a block"...)
	for _, c := range []struct {
		secret []byte
		fields salt.Fields
		want   string
	}{
		{secret(0), salt.Fields{}, "IGW7EvEXDJd1g6Bx5l0wM3KmBta9IQ2fFYrRXdqrZSk"},
		{secret(0), salt.Fields{Org: "acme", Tenant: "search"}, "sceQ_Se_AR93YxHM7hO-dBFLHwCpqGFrBNi7dow_Rzk"},
		{secret(0), salt.Fields{Org: "acme", Tenant: "search", Client: "room 7"}, "ECaoLabzeSb8nlXmJBjbZZ-lWsRUXNI8t0Pq7C_Vmvg"},
		{secret(0), salt.Fields{Org: "m\u00fcller", Tenant: "\x00\xff", Client: strings.Repeat("a", 5000)}, "APzJSV4sFi9SWpcLNpiqwCW6jIaSrLmQMuDlH_RtG2g"},
		{long, salt.Fields{Org: "acme", Tenant: "search"}, "HZ957lLrHs5HKdYt7vQa90WMEW9UFLDCz_AnnfO7nRo"},
	} {
		s := newSalter(t, salt.Key{ID: "k", Secret: c.secret})
		for range 2 { // the second time with memory of the first
			got := s.Salt(&c.fields)
			require.Equal(t, c.want, got)
			require.Len(t, got, salt.Size)
		}
	}
}

// However names are cut into fields, no two of them come to one salt.
func TestFramed(t *testing.T) {
	t.Parallel()
	s := newSalter(t, salt.Key{ID: "k", Secret: secret(0)})
	seen := map[string]salt.Fields{}
	words := []string{"", "a", "b", "ab", "a\x00b", "\x00", "\x00\x00\x00\x00\x00\x00\x00\x01", "\x00\x00\x00\x00\x00\x00\x00\x01a", "a/b", "default"}
	for _, org := range words {
		for _, tenant := range words {
			for _, client := range words {
				f := salt.Fields{Org: org, Tenant: tenant, Client: client}
				got := s.Salt(&f)
				require.NotContains(t, seen, got, "%q and %q", seen[got], f)
				seen[got] = f
			}
		}
	}
	require.Len(t, seen, len(words)*len(words)*len(words))
}

// A tenant that sends another's salt, as its own or as the name of its own, has not the
// other's.
func TestAClientReachesNobody(t *testing.T) {
	t.Parallel()
	s := newSalter(t, salt.Key{ID: "k", Secret: secret(0)})
	victim := s.Salt(&salt.Fields{Org: "o", Tenant: "a"})
	for _, f := range []salt.Fields{
		{Org: "o", Tenant: "b", Client: victim},
		{Org: "o", Tenant: victim},
		{Org: victim},
		{Client: victim},
		{Org: "o", Client: "a"},
		{Tenant: "a"},
		{Org: "o", Tenant: "a", Client: "x"},
	} {
		require.NotEqual(t, victim, s.Salt(&f))
	}
	other := newSalter(t, salt.Key{ID: "k", Secret: secret(1)})
	require.NotEqual(t, victim, other.Salt(&salt.Fields{Org: "o", Tenant: "a"}), "whoever has not the secret")
}

func TestRotate(t *testing.T) {
	t.Parallel()
	f := &salt.Fields{Org: "o", Tenant: "a"}
	old, next := salt.Key{ID: "old", Secret: secret(0)}, salt.Key{ID: "next", Secret: secret(1)}
	s := newSalter(t, old)
	before := s.Salt(f)
	require.Equal(t, "old", s.ID())
	require.NoError(t, s.Rotate(next, old))
	require.Equal(t, "next", s.ID())
	require.NotEqual(t, before, s.Salt(f))
	for id, want := range map[string]string{"old": before, "next": s.Salt(f)} {
		got, err := s.SaltWith(id, f)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Error(t, s.Rotate(salt.Key{ID: "short", Secret: []byte("x")}))
	require.Equal(t, "next", s.ID(), "a rotation that fails changes nothing")
	require.NoError(t, s.Rotate(next))
	_, err := s.SaltWith("old", f)
	require.ErrorIs(t, err, salt.ErrUnknownKey)
}

func TestWrongKeys(t *testing.T) {
	t.Parallel()
	good := salt.Key{ID: "a", Secret: secret(0)}
	for want, keys := range map[string][]salt.Key{
		"has no ID":       {{Secret: secret(0)}},
		"has 31 bytes":    {{ID: "a", Secret: secret(0)[:31]}},
		"has 0 bytes":     {good, {ID: "b"}},
		`have the ID "a"`: {good, {ID: "a", Secret: secret(1)}},
		"the same secret": {good, {ID: "b", Secret: secret(1)}, {ID: "c", Secret: secret(0)}},
	} {
		_, err := salt.New(keys[0], keys[1:]...)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), string(secret(0)))
	}
}

// A secret is in no record of the configuration, and does not change with the caller's
// memory.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	const canary = "canary-canary-canary-canary-canary"
	k := salt.Key{ID: "k", Secret: []byte(canary)}
	s := newSalter(t, k)
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", k, "keys", []salt.Key{k}, "salter", s)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", k, "keys", []salt.Key{k}, "salter", s)
	fmt.Fprintf(&out, "%v %+v %#v %s %v %+v %#v", k, k, k, k, s, s, s)
	text, err := json.Marshal([]any{k, s})
	require.NoError(t, err)
	out.Write(text)
	for _, form := range []string{canary, "Y2FuYXJ5", "63616e617279", "99 97 110"} {
		require.NotContains(t, out.String(), form)
	}
	f := &salt.Fields{Tenant: "a"}
	before := s.Salt(f)
	clear(k.Secret)
	fresh := make(chan string)
	go func() { fresh <- s.Salt(f) }()
	require.Equal(t, before, <-fresh)
}

func TestConcurrently(t *testing.T) {
	t.Parallel()
	a, b := salt.Key{ID: "a", Secret: secret(0)}, salt.Key{ID: "b", Secret: secret(1)}
	s := newSalter(t, a)
	want := map[string]bool{}
	for _, k := range []salt.Key{a, b} {
		want[newSalter(t, k).Salt(&salt.Fields{Tenant: "t"})] = true
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				if got := s.Salt(&salt.Fields{Tenant: "t"}); !want[got] {
					t.Errorf("a salt of neither key: %q", got)
				}
			}
		})
	}
	for range 100 {
		require.NoError(t, s.Rotate(b, a))
		require.NoError(t, s.Rotate(a, b))
	}
	wg.Wait()
}

// One allocation: the result.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools drop what they hold")
	}
	s := newSalter(t, salt.Key{ID: "k", Secret: secret(0)})
	f := &salt.Fields{Org: "o", Tenant: "a"}
	require.LessOrEqual(t, testing.AllocsPerRun(1000, func() { _ = s.Salt(f) }), 1.0)
}

func BenchmarkSalt(b *testing.B) {
	s := newSalter(b, salt.Key{ID: "k", Secret: secret(0)})
	f := &salt.Fields{Org: "organisation", Tenant: "tenant"}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Salt(f)
	}
}

func ExampleSalter() {
	s, err := salt.New(salt.Key{ID: "2026-11", Secret: []byte("32 random bytes from a key store")})
	if err != nil {
		fmt.Println(err)
		return
	}
	a := s.Salt(&salt.Fields{Org: "acme", Tenant: "search"})
	b := s.Salt(&salt.Fields{Org: "acme", Tenant: "support"})
	fmt.Println(len(a), a == b)
	// Output: 43 false
}
