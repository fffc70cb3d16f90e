package tenancy_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy"
)

const (
	secretA   = "kv-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	secretB   = "kv-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	shellHash = "b14470da49aff08809b4f126f72120b75ef45f0b09e9bb3f60a87654f9ce7c34"
)

func hash(t testing.TB, secret string) string {
	t.Helper()
	h, err := tenancy.HashKey(secret)
	require.NoError(t, err)
	return h
}

func header(lines ...string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		h.Add(name, strings.TrimPrefix(value, " "))
	}
	return h
}

// unverified resolves and expects that the request lies; it returns why.
func unverified(t *testing.T, r tenancy.Resolver, p *tenancy.Presented) string {
	t.Helper()
	id, err := r.Resolve(t.Context(), p)
	require.Nil(t, id)
	var u *tenancy.UnverifiedError
	require.ErrorAs(t, err, &u)
	for _, secret := range []string{secretA, secretB, "kv-"} {
		require.NotContains(t, err.Error(), secret)
		require.NotContains(t, fmt.Sprintf("%+v", err), secret)
	}
	return u.Reason
}

func unknown(t *testing.T, r tenancy.Resolver, p *tenancy.Presented) {
	t.Helper()
	id, err := r.Resolve(t.Context(), p)
	require.NoError(t, err)
	require.Nil(t, id)
}

func known(t *testing.T, r tenancy.Resolver, p *tenancy.Presented) *tenancy.Identity {
	t.Helper()
	id, err := r.Resolve(t.Context(), p)
	require.NoError(t, err)
	require.NotNil(t, id)
	require.NoError(t, id.Validate())
	return id
}

func newKeys(t testing.TB, opts tenancy.KeysOptions) *tenancy.Keys {
	t.Helper()
	keys, err := tenancy.NewKeys(opts,
		tenancy.Key{Hash: hash(t, secretA), Identity: tenancy.Identity{Key: "a", Tenant: "acme", Models: []string{}}},
		tenancy.Key{Hash: hash(t, secretB), Identity: tenancy.Identity{Key: "b", Tenant: "best"}},
	)
	require.NoError(t, err)
	return keys
}

