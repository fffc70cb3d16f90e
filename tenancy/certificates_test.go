package tenancy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy"
)

// authority signs certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key, pool: x509.NewCertPool()}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.pool.AddCert(a.cert)
	return a
}

// issue makes a certificate for clients.
func (a *authority) issue(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func uris(t testing.TB, ids ...string) (out []*url.URL) {
	t.Helper()
	for _, id := range ids {
		u, err := url.Parse(id)
		require.NoError(t, err)
		out = append(out, u)
	}
	return out
}

// leaf is a certificate with these ids.
func leaf(t testing.TB, ids ...string) *x509.Certificate {
	t.Helper()
	return newAuthority(t).issue(t, func(c *x509.Certificate) { c.URIs = uris(t, ids...) }).Leaf
}

// handshake makes a real TLS connection and returns what the server knows of it.
func handshake(t *testing.T, auth tls.ClientAuthType, roots *x509.CertPool, client *tls.Certificate) (*tenancy.Presented, error) {
	t.Helper()
	var p *tenancy.Presented
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p = &tenancy.Presented{Header: r.Header, TLS: r.TLS}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{ClientAuth: auth, ClientCAs: roots, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	c := server.Client()
	if client != nil {
		c.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return client, nil
		}
	}
	res, err := c.Get(server.URL)
	if err != nil {
		return nil, err
	}
	require.NoError(t, res.Body.Close())
	return p, nil
}

func newCertificates(t *testing.T, rules ...tenancy.CertificateRule) *tenancy.Certificates {
	t.Helper()
	c, err := tenancy.NewCertificates(rules...)
	require.NoError(t, err)
	return c
}

// What was verified counts, on real connections.
func TestCertificatesOnRealConnections(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	name := func(c *x509.Certificate) { c.Subject.CommonName = "batch" }
	good, forged := ours.issue(t, name), theirs.issue(t, name)
	expired := ours.issue(t, func(c *x509.Certificate) { name(c); c.NotAfter = time.Now().Add(-time.Minute) })
	r := newCertificates(t, tenancy.CertificateRule{CommonName: "batch", Identity: tenancy.Identity{Tenant: "acme"}})

	p, err := handshake(t, tls.RequireAndVerifyClientCert, ours.pool, &good)
	require.NoError(t, err)
	require.Equal(t, &tenancy.Identity{Tenant: "acme", By: "mtls"}, known(t, r, p))
	p, err = handshake(t, tls.VerifyClientCertIfGiven, ours.pool, nil)
	require.NoError(t, err)
	unknown(t, r, p)
	for _, bad := range []*tls.Certificate{&forged, &expired} {
		_, err = handshake(t, tls.VerifyClientCertIfGiven, ours.pool, bad)
		require.Error(t, err, "the TLS server refuses it")
		// A server that only asks for certificates verifies none.
		for _, auth := range []tls.ClientAuthType{tls.RequestClientCert, tls.RequireAnyClientCert} {
			p, err = handshake(t, auth, ours.pool, bad)
			require.NoError(t, err)
			require.Contains(t, unverified(t, r, p), "has not verified")
		}
	}
	unknown(t, r, &tenancy.Presented{})
	unknown(t, r, &tenancy.Presented{TLS: &tls.ConnectionState{}})
}

func TestCertificateRules(t *testing.T) {
	a := newAuthority(t)
	gateway := tenancy.CertificateRule{
		SPIFFE:   "spiffe://prod.example/ns/{namespace}/sa/{account}",
		Identity: tenancy.Identity{Org: "acme", Tenant: "{namespace}", Key: "{namespace}/{account}", Groups: []string{"ns-{namespace}", "all"}},
	}
	dns := tenancy.CertificateRule{DNS: "{team}.Clients.example", Identity: tenancy.Identity{Team: "{team}"}}
	exact := tenancy.CertificateRule{DNS: "batch.clients.example", Identity: tenancy.Identity{Team: "nightly", Class: "batch"}}
	cn := tenancy.CertificateRule{CommonName: "{name}", Identity: tenancy.Identity{Key: "{name}"}}
	for name, c := range map[string]struct {
		rules  []tenancy.CertificateRule
		change func(*x509.Certificate)
		want   *tenancy.Identity
		reason string
	}{
		"SPIFFE": {
			rules: []tenancy.CertificateRule{gateway}, change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://prod.example/ns/search/sa/web") },
			want: &tenancy.Identity{Org: "acme", Tenant: "search", Key: "search/web", Groups: []string{"ns-search", "all"}, By: "mtls"},
		},
		"another trust domain": {rules: []tenancy.CertificateRule{gateway}, change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://dev.example/ns/search/sa/web") }},
		"a domain below":       {rules: []tenancy.CertificateRule{gateway}, change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://x.prod.example/ns/search/sa/web") }},
		"a longer path":        {rules: []tenancy.CertificateRule{gateway}, change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://prod.example/ns/search/sa/web/x") }},
		"another URI":          {rules: []tenancy.CertificateRule{gateway}, change: func(c *x509.Certificate) { c.URIs = uris(t, "https://prod.example/ns/search/sa/web") }},
		"two URIs": {
			rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid",
			change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://prod.example/ns/a/sa/b", "https://x.example") },
		},
		"two ids": {
			rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid",
			change: func(c *x509.Certificate) {
				c.URIs = uris(t, "spiffe://prod.example/ns/a/sa/b", "spiffe://prod.example/ns/c/sa/d")
			},
		},
		"an authority": {
			rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid",
			change: func(c *x509.Certificate) {
				c.URIs, c.IsCA, c.BasicConstraintsValid = uris(t, "spiffe://prod.example/ns/a/sa/b"), true, true
			},
		},
		"may sign certificates": {
			rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid",
			change: func(c *x509.Certificate) {
				c.URIs, c.KeyUsage = uris(t, "spiffe://prod.example/ns/a/sa/b"), x509.KeyUsageDigitalSignature|x509.KeyUsageCRLSign
			},
		},
		"no signatures": {
			rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid",
			change: func(c *x509.Certificate) {
				c.URIs, c.KeyUsage = uris(t, "spiffe://prod.example/ns/a/sa/b"), x509.KeyUsageKeyEncipherment
			},
		},
		"escaped": {
			rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid",
			change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://prod.example/ns/a%2fb/sa/c") },
		},
		"dots": {
			rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid",
			change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://prod.example/ns/../sa/c") },
		},
		"port":         {rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid", change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://prod.example:1/ns/a/sa/b") }},
		"user":         {rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid", change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://u@prod.example/ns/a/sa/b") }},
		"query":        {rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid", change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://prod.example/ns/a/sa/b?x") }},
		"capitals":     {rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid", change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://PROD.example/ns/a/sa/b") }},
		"slash at end": {rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid", change: func(c *x509.Certificate) { c.URIs = uris(t, "spiffe://prod.example/ns/a/sa/b/") }},
		"too long": {rules: []tenancy.CertificateRule{gateway}, reason: "the SPIFFE id is not valid", change: func(c *x509.Certificate) {
			c.URIs = uris(t, "spiffe://prod.example/ns/a/sa/"+strings.Repeat("b", 2048))
		}},
		"id where no rule asks": {
			rules: []tenancy.CertificateRule{cn}, want: &tenancy.Identity{Key: "x", By: "mtls"},
			change: func(c *x509.Certificate) { c.Subject.CommonName, c.URIs = "x", uris(t, "spiffe://a/b/", "spiffe://c") },
		},
		"DNS":                  {rules: []tenancy.CertificateRule{dns}, want: &tenancy.Identity{Team: "search", By: "mtls"}, change: func(c *x509.Certificate) { c.DNSNames = []string{"other.example", "Search.clients.Example"} }},
		"DNS, in CN":           {rules: []tenancy.CertificateRule{dns}, change: func(c *x509.Certificate) { c.Subject.CommonName = "search.clients.example" }},
		"DNS wildcard":         {rules: []tenancy.CertificateRule{dns}, change: func(c *x509.Certificate) { c.DNSNames = []string{"*.clients.example"} }},
		"DNS, the first rule":  {rules: []tenancy.CertificateRule{exact, dns}, want: &tenancy.Identity{Team: "nightly", Class: "batch", By: "mtls"}, change: func(c *x509.Certificate) { c.DNSNames = []string{"search.clients.example", "batch.clients.example"} }},
		"CN":                   {rules: []tenancy.CertificateRule{dns, cn}, want: &tenancy.Identity{Key: "batch.7", By: "mtls"}, change: func(c *x509.Certificate) { c.Subject.CommonName = "batch.7" }},
		"CN with placeholders": {rules: []tenancy.CertificateRule{cn}, want: &tenancy.Identity{Key: "{name}", By: "mtls"}, change: func(c *x509.Certificate) { c.Subject.CommonName = "{name}" }},
		"CN empty":             {rules: []tenancy.CertificateRule{cn}, change: func(*x509.Certificate) {}},
		"CN unfit":             {rules: []tenancy.CertificateRule{cn}, change: func(c *x509.Certificate) { c.Subject.CommonName = " a\u202e" }, reason: "a name in the certificate is not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			cert := a.issue(t, c.change)
			p := &tenancy.Presented{TLS: &tls.ConnectionState{
				PeerCertificates: []*x509.Certificate{cert.Leaf}, VerifiedChains: [][]*x509.Certificate{{cert.Leaf, a.cert}},
			}}
			r := newCertificates(t, c.rules...)
			switch {
			case c.reason != "":
				require.Equal(t, c.reason, unverified(t, r, p))
			case c.want == nil:
				unknown(t, r, p)
			default:
				require.Equal(t, c.want, known(t, r, p))
			}
		})
	}
}

