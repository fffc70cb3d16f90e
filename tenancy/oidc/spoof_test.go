package oidc_test

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/oidc"
)

func published() []any {
	return []any{jwk("rsa", rsaKey), jwk("ec", ecKey), jwk("ed", edKey), jwk("384", ec384Key)}
}

func (r *rig) accepts(t testing.TB, p *tenancy.Presented) *tenancy.Identity {
	t.Helper()
	id, err := r.resolver.Resolve(t.Context(), p)
	require.NoError(t, err)
	require.NotNil(t, id)
	return id
}

// refuses returns why; nothing of the token is in it.
func (r *rig) refuses(t testing.TB, p *tenancy.Presented) string {
	t.Helper()
	id, err := r.resolver.Resolve(t.Context(), p)
	require.Nil(t, id)
	var u *tenancy.UnverifiedError
	require.ErrorAs(t, err, &u)
	require.Equal(t, "jwt", u.Kind)
	require.Less(t, len(err.Error()), 200)
	for _, part := range strings.FieldsFunc(strings.Join(p.Header["Authorization"], " "), func(r rune) bool { return r == '.' || r == ' ' }) {
		if len(part) > 8 {
			require.NotContains(t, err.Error(), part[:8])
		}
	}
	return u.Reason
}

func TestAcceptsEveryKindOfKey(t *testing.T) {
	r := newRig(t, nil, published()...)
	for _, c := range []struct {
		alg, kid string
		key      any
	}{{"RS256", "rsa", rsaKey}, {"PS256", "rsa", rsaKey}, {"ES256", "ec", ecKey}, {"EdDSA", "ed", edKey}} {
		t.Run(c.alg, func(t *testing.T) {
			id := r.accepts(t, bearer(token(c.key, header(c.alg, c.kid), r.claims(nil))))
			require.Equal(t, &tenancy.Identity{Tenant: "acme", Key: "user-7", By: "jwt", Spent: []string{"Authorization"}}, id)
		})
	}
	require.EqualValues(t, 1, r.fetches.Load())
}