// Which headers are one credential, which are none, and which lie.
func TestKeysHeaders(t *testing.T) {
	keys := newKeys(t, tenancy.KeysOptions{})
	for name, c := range map[string]struct {
		header []string
		key    string // "" for nothing, or
		reason string
		spent  []string
	}{
		"none":                    {header: []string{"Accept: x"}},
		"bearer":                  {header: []string{"Authorization: Bearer " + secretA}, key: "a", spent: []string{"Authorization"}},
		"any case":                {header: []string{"authorization: bEARER " + secretA}, key: "a", spent: []string{"Authorization"}},
		"more blanks":             {header: []string{"Authorization:  Bearer   " + secretA + " \t"}, key: "a", spent: []string{"Authorization"}},
		"anthropic":               {header: []string{"x-api-key: " + secretB}, key: "b", spent: []string{"X-Api-Key"}},
		"azure":                   {header: []string{"api-key: " + secretB}, key: "b", spent: []string{"Api-Key"}},
		"the same twice":          {header: []string{"x-api-key: " + secretB, "Authorization: Bearer " + secretB}, key: "b", spent: []string{"Authorization", "X-Api-Key"}},
		"another scheme":          {header: []string{"Authorization: Basic " + secretA}},
		"scheme and key":          {header: []string{"Authorization: Basic eA==", "api-key: " + secretA}, key: "a", spent: []string{"Api-Key"}},
		"a longer scheme":         {header: []string{"Authorization: Bearerx " + secretA}},
		"no scheme":               {header: []string{"Authorization: " + secretA}},
		"wrong":                   {header: []string{"Authorization: Bearer " + secretA + "x"}, reason: "unknown"},
		"wrong case":              {header: []string{"Authorization: Bearer " + strings.ToUpper(secretA)}, reason: "unknown"},
		"prefix":                  {header: []string{"Authorization: Bearer " + secretA[:len(secretA)-1]}, reason: "unknown"},
		"the hash":                {header: []string{"Authorization: Bearer " + hash(t, secretA)}, reason: "unknown"},
		"twice":                   {header: []string{"Authorization: Bearer " + secretA, "Authorization: Bearer " + secretA}, reason: "Authorization is given more than once"},
		"twice, other scheme":     {header: []string{"Authorization: Basic eA==", "Authorization: Bearer " + secretA}, reason: "Authorization is given more than once"},
		"twice x-api-key":         {header: []string{"x-api-key: " + secretA, "X-API-KEY: " + secretB}, reason: "X-Api-Key is given more than once"},
		"joined by a proxy":       {header: []string{"Authorization: Bearer " + secretA + ", Bearer " + secretB}, reason: "Authorization is malformed"},
		"joined closely":          {header: []string{"x-api-key: " + secretA + "," + secretB}, reason: "X-Api-Key is malformed"},
		"two that differ":         {header: []string{"Authorization: Bearer " + secretA, "x-api-key: " + secretB}, reason: "two headers hold different credentials"},
		"two, one wrong":          {header: []string{"x-api-key: " + secretA, "api-key: nonsense"}, reason: "two headers hold different credentials"},
		"nothing after Bearer":    {header: []string{"Authorization: Bearer"}, reason: "Authorization holds no secret"},
		"blanks after Bearer":     {header: []string{"Authorization: Bearer   "}, reason: "Authorization holds no secret"},
		"empty x-api-key":         {header: []string{"x-api-key:"}, reason: "X-Api-Key holds no secret"},
		"tab after Bearer":        {header: []string{"Authorization: Bearer\t" + secretA}, reason: "Authorization is malformed"},
		"blank within":            {header: []string{"Authorization: Bearer " + secretA + " x"}, reason: "Authorization is malformed"},
		"NUL":                     {header: []string{"x-api-key: " + secretA + "\x00"}, reason: "X-Api-Key is malformed"},
		"line end":                {header: []string{"x-api-key: " + secretA + "\r\nX-Tenant: b"}, reason: "X-Api-Key is malformed"},
		"letters that look alike": {header: []string{"x-api-key: kv-\u0430aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}, reason: "X-Api-Key is malformed"},
		"huge":                    {header: []string{"x-api-key: " + strings.Repeat("x", 1<<20)}, reason: "X-Api-Key is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &tenancy.Presented{Header: header(c.header...)}
			before := p.Header.Clone()
			switch {
			case c.reason != "":
				require.Equal(t, c.reason, unverified(t, keys, p))
			case c.key == "":
				unknown(t, keys, p)
			default:
				id := known(t, keys, p)
				require.Equal(t, c.key, id.Key)
				require.Equal(t, "api key", id.By)
				require.True(t, id.Verified())
				require.Equal(t, c.spent, id.Spent)
				require.Same(t, id, known(t, keys, p), "made once")
			}
			require.Equal(t, before, p.Header)
		})
	}
	unknown(t, keys, &tenancy.Presented{})
}

func TestKeysEnd(t *testing.T) {
	now := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	keys, err := tenancy.NewKeys(tenancy.KeysOptions{Now: func() time.Time { return now }},
		tenancy.Key{Hash: hash(t, secretA), Identity: tenancy.Identity{Key: "a"}, Expires: now.Add(time.Second)},
		tenancy.Key{Hash: hash(t, secretB), Identity: tenancy.Identity{Key: "b"}, Disabled: true},
	)
	require.NoError(t, err)
	a, b := &tenancy.Presented{Header: header("api-key: " + secretA)}, &tenancy.Presented{Header: header("api-key: " + secretB)}
	known(t, keys, a)
	require.Equal(t, "disabled", unverified(t, keys, b))
	now = now.Add(time.Second)
	require.Equal(t, "expired", unverified(t, keys, a))
	_, err = keys.Resolve(t.Context(), a)
	require.EqualError(t, err, `tenancy: api key: expired: key "a"`)
}

func TestReplace(t *testing.T) {
	keys := newKeys(t, tenancy.KeysOptions{})
	groups := []string{"g"}
	p := &tenancy.Presented{Header: header("api-key: " + secretA)}
	require.Error(t, keys.Replace([]tenancy.Key{{}}))
	require.Equal(t, 2, keys.Len())
	require.Equal(t, "acme", known(t, keys, p).Tenant, "what is wrong changes nothing")
	require.NoError(t, keys.Replace([]tenancy.Key{{Hash: hash(t, secretA), Identity: tenancy.Identity{
		Key: "c", Groups: groups, By: "forged", Spent: []string{"Cookie"},
	}}}))
	groups[0] = "changed by its owner"
	require.Equal(t, &tenancy.Identity{Key: "c", Groups: []string{"g"}, By: "api key", Spent: []string{"Api-Key"}}, known(t, keys, p))
	require.NoError(t, keys.Replace(nil))
	require.Equal(t, "unknown", unverified(t, keys, p))
}

// An empty list of models stays one: it allows none, where nil allows all.
func TestKeysKeepEmptyLists(t *testing.T) {
	keys := newKeys(t, tenancy.KeysOptions{})
	require.False(t, known(t, keys, &tenancy.Presented{Header: header("api-key: " + secretA)}).MayUseModel("m"))
	require.True(t, known(t, keys, &tenancy.Presented{Header: header("api-key: " + secretB)}).MayUseModel("m"))
}

func TestKeysRefuse(t *testing.T) {
	good := hash(t, secretA)
	// As printf %s "" | sha256sum prints it.
	const nothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for name, c := range map[string]struct {
		key  tenancy.Key
		want string
	}{
		"no hash":     {tenancy.Key{Identity: tenancy.Identity{Key: "a"}}, "never the key itself"},
		"the key":     {tenancy.Key{Hash: secretA, Identity: tenancy.Identity{Key: "a"}}, "never the key itself"},
		"no prefix":   {tenancy.Key{Hash: good[7:], Identity: tenancy.Identity{Key: "a"}}, "64 hexadecimal digits"},
		"short":       {tenancy.Key{Hash: good[:70], Identity: tenancy.Identity{Key: "a"}}, "64 hexadecimal digits"},
		"long":        {tenancy.Key{Hash: good + "00", Identity: tenancy.Identity{Key: "a"}}, "64 hexadecimal digits"},
		"not hex":     {tenancy.Key{Hash: good[:70] + "g", Identity: tenancy.Identity{Key: "a"}}, "64 hexadecimal digits"},
		"of nothing":  {tenancy.Key{Hash: nothing, Identity: tenancy.Identity{Key: "a"}}, "is that of nothing"},
		"no name":     {tenancy.Key{Hash: good}, "Key is empty"},
		"long tenant": {tenancy.Key{Hash: good, Identity: tenancy.Identity{Key: "a", Tenant: strings.Repeat("x", 257)}}, "Tenant is longer than 256 bytes"},
		"models":      {tenancy.Key{Hash: good, Identity: tenancy.Identity{Key: "a", Models: []string{"a*b"}}}, "Models has an asterisk within"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tenancy.NewKeys(tenancy.KeysOptions{}, c.key)
			var wrong *tenancy.KeyError
			require.ErrorAs(t, err, &wrong)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), secretA)
		})
	}
	twice := tenancy.Key{Hash: good, Identity: tenancy.Identity{Key: "a"}}
	_, err := tenancy.NewKeys(tenancy.KeysOptions{}, twice, twice)
	require.ErrorContains(t, err, `key 1 ("a"): Hash is that of key "a", too`)
	_, err = tenancy.NewKeys(tenancy.KeysOptions{}, make([]tenancy.Key, 1000)...)
	require.Equal(t, 20, strings.Count(err.Error(), "never the key itself"), "bounded")
}