func TestCertificateRulesRefuse(t *testing.T) {
	who := tenancy.Identity{Tenant: "a"}
	for name, c := range map[string]struct {
		rule tenancy.CertificateRule
		want string
	}{
		"none":              {tenancy.CertificateRule{Identity: who}, "exactly one of"},
		"two":               {tenancy.CertificateRule{DNS: "a.example", CommonName: "a", Identity: who}, "exactly one of"},
		"nobody":            {tenancy.CertificateRule{DNS: "a.example"}, "names nobody"},
		"open trust domain": {tenancy.CertificateRule{SPIFFE: "spiffe://{d}/x", Identity: who}, "leaves the trust domain open"},
		"no scheme":         {tenancy.CertificateRule{SPIFFE: "prod.example/x", Identity: who}, "must begin with spiffe://"},
		"bad domain":        {tenancy.CertificateRule{SPIFFE: "spiffe://Prod/x", Identity: who}, "trust domain"},
		"empty segment":     {tenancy.CertificateRule{SPIFFE: "spiffe://prod//x", Identity: who}, "empty segment"},
		"half a segment":    {tenancy.CertificateRule{SPIFFE: "spiffe://prod/x-{a}", Identity: who}, "braces"},
		"asterisk":          {tenancy.CertificateRule{DNS: "*.example", Identity: who}, "asterisk"},
		"a word twice":      {tenancy.CertificateRule{DNS: "{a}.{a}", Identity: who}, "has {a} twice"},
		"no such word":      {tenancy.CertificateRule{DNS: "{a}.example", Identity: tenancy.Identity{Tenant: "{b}"}}, "names {b}"},
		"no end":            {tenancy.CertificateRule{DNS: "{a}.example", Identity: tenancy.Identity{Tenant: "{a"}}, "names {a"},
		"blank":             {tenancy.CertificateRule{DNS: "a.example", Identity: tenancy.Identity{Tenant: " "}}, "blanks around"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tenancy.NewCertificates(c.rule)
			require.ErrorContains(t, err, "rule 0 for certificates: ")
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := tenancy.NewCertificates()
	require.ErrorContains(t, err, "no rules")
}

// A Chain goes on where a Resolver knows nothing, and ends where one finds a lie.
func TestChain(t *testing.T) {
	a := newAuthority(t)
	cert := a.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "sidecar" })
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}, VerifiedChains: [][]*x509.Certificate{{cert.Leaf}}}
	chain := tenancy.Chain{
		newCertificates(t, tenancy.CertificateRule{CommonName: "batch", Identity: tenancy.Identity{Tenant: "batch"}}),
		newPeers(t, tenancy.PeersOptions{Networks: prefixes("10.0.0.0/8"), Headers: tenancy.PeerHeaders{Tenant: "x-tenant"}}),
		newKeys(t, tenancy.KeysOptions{}),
	}
	p := &tenancy.Presented{TLS: state, Header: header("X-Tenant: best", "api-key: "+secretA)}
	require.Equal(t, "acme", known(t, chain, p).Tenant, "the header is nobody's word")
	p.Header = header("X-Tenant: best", "api-key: x")
	require.Equal(t, "unknown", unverified(t, chain, p))
	p.Header = header("X-Tenant: best")
	unknown(t, chain, p)
	require.False(t, tenancy.Anonymous().Verified())
	require.Equal(t, &tenancy.Identity{}, tenancy.Anonymous())

	broken := errors.New("down")
	failing := resolverFunc(func(context.Context, *tenancy.Presented) (*tenancy.Identity, error) { return nil, broken })
	_, err := tenancy.Chain{failing, chain}.Resolve(t.Context(), p)
	require.ErrorIs(t, err, broken, "who can't be asked is not passed over")
}

type resolverFunc func(context.Context, *tenancy.Presented) (*tenancy.Identity, error)

func (f resolverFunc) Resolve(ctx context.Context, p *tenancy.Presented) (*tenancy.Identity, error) {
	return f(ctx, p)
}