// Every forgery is refused, however it was made.
func TestForgeries(t *testing.T) {
	r := newRig(t, nil, published()...)
	// The attacker has a server of keys, too.
	var asked atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{jwk("rsa", rsaOther)}})
	}))
	defer evil.Close()
	other := startIssuer(t, jwk("rsa", rsaOther))

	good := token(rsaKey, header("RS256", "rsa"), r.claims(nil))
	parts := strings.Split(good, ".")
	der := must(x509.MarshalPKIXPublicKey(rsaKey.Public()))
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	encode := base64.RawURLEncoding.EncodeToString
	ownKey := must(json.Marshal(jose.JSONWebKey{Key: rsaOther.Public(), KeyID: "rsa"}))
	const wrong, algorithm, noKey, malformed = "the signature is wrong", "the algorithm is not allowed", "no key of the issuer is like that", "malformed"

	for name, c := range map[string]struct{ token, reason string }{
		"alg none":                 {token(nil, header("none", "rsa"), r.claims(nil)), algorithm},
		"alg none, no kid":         {token(nil, header("none", "", map[string]any{"kid": nil}), r.claims(nil)), algorithm},
		"alg None":                 {token(nil, header("None", "rsa"), r.claims(nil)), algorithm},
		"alg nOnE and a signature": {token(rsaKey, header("nOnE", "rsa"), r.claims(nil)), algorithm},
		"no alg":                   {token(rsaKey, header("", "rsa", map[string]any{"alg": nil}), r.claims(nil)), algorithm},
		"alg that is no text":      {token(rsaKey, header("", "rsa", map[string]any{"alg": 7}), r.claims(nil)), ""},
		"alg twice":                {resign(`{"alg":"none","alg":"RS256","kid":"rsa"}`, r.claims(nil)), malformed},
		"alg in another case":      {token(rsaKey, header("rs256", "rsa"), r.claims(nil)), algorithm},
		"HMAC by the PEM":          {token(public, header("HS256", "rsa"), r.claims(nil)), algorithm},
		"HMAC by the DER":          {token(der, header("HS256", "rsa"), r.claims(nil)), algorithm},
		"HMAC by the modulus":      {token(rsaKey.N.Bytes(), header("HS256", "rsa"), r.claims(nil)), algorithm},
		"HMAC called RS256":        {token(public, header("RS256", "rsa"), r.claims(nil)), wrong},
		"HMAC by nothing":          {token([]byte{}, header("HS256", "rsa"), r.claims(nil)), algorithm},
		"not configured":           {token(ec384Key, header("ES384", "384"), r.claims(nil)), algorithm},
		"RSA for an EC key":        {token(rsaKey, header("RS256", "ec"), r.claims(nil)), noKey},
		"EC for an RSA key":        {token(ecKey, header("ES256", "rsa"), r.claims(nil)), noKey},
		"ES256 by P-384":           {token(ec384Key, header("ES256", "384"), r.claims(nil)), noKey},
		"EdDSA for an EC key":      {token(edKey, header("EdDSA", "ec"), r.claims(nil)), noKey},
		"another's key":            {token(rsaOther, header("RS256", "rsa"), r.claims(nil)), wrong},
		"another's key, no kid":    {token(rsaOther, header("RS256", "", map[string]any{"kid": nil}), r.claims(nil)), wrong},
		"its key in the header":    {token(rsaOther, header("RS256", "rsa", map[string]any{"jwk": json.RawMessage(ownKey)}), r.claims(nil)), wrong},
		"its key, no kid":          {token(rsaOther, header("RS256", "", map[string]any{"kid": nil, "jwk": json.RawMessage(ownKey)}), r.claims(nil)), wrong},
		"jku":                      {token(rsaOther, header("RS256", "rsa", map[string]any{"jku": evil.URL}), r.claims(nil)), wrong},
		"jku, unknown kid":         {token(rsaOther, header("RS256", "evil", map[string]any{"jku": evil.URL}), r.claims(nil)), noKey},
		"x5u":                      {token(rsaOther, header("RS256", "rsa", map[string]any{"x5u": evil.URL}), r.claims(nil)), wrong},
		"x5c":                      {token(rsaOther, header("RS256", "rsa", map[string]any{"x5c": []string{base64.StdEncoding.EncodeToString(der)}}), r.claims(nil)), ""},
		"kid is a path":            {token([]byte{}, header("RS256", "../../../../dev/null"), r.claims(nil)), noKey},
		"kid is an address":        {token(rsaOther, header("RS256", evil.URL), r.claims(nil)), noKey},
		"kid is SQL":               {token([]byte("x"), header("RS256", "x' UNION SELECT 'x' --"), r.claims(nil)), noKey},
		"kid is a command":         {token(rsaOther, header("RS256", "|/bin/true"), r.claims(nil)), noKey},
		"kid in another case":      {token(rsaKey, header("RS256", "RSA"), r.claims(nil)), noKey},
		"kid is a list":            {token(rsaKey, header("RS256", "", map[string]any{"kid": []string{"rsa"}}), r.claims(nil)), malformed},
		"kid is huge":              {token(rsaKey, header("RS256", strings.Repeat("k", 8000)), r.claims(nil)), noKey},
		"crit":                     {token(rsaKey, header("RS256", "rsa", map[string]any{"crit": []string{"exp"}, "exp": 1}), r.claims(nil)), "it needs what is not understood"},
		"crit b64":                 {token(rsaKey, header("RS256", "rsa", map[string]any{"crit": []string{"b64"}, "b64": true}), r.claims(nil)), "it needs what is not understood"},
		"b64":                      {token(rsaKey, header("RS256", "rsa", map[string]any{"b64": false}), r.claims(nil)), "it needs what is not understood"},
		"signature cut off":        {parts[0] + "." + parts[1] + ".", malformed},
		"signature and dot gone":   {parts[0] + "." + parts[1], malformed},
		"payload gone":             {parts[0] + ".." + parts[2], malformed},
		"header alone":             {parts[0] + ".", malformed},
		"another's signature":      {parts[0] + "." + parts[1] + "." + strings.Split(token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"sub": "x"})), ".")[2], wrong},
		"payload exchanged":        {parts[0] + "." + encode(must(json.Marshal(r.claims(map[string]any{"tenant": "best"})))) + "." + parts[2], wrong},
		"one bit of the signature": {parts[0] + "." + parts[1] + "." + flip(parts[2]), wrong},
		"more parts":               {good + ".x", malformed},
		"JWE":                      {encode([]byte(`{"alg":"RSA-OAEP","enc":"A256GCM"}`)) + ".a.b.c.d", "encrypted tokens are not accepted"},
		"JWE by dir":               {encode([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + "..b.c.d", "encrypted tokens are not accepted"},
		"expired":                  {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"exp": r.clock.now().Add(-61 * time.Second).Unix()})), "expired"},
		"expired long ago":         {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"exp": 0})), "expired"},
		"expires never":            {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"exp": nil})), "it never expires"},
		"expires null":             {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"exp": json.RawMessage("null")})), "it never expires"},
		"expires at a text":        {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"exp": "9999999999"})), malformed},
		"expires beyond numbers":   {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"exp": 1e300})), malformed},
		"EXP":                      {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"exp": nil, "EXP": int64(99999999999)})), "it never expires"},
		"not yet valid":            {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"nbf": r.clock.now().Add(61 * time.Second).Unix()})), "not valid yet"},
		"issued in the future":     {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"iat": r.clock.now().Add(61 * time.Second).Unix()})), "issued in the future"},
		"wrong audience":           {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"aud": "billing"})), "it is for another audience"},
		"audience in part":         {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"aud": "kvsteer2"})), "it is for another audience"},
		"wrong audiences":          {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"aud": []string{"billing", "KVSTEER"}})), "it is for another audience"},
		"no audience":              {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"aud": nil})), "it is for another audience"},
		"empty audience":           {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"aud": []string{}})), "it is for another audience"},
		"audience is a map":        {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"aud": map[string]any{"kvsteer": 1}})), malformed},
		"wrong issuer":             {token(rsaOther, header("RS256", "rsa"), r.claims(map[string]any{"iss": other.URL})), "the issuer is unknown"},
		"issuer with a slash":      {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"iss": r.URL + "/"})), "the issuer is unknown"},
		"no issuer":                {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"iss": nil})), "the issuer is unknown"},
		"ISS":                      {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"iss": nil, "ISS": r.URL})), "the issuer is unknown"},
		"issuers":                  {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"iss": []string{r.URL}})), malformed},
		"claims are a list":        {compact(rsaKey, `{"alg":"RS256","kid":"rsa"}`, `["iss"]`), malformed},
		"claims are no JSON":       {compact(rsaKey, `{"alg":"RS256","kid":"rsa"}`, `x`), malformed},
		"claims twice":             {compact(rsaKey, `{"alg":"RS256","kid":"rsa"}`, `{"iss":"`+r.URL+`","iss":"x"}`), malformed},
		"huge":                     {good + strings.Repeat("A", 20<<10), "Authorization is too long"},
		"blank within":             {parts[0] + ". " + parts[1] + "." + parts[2], "Authorization is malformed"},
		"line end":                 {good + "\n", "Authorization is malformed"},
		"joined by a proxy":        {good + ", " + good, "Authorization is malformed"},
		"padding":                  {parts[0] + "=." + parts[1] + "=." + parts[2] + "=", malformed},
		"unknown token type":       {token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"tenant": nil})), "its claims do not say who it is"},
	} {
		t.Run(name, func(t *testing.T) {
			reason := r.refuses(t, bearer(c.token))
			if c.reason != "" {
				require.Equal(t, c.reason, reason)
			}
		})
	}
	require.Zero(t, asked.Load(), "nobody fetches from where a token says")
	require.Zero(t, other.fetches.Load())
	require.EqualValues(t, 1, r.fetches.Load(), "forged kids don't reach the issuer")
	r.accepts(t, bearer(good))
}