func TestHashKey(t *testing.T) {
	// printf %s kv-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | sha256sum
	require.Equal(t, "sha256:"+shellHash, hash(t, secretA))
	for _, weak := range []string{"", "short", secretA + "\n", secretA + " ", secretA + ",", strings.Repeat("x", 1<<15), "kv-\u0430aaaaaaaaaaaaaaaaaaaaaaaaa"} {
		_, err := tenancy.HashKey(weak)
		require.Error(t, err)
		if len(weak) > 8 {
			require.NotContains(t, err.Error(), weak[:8])
		}
	}
}

// No value of the package shows a secret, whatever prints it.
func TestCanary(t *testing.T) {
	keys := newKeys(t, tenancy.KeysOptions{})
	p := tenancy.Presented{Header: header("Authorization: Bearer " + secretA)}
	id := known(t, keys, &p)
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for _, v := range []any{p, &p, keys, id, *id} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&log, verb, v)
		}
		logger.Info("value", "v", v)
	}
	encoded, err := json.Marshal(id)
	require.NoError(t, err)
	log.Write(encoded)
	for _, form := range []string{secretA, fmt.Sprintf("%x", secretA), strings.Trim(fmt.Sprintf("%d", []byte(secretA)), "[]")} {
		require.NotContains(t, log.String(), form)
	}
}

