package tenancy_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy"
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// everyHeader is for peers that say all there is.
func everyHeader() tenancy.PeerHeaders {
	return tenancy.PeerHeaders{
		Org: "x-org", Team: "x-team", Tenant: "x-tenant", Key: "x-key-name", Groups: "x-groups", Class: "x-class",
		Models: "x-models", Providers: "x-providers", Priority: "x-priority",
	}
}

func newPeers(t testing.TB, opts tenancy.PeersOptions) *tenancy.Peers {
	t.Helper()
	p, err := tenancy.NewPeers(opts)
	require.NoError(t, err)
	return p
}

// Who is trusted is decided by the connection. What strangers send is not even looked
// at: it is no reason to refuse them.
func TestPeersTrust(t *testing.T) {
	named := leaf(t, "spiffe://prod.example/ns/edge/sa/gateway")
	other := leaf(t, "spiffe://prod.example/ns/edge/sa/gateway2")
	verified := func(c *x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}, VerifiedChains: [][]*x509.Certificate{{c}}}
	}
	networks := tenancy.PeersOptions{Networks: prefixes("10.1.0.0/16", "fd00:1::/32", "fe80::/10")}
	for name, c := range map[string]struct {
		opts   tenancy.PeersOptions
		remote string
		tls    *tls.ConnectionState
		want   bool
	}{
		"within":                    {opts: networks, remote: "10.1.2.3:40000", want: true},
		"without":                   {opts: networks, remote: "10.2.2.3:40000"},
		"as IPv6":                   {opts: networks, remote: "[::ffff:10.1.2.3]:40000", want: true},
		"as IPv6, without":          {opts: networks, remote: "[::ffff:10.2.2.3]:40000"},
		"another form of IPv4":      {opts: networks, remote: "[::10.1.2.3]:40000"},
		"IPv6":                      {opts: networks, remote: "[fd00:1::7]:40000", want: true},
		"IPv6, without":             {opts: networks, remote: "[fd00:2::7]:40000"},
		"zone":                      {opts: networks, remote: "[fe80::1%eth0]:40000", want: true},
		"loopback":                  {opts: networks, remote: "127.0.0.1:40000"},
		"no address":                {opts: networks},
		"prefix as IPv6":            {opts: tenancy.PeersOptions{Networks: prefixes("::ffff:10.1.0.0/112")}, remote: "10.1.2.3:1", want: true},
		"one address":               {opts: tenancy.PeersOptions{Networks: prefixes("10.1.2.3/32")}, remote: "10.1.2.4:1"},
		"local":                     {opts: tenancy.PeersOptions{Local: true}, want: true},
		"local has no address":      {opts: tenancy.PeersOptions{Local: true}, remote: "127.0.0.1:1"},
		"SPIFFE":                    {opts: tenancy.PeersOptions{SPIFFE: []string{"spiffe://prod.example/ns/edge/sa/gateway"}}, remote: "192.0.2.1:1", tls: verified(named), want: true},
		"SPIFFE, a longer name":     {opts: tenancy.PeersOptions{SPIFFE: []string{"spiffe://prod.example/ns/edge/sa/gateway"}}, tls: verified(other)},
		"SPIFFE, without TLS":       {opts: tenancy.PeersOptions{SPIFFE: []string{"spiffe://prod.example/ns/edge/sa/gateway"}}},
		"SPIFFE, not verified":      {opts: tenancy.PeersOptions{SPIFFE: []string{"spiffe://prod.example/ns/edge/sa/gateway"}}, tls: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{named}}},
		"a certificate isn't named": {opts: networks, remote: "192.0.2.1:1", tls: verified(named)},
	} {
		t.Run(name, func(t *testing.T) {
			c.opts.Headers.Tenant = "x-tenant"
			peers := newPeers(t, c.opts)
			forged := header("X-Tenant: a", "X-Forwarded-For: 10.1.2.3", "X-Real-Ip: 10.1.2.3", "Forwarded: for=10.1.2.3")
			twice := header("X-Tenant: a", "X-Tenant: b")
			p := &tenancy.Presented{Header: forged, TLS: c.tls}
			if c.remote != "" {
				p.Remote = netip.MustParseAddrPort(c.remote)
			}
			if !c.want {
				unknown(t, peers, p)
				p.Header = twice
				unknown(t, peers, p)
				return
			}
			require.Equal(t, &tenancy.Identity{Tenant: "a", By: "peer", Spent: []string{"X-Tenant"}}, known(t, peers, p))
			p.Header = twice
			require.Equal(t, "X-Tenant is given more than once", unverified(t, peers, p))
		})
	}
}