// compact signs texts as they are.
func compact(key any, header, payload string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	return text + "." + base64.RawURLEncoding.EncodeToString(signature(key, "RS256", text))
}

func resign(header string, claims map[string]any) string {
	return compact(rsaKey, header, string(must(json.Marshal(claims))))
}

// flip changes one bit in the middle.
func flip(part string) string {
	raw := must(base64.RawURLEncoding.DecodeString(part))
	raw[len(raw)/2] ^= 1
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Where a token is presented, and what is beside it.
func TestHeaders(t *testing.T) {
	r := newRig(t, nil, published()...)
	good := token(rsaKey, header("RS256", "rsa"), r.claims(nil))
	better := token(rsaKey, header("RS256", "rsa"), r.claims(map[string]any{"tenant": "best"}))
	for name, c := range map[string]struct {
		header http.Header
		want   string // tenant, "" for nothing, or
		reason string
	}{
		"bearer":           {header: http.Header{"Authorization": {"Bearer " + good}}, want: "acme"},
		"case and blanks":  {header: http.Header{"Authorization": {" bEARER   " + good + " "}}, want: "acme"},
		"beside itself":    {header: http.Header{"Authorization": {"Bearer " + good}, "X-Api-Key": {good}}, want: "acme"},
		"none":             {header: http.Header{}},
		"another scheme":   {header: http.Header{"Authorization": {"DPoP " + good}}},
		"no scheme":        {header: http.Header{"Authorization": {good}}},
		"another header":   {header: http.Header{"X-Api-Key": {good}}},
		"cookie and query": {header: http.Header{"Cookie": {"token=" + good}, "X-Forwarded-Access-Token": {good}}},
		"an API key":       {header: http.Header{"Authorization": {"Bearer kv-0123456789abcdef"}}},
		"a key with dots":  {header: http.Header{"Authorization": {"Bearer SG.0123456789.abcdef"}}},
		"twice":            {header: http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}, reason: "Authorization is given more than once"},
		"two":              {header: http.Header{"Authorization": {"Bearer " + good, "Bearer " + better}}, reason: "Authorization is given more than once"},
		"a key beside it":  {header: http.Header{"Authorization": {"Bearer " + good}, "X-Api-Key": {"kv-0123456789abcdef"}}, reason: "two headers hold different credentials"},
		"tab":              {header: http.Header{"Authorization": {"Bearer\t" + good}}, reason: "Authorization is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &tenancy.Presented{Header: c.header}
			switch {
			case c.reason != "":
				require.Equal(t, c.reason, r.refuses(t, p))
			case c.want == "":
				id, err := r.resolver.Resolve(t.Context(), p)
				require.NoError(t, err)
				require.Nil(t, id)
			default:
				require.Equal(t, c.want, r.accepts(t, p).Tenant)
			}
		})
	}
}

