package oidc_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/oidc"
)

func TestClaims(t *testing.T) {
	all := oidc.Claims{
		Org: "https://acme.example/org", Team: "/kubernetes.io/namespace", Tenant: "/a~1b/c~0d", Key: "uid",
		Groups: "/realm_access/roles", Class: "class", Priority: "priority", Models: "models", Providers: "providers",
	}
	one := oidc.Claims{Tenant: "tenant"}
	for name, c := range map[string]struct {
		claims oidc.Claims
		base   tenancy.Identity
		token  map[string]any
		want   tenancy.Identity // the zero value for a refusal, because of
		reason string
	}{
		"all": {
			claims: all,
			token: map[string]any{
				"https://acme.example/org": "acme", "kubernetes.io": map[string]any{"namespace": "search"}, "a/b": map[string]any{"c~d": "t"},
				"uid": json.Number("12345678901234567"), "realm_access": map[string]any{"roles": []string{"g", "h"}}, "class": "gold", "priority": -2,
				"models": []string{"m", "n*"}, "providers": "p",
			},
			want: tenancy.Identity{
				Org: "acme", Team: "search", Tenant: "t", Key: "12345678901234567", Groups: []string{"g", "h"}, Class: "gold", Priority: -2,
				Models: []string{"m", "n*"}, Providers: []string{"p"},
			},
		},
		"what may be lacking": {
			claims: oidc.Claims{Tenant: "tenant", Groups: "groups", Class: "class", Priority: "priority", Models: "models", Providers: "providers"},
			base:   tenancy.Identity{Class: "standard", Priority: 5, Groups: []string{"all"}, Models: []string{"m"}},
			token:  map[string]any{"priority": json.RawMessage("null")},
			want: tenancy.Identity{
				Tenant: "acme", Class: "standard", Priority: 5, Groups: []string{"all"}, Models: []string{}, Providers: []string{},
			},
		},
		"the issuer's own": {
			claims: one, base: tenancy.Identity{Org: "acme", Models: []string{"m"}},
			want: tenancy.Identity{Org: "acme", Tenant: "acme", Models: []string{"m"}},
		},
		"nothing of the token":  {base: tenancy.Identity{Tenant: "fixed"}, want: tenancy.Identity{Tenant: "fixed"}},
		"empty lists":           {claims: oidc.Claims{Tenant: "tenant", Groups: "groups", Models: "models"}, token: map[string]any{"groups": []string{}, "models": []string{}}, want: tenancy.Identity{Tenant: "acme", Groups: []string{}, Models: []string{}}},
		"a name that looks so":  {claims: oidc.Claims{Tenant: "a.b"}, token: map[string]any{"a.b": "x", "a": map[string]any{"b": "y"}}, want: tenancy.Identity{Tenant: "x"}},
		"missing":               {claims: one, token: map[string]any{"tenant": nil}, reason: "the claim tenant is missing"},
		"in another case":       {claims: one, token: map[string]any{"tenant": nil, "Tenant": "a"}, reason: "the claim tenant is missing"},
		"empty":                 {claims: one, token: map[string]any{"tenant": ""}, reason: "the claim tenant is missing"},
		"missing on the way":    {claims: oidc.Claims{Tenant: "/a/b"}, token: map[string]any{"a": "b"}, reason: "the claim /a/b is missing"},
		"sub is a number":       {claims: one, token: map[string]any{"sub": 7}, reason: "malformed"},
		"a list":                {claims: one, token: map[string]any{"tenant": []string{"acme"}}, reason: "is neither a text nor a whole number"},
		"a fraction":            {claims: one, token: map[string]any{"tenant": 1.5}, reason: "is neither a text nor a whole number"},
		"true":                  {claims: one, token: map[string]any{"tenant": true}, reason: "is neither a text nor a whole number"},
		"priority is a text":    {claims: oidc.Claims{Tenant: "tenant", Priority: "p"}, token: map[string]any{"p": "1"}, reason: "is not a whole number"},
		"priority is huge":      {claims: oidc.Claims{Tenant: "tenant", Priority: "p"}, token: map[string]any{"p": int64(1) << 40}, reason: "is not a whole number"},
		"groups are numbers":    {claims: oidc.Claims{Tenant: "tenant", Groups: "g"}, token: map[string]any{"g": []int{1}}, reason: "has an entry that is not a text"},
		"groups are a map":      {claims: oidc.Claims{Tenant: "tenant", Groups: "g"}, token: map[string]any{"g": map[string]any{}}, reason: "is not a list of texts"},
		"a tenant can't be so":  {claims: one, token: map[string]any{"tenant": "a\u0000b"}, reason: "characters that can't be seen"},
		"a long tenant":         {claims: one, token: map[string]any{"tenant": strings.Repeat("x", 300)}, reason: "longer than 256 bytes"},
		"an asterisk in models": {claims: oidc.Claims{Tenant: "tenant", Models: "m"}, token: map[string]any{"m": []string{"a*b"}}, reason: "asterisk"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *oidc.Options) { o.Issuers[0].Claims, o.Issuers[0].Identity = c.claims, c.base }, jwk("ec", ecKey))
			p := bearer(token(ecKey, header("ES256", "ec"), r.claims(c.token)))
			if c.reason != "" {
				r.refuses(t, p)
				_, err := r.resolver.Resolve(t.Context(), p)
				require.ErrorContains(t, err, c.reason)
				return
			}
			c.want.By, c.want.Spent = "jwt", []string{"Authorization"}
			require.Equal(t, &c.want, r.accepts(t, p))
		})
	}
}