func TestPeersHeaders(t *testing.T) {
	peers := newPeers(t, tenancy.PeersOptions{Local: true, Headers: everyHeader()})
	all := []string{"X-Org", "X-Team", "X-Tenant", "X-Key-Name", "X-Groups", "X-Class", "X-Models", "X-Providers", "X-Priority"}
	require.Equal(t, all, peers.Headers())
	for name, c := range map[string]struct {
		header []string
		want   *tenancy.Identity // nil for nothing, or
		reason string
	}{
		"nothing": {},
		"empty":   {header: []string{"X-Tenant:", "X-Org: \t"}},
		"all": {
			header: []string{"x-org: o", "x-team: t", "x-tenant: a b", "x-key-name: k", "x-groups: g , h", "x-class: gold", "x-models: m,n*", "x-providers: p", "x-priority: -3"},
			want: &tenancy.Identity{
				Org: "o", Team: "t", Tenant: "a b", Key: "k", Groups: []string{"g", "h"}, Class: "gold",
				Models: []string{"m", "n*"}, Providers: []string{"p"}, Priority: -3, By: "peer", Spent: all,
			},
		},
		"lists that are lacking allow nothing": {
			header: []string{"x-tenant: a"},
			want:   &tenancy.Identity{Tenant: "a", Models: []string{}, Providers: []string{}, By: "peer", Spent: all},
		},
		"nobody":          {header: []string{"x-class: gold"}, reason: "the headers name nobody"},
		"joined":          {header: []string{"x-tenant: a, b"}, reason: "X-Tenant holds a comma"},
		"twice":           {header: []string{"x-tenant: a", "X-TENANT: a"}, reason: "X-Tenant is given more than once"},
		"twice and empty": {header: []string{"x-tenant:", "X-TENANT: a"}, reason: "X-Tenant is given more than once"},
		"list twice":      {header: []string{"x-tenant: a", "x-groups: g", "x-groups: h"}, reason: "X-Groups is given more than once"},
		"no number":       {header: []string{"x-tenant: a", "x-priority: high"}, reason: "X-Priority is not a whole number"},
		"a huge number":   {header: []string{"x-tenant: a", "x-priority: 99999999999"}, reason: "X-Priority is not a whole number"},
		"long":            {header: []string{"x-tenant: " + strings.Repeat("a", 257)}, reason: "a header is not fit"},
		"not UTF-8":       {header: []string{"x-tenant: a\xff"}, reason: "a header is not fit"},
		"cannot be seen":  {header: []string{"x-tenant: a\u200bb"}, reason: "a header is not fit"},
		"empty in a list": {header: []string{"x-tenant: a", "x-groups: g,,h"}, reason: "a header is not fit"},
		"many groups":     {header: []string{"x-tenant: a", "x-groups: " + strings.Repeat("g,", 2000) + "g"}, reason: "a header is not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &tenancy.Presented{Header: header(c.header...)}
			switch {
			case c.reason != "":
				require.Equal(t, c.reason, unverified(t, peers, p))
			case c.want == nil:
				unknown(t, peers, p)
			default:
				require.Equal(t, c.want, known(t, peers, p))
			}
		})
	}
}

func TestPeersRefuse(t *testing.T) {
	tenant := tenancy.PeerHeaders{Tenant: "x-tenant"}
	for name, c := range map[string]struct {
		opts tenancy.PeersOptions
		want string
	}{
		"the zero value":  {tenancy.PeersOptions{}, "trust nobody"},
		"nobody":          {tenancy.PeersOptions{Headers: tenant}, "trust nobody"},
		"no headers":      {tenancy.PeersOptions{Local: true}, "name nobody"},
		"class alone":     {tenancy.PeersOptions{Local: true, Headers: tenancy.PeerHeaders{Class: "x-class"}}, "name nobody"},
		"everybody":       {tenancy.PeersOptions{Networks: prefixes("0.0.0.0/0"), Headers: tenant}, "0.0.0.0/0 is everybody"},
		"everybody, IPv6": {tenancy.PeersOptions{Networks: prefixes("::/0"), Headers: tenant}, "is everybody"},
		"mapped":          {tenancy.PeersOptions{Networks: prefixes("::ffff:0.0.0.0/96"), Headers: tenant}, "is everybody"},
		"host bits":       {tenancy.PeersOptions{Networks: prefixes("10.1.2.3/8"), Headers: tenant}, "write 10.0.0.0/8, or /32 for one"},
		"no prefix":       {tenancy.PeersOptions{Networks: make([]netip.Prefix, 1), Headers: tenant}, "not valid"},
		"no id":           {tenancy.PeersOptions{SPIFFE: []string{"prod.example/gateway"}, Headers: tenant}, "must begin with spiffe://"},
		"no header":       {tenancy.PeersOptions{Local: true, Headers: tenancy.PeerHeaders{Tenant: "x tenant"}}, "can't be the name of a header"},
		"one for two":     {tenancy.PeersOptions{Local: true, Headers: tenancy.PeerHeaders{Tenant: "x-a", Org: "X-A"}}, "for two fields"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tenancy.NewPeers(c.opts)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// Whatever a peer sends, what comes of it is fit to be a key of limits.
func FuzzPeers(f *testing.F) {
	for _, s := range []string{"", "a", "a,b", " a ", "a\x00", "\xff", "-1", strings.Repeat("a", 300)} {
		f.Add(s, s, s, uint8(1))
	}
	peers := newPeers(f, tenancy.PeersOptions{Local: true, Headers: everyHeader()})
	f.Fuzz(func(t *testing.T, tenant, groups, priority string, count uint8) {
		h := http.Header{"X-Groups": {groups}, "X-Models": {groups}, "X-Priority": {priority}}
		for range count % 3 {
			h["X-Tenant"] = append(h["X-Tenant"], tenant)
		}
		id, err := peers.Resolve(t.Context(), &tenancy.Presented{Header: h})
		switch {
		case id != nil && (err != nil || id.Validate() != nil || id.Tenant == "" || count%3 != 1 || strings.Contains(id.Tenant, ",")):
			t.Fatal(id, err)
		case id == nil && err == nil && count%3 == 2:
			t.Fatal("two headers are one too many")
		}
	})
}