func TestLeeway(t *testing.T) {
	r := newRig(t, func(o *oidc.Options) { o.Leeway = 10 * time.Second }, published()...)
	at := func(d time.Duration) int64 { return r.clock.now().Add(d).Unix() }
	for name, c := range map[string]struct {
		claims map[string]any
		reason string
	}{
		"just expired": {map[string]any{"exp": at(-10 * time.Second)}, ""},
		"expired":      {map[string]any{"exp": at(-11 * time.Second)}, "expired"},
		"almost valid": {map[string]any{"nbf": at(10 * time.Second), "iat": at(10 * time.Second)}, ""},
		"not valid":    {map[string]any{"nbf": at(11 * time.Second)}, "not valid yet"},
		"from ahead":   {map[string]any{"iat": at(11 * time.Second)}, "issued in the future"},
		"no nbf, iat":  {map[string]any{"iat": nil, "nbf": nil}, ""},
		"fraction":     {map[string]any{"exp": float64(at(0)) + 0.5}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := bearer(token(ecKey, header("ES256", "ec"), r.claims(c.claims)))
			if c.reason == "" {
				r.accepts(t, p)
			} else {
				require.Equal(t, c.reason, r.refuses(t, p))
			}
		})
	}
}

func TestTypes(t *testing.T) {
	r := newRig(t, func(o *oidc.Options) { o.Issuers[0].Types = []string{"at+jwt"} }, published()...)
	for _, typ := range []any{"at+jwt", "AT+JWT", "application/at+jwt"} {
		r.accepts(t, bearer(token(ecKey, header("ES256", "ec", map[string]any{"typ": typ}), r.claims(nil))))
	}
	for _, typ := range []any{"JWT", nil, 7, "jwt", "application/at+jwt; x"} {
		require.Equal(t, "it is of another type", r.refuses(t, bearer(token(ecKey, header("ES256", "ec", map[string]any{"typ": typ}), r.claims(nil)))))
	}
}

// One issuer's key is no other's, and tokens of both have their own names.
func TestSeveralIssuers(t *testing.T) {
	second := startIssuer(t, jwk("rsa", rsaOther))
	r := newRig(t, func(o *oidc.Options) {
		o.Issuers = append(o.Issuers, oidc.Issuer{URL: second.URL, Audiences: []string{"kvsteer"}, Prefix: "partner/", Claims: oidc.Claims{Tenant: "tenant"}})
	}, jwk("rsa", rsaKey))
	require.Equal(t, "acme", r.accepts(t, bearer(token(rsaKey, header("RS256", "rsa"), r.claims(nil)))).Tenant)
	theirs := r.claims(map[string]any{"iss": second.URL})
	require.Equal(t, "partner/acme", r.accepts(t, bearer(token(rsaOther, header("RS256", "rsa"), theirs))).Tenant)
	require.Equal(t, "the signature is wrong", r.refuses(t, bearer(token(rsaKey, header("RS256", "rsa"), theirs))))
	require.Equal(t, "the signature is wrong", r.refuses(t, bearer(token(rsaOther, header("RS256", "rsa"), r.claims(nil)))))
	require.Equal(t, "the algorithm is not allowed", r.refuses(t, bearer(token(rsaOther, header("PS256", "rsa"), theirs))), "the other one has it")
}