// What is made of one token doesn't touch what is made of the next.
func TestAdjust(t *testing.T) {
	r := newRig(t, func(o *oidc.Options) {
		o.Issuers[0].Identity.Groups = []string{"all"}
		o.Issuers[0].Adjust = func(claims json.RawMessage, id *tenancy.Identity) error {
			var c struct {
				Admin   bool `json:"admin"`
				Blocked bool `json:"blocked"`
			}
			if err := json.Unmarshal(claims, &c); err != nil {
				return err
			}
			if c.Blocked {
				return errors.New("the account is blocked")
			}
			if c.Admin {
				id.Groups[0] = "admins"
			}
			id.By, id.Spent = "forged", nil
			return nil
		}
	}, jwk("ec", ecKey))
	with := func(claims map[string]any) *tenancy.Presented {
		return bearer(token(ecKey, header("ES256", "ec"), r.claims(claims)))
	}
	id := r.accepts(t, with(map[string]any{"admin": true}))
	require.Equal(t, []any{[]string{"admins"}, "jwt", []string{"Authorization"}}, []any{id.Groups, id.By, id.Spent})
	require.Equal(t, []string{"all"}, r.accepts(t, with(nil)).Groups)
	require.Equal(t, "refused by Issuer.Adjust", r.refuses(t, with(map[string]any{"blocked": true})))
}

func TestOptionsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*oidc.Options)
		want   string
	}{
		"no issuers":      {func(o *oidc.Options) { o.Issuers = nil }, "Options.Issuers is empty"},
		"twice":           {func(o *oidc.Options) { o.Issuers = append(o.Issuers, o.Issuers[0]) }, "is given twice"},
		"leeway":          {func(o *oidc.Options) { o.Leeway = 1 << 50 }, "give at most 10m"},
		"negative":        {func(o *oidc.Options) { o.MinInterval = -1 }, "Options.MinInterval is -1ns; give a positive duration, or 0 for 10s"},
		"age":             {func(o *oidc.Options) { o.MaxAge = 1 }, "less than Refresh"},
		"no URL":          {func(o *oidc.Options) { o.Issuers[0].URL = "" }, "URL is empty"},
		"no audience":     {func(o *oidc.Options) { o.Issuers[0].Audiences = nil }, "Audiences lacks a name"},
		"empty audience":  {func(o *oidc.Options) { o.Issuers[0].Audiences = []string{"a", ""} }, "Audiences lacks a name"},
		"none":            {func(o *oidc.Options) { o.Issuers[0].Algorithms = []string{"none"} }, `the algorithm "none" can't be used; name some of [RS256`},
		"HMAC":            {func(o *oidc.Options) { o.Issuers[0].Algorithms = []string{"RS256", "HS256"} }, `the algorithm "HS256" can't be used`},
		"plain http":      {func(o *oidc.Options) { o.Issuers[0].URL = "http://id.example" }, "anybody on the way could make tokens; use https, or set Options.PlainHTTP"},
		"plain http keys": {func(o *oidc.Options) { o.Issuers[0].KeysURL = "http://127.0.0.1.example/keys" }, "KeysURL is plain http"},
		"no server":       {func(o *oidc.Options) { o.Issuers[0].URL = "id.example" }, "URL is not the address of a server"},
		"password":        {func(o *oidc.Options) { o.Issuers[0].URL = "https://u:p@id.example" }, "URL is not the address of a server"},
		"another scheme":  {func(o *oidc.Options) { o.Issuers[0].URL = "ftp://id.example" }, "neither http nor https"},
		"nobody":          {func(o *oidc.Options) { o.Issuers[0].Claims = oidc.Claims{Class: "class"} }, "neither Claims nor Identity name anybody"},
		"unfit":           {func(o *oidc.Options) { o.Issuers[0].Identity.Class = " gold" }, "Class has blanks around it"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := oidc.Options{Issuers: []oidc.Issuer{{
				URL: "https://id.example", Audiences: []string{"kvsteer"}, Claims: oidc.Claims{Tenant: "tenant"},
			}}}
			c.change(&opts)
			_, err := oidc.New(opts)
			require.ErrorContains(t, err, c.want)
		})
	}
	plain, err := oidc.New(oidc.Options{PlainHTTP: true, Issuers: []oidc.Issuer{{
		URL: "http://id.example", Audiences: []string{"kvsteer"}, Claims: oidc.Claims{Tenant: "tenant"},
	}}})
	require.NoError(t, err)
	require.NoError(t, plain.Close())
}

func BenchmarkResolve(b *testing.B) {
	r := newRig(b, nil, published()...)
	for alg, key := range map[string]any{"RS256": rsaKey, "ES256": ecKey, "EdDSA": edKey} {
		b.Run(alg, func(b *testing.B) {
			p := bearer(token(key, header(alg, map[string]string{"RS256": "rsa", "ES256": "ec", "EdDSA": "ed"}[alg]), r.claims(nil)))
			b.ReportAllocs()
			for b.Loop() {
				r.accepts(b, p)
			}
		})
	}
}