func TestKeysConcurrently(t *testing.T) {
	keys := newKeys(t, tenancy.KeysOptions{})
	table := []tenancy.Key{{Hash: hash(t, secretA), Identity: tenancy.Identity{Key: "a", Tenant: "acme"}}}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				id, err := keys.Resolve(t.Context(), &tenancy.Presented{Header: header("x-api-key: " + secretA)})
				if err != nil || id.Tenant != "acme" || id.Spent[0] != "X-Api-Key" {
					t.Error(id, err)
				}
			}
		})
	}
	for range 100 {
		require.NoError(t, keys.Replace(table))
	}
	wg.Wait()
}

func TestKeysAllocateNothing(t *testing.T) {
	keys := newKeys(t, tenancy.KeysOptions{})
	p := &tenancy.Presented{Header: header("Authorization: Bearer " + secretA)}
	known(t, keys, p)
	ctx := t.Context()
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = keys.Resolve(ctx, p) }))
}

func BenchmarkKeys(b *testing.B) {
	keys := newKeys(b, tenancy.KeysOptions{})
	p := &tenancy.Presented{Header: header("Authorization: Bearer " + secretA)}
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := keys.Resolve(ctx, p); err != nil {
			b.Fatal(err)
		}
	}
}

// Whatever headers hold, the answer is one key's identity, nothing, or a refusal that
// doesn't repeat it.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"", "Bearer " + secretA, "bearer  " + secretB, "Basic eA==", "Bearer a,b", "Bearer\t", "\x00", "Bearer\u00a0x"} {
		f.Add(s, "", uint8(1))
		f.Add(s, secretA, uint8(2))
	}
	keys := newKeys(f, tenancy.KeysOptions{})
	f.Fuzz(func(t *testing.T, authorization, key string, count uint8) {
		h := http.Header{}
		for range count % 3 {
			h["Authorization"] = append(h["Authorization"], authorization)
		}
		if key != "" {
			h["X-Api-Key"] = []string{key}
		}
		id, err := keys.Resolve(t.Context(), &tenancy.Presented{Header: h})
		switch {
		case id != nil && err != nil:
			t.Fatal("both")
		case id != nil:
			a := strings.Contains(authorization, secretA) || strings.Contains(key, secretA)
			b := strings.Contains(authorization, secretB) || strings.Contains(key, secretB)
			bearer := strings.HasPrefix(strings.ToLower(strings.TrimLeft(authorization, " \t")), "bearer ")
			if id.Key == "a" && !a || id.Key == "b" && !b || bearer && count%3 == 1 && a && b || count%3 == 2 {
				t.Fatalf("%q, %q is %q", authorization, key, id.Key)
			}
		case err != nil && len(err.Error()) > 100:
			t.Fatal(err)
		}
	})
}