// In no order do keys and tokens hinder each other, but that tokens come first.
func TestChainWithKeys(t *testing.T) {
	r := newRig(t, nil, published()...)
	const secret = "kv-0123456789abcdef0123456789abcdef"
	keys, err := tenancy.NewKeys(tenancy.KeysOptions{}, tenancy.Key{Hash: must(tenancy.HashKey(secret)), Identity: tenancy.Identity{Key: "k"}})
	require.NoError(t, err)
	chain := tenancy.Chain{r.resolver, keys}
	id, err := chain.Resolve(t.Context(), bearer(token(ecKey, header("ES256", "ec"), r.claims(nil))))
	require.NoError(t, err)
	require.Equal(t, "jwt", id.By)
	id, err = chain.Resolve(t.Context(), bearer(secret))
	require.NoError(t, err)
	require.Equal(t, "api key", id.By)
	var u *tenancy.UnverifiedError
	for _, wrong := range []string{"kv-wrong", token(rsaOther, header("ES256", "ec"), r.claims(nil)), "a.b.c", "e30.e30.e30"} {
		id, err = chain.Resolve(t.Context(), bearer(wrong))
		require.Nil(t, id)
		require.ErrorAs(t, err, &u)
	}
}

// No token is in anything that is said or can be printed.
func TestCanary(t *testing.T) {
	const canary = "canary-7f3a"
	var log bytes.Buffer
	r := newRig(t, func(o *oidc.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, published()...)
	var said strings.Builder
	note := func(tok string) {
		p := bearer(tok)
		id, err := r.resolver.Resolve(t.Context(), p)
		fmt.Fprintf(&said, "%v %+v %#v %v %+v %v %v", err, err, err, p, *p, r.resolver.Status(), id)
		require.NotContains(t, said.String(), tok[:min(len(tok), 20)])
	}
	for _, c := range []map[string]any{
		{"iss": canary},
		{"aud": canary},
		{"exp": canary},
		{"tenant": []string{canary}},
		{"tenant": nil, canary: 1},
		{"exp": 1, "jti": canary},
		{"tenant": canary + "\x00"},
		{"sub": strings.Repeat(canary, 100)},
	} {
		note(token(rsaKey, header("RS256", "rsa"), r.claims(c)))
	}
	for _, h := range []map[string]any{{"alg": canary}, {"kid": canary}, {"typ": canary, "crit": []string{canary}}, {"jku": canary, "alg": "ES256"}} {
		note(token(rsaKey, header("RS256", "rsa", h), r.claims(nil)))
	}
	r.set(func() { r.fail = 500 })
	r.clock.advance(48 * time.Hour)
	note(token(rsaKey, header("RS256", canary), r.claims(map[string]any{"jti": canary})))
	require.NoError(t, r.resolver.Close()) // all is said
	require.NotContains(t, said.String(), canary)
	require.NotContains(t, log.String(), canary)
	require.Contains(t, log.String(), "could not be fetched")
}

// Whatever a bearer is, only what was signed by the issuer is anybody.
func FuzzResolve(f *testing.F) {
	r := newRig(f, nil, published()...)
	good := token(ecKey, header("ES256", "ec"), r.claims(nil))
	require.NoError(f, r.resolver.Ready(f.Context()))
	for _, seed := range []string{
		good, good[:len(good)-1], "e30.e30.e30", "eyJhbGciOiJub25lIn0.e30.", "eyJhbGciOiJIUzI1NiJ9..", "{}", "a.b.c.d.e", "", ".",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, secret string) {
		id, err := r.resolver.Resolve(t.Context(), bearer(secret))
		switch {
		case id != nil && err != nil:
			t.Fatal("both")
		case id != nil && strings.TrimSpace(secret) != good && !strings.HasPrefix(strings.TrimSpace(secret), good[:strings.LastIndex(good, ".")]):
			t.Fatalf("%q is %v", secret, id)
		case err != nil && len(err.Error()) > 200:
			t.Fatal(err)
		}
	})
}
