package tenancy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/kvsteer/kvsteer/tenancy"
)

// A Chain asks one Resolver after the other. Keys refuses whatever secret it doesn't
// know, so it is the last.
func ExampleChain() {
	gateways, err := tenancy.NewPeers(tenancy.PeersOptions{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Headers:  tenancy.PeerHeaders{Tenant: "X-Tenant"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	hash, err := tenancy.HashKey("kv-0123456789abcdef0123456789abcdef")
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := tenancy.NewKeys(tenancy.KeysOptions{}, tenancy.Key{
		Hash: hash, Identity: tenancy.Identity{Key: "search-2027", Tenant: "search"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	who := tenancy.Chain{gateways, keys}

	stranger := netip.MustParseAddrPort("192.0.2.7:40000")
	for _, header := range []http.Header{
		{"X-Api-Key": {"kv-0123456789abcdef0123456789abcdef"}},
		{"X-Api-Key": {"kv-wrong"}},
		{"X-Tenant": {"search"}}, // not from a gateway that is trusted
	} {
		id, err := who.Resolve(context.Background(), &tenancy.Presented{Header: header, Remote: stranger})
		switch {
		case err != nil:
			fmt.Println(err)
		case id == nil:
			fmt.Println("anonymous")
		default:
			fmt.Println(id.Tenant, "by", id.By)
		}
	}
	// Output:
	// search by api key
	// tenancy: api key: unknown
	// anonymous
}

func ExampleHashKey() {
	hash, err := tenancy.HashKey("kv-0123456789abcdef0123456789abcdef")
	fmt.Println(hash, err)
	_, err = tenancy.HashKey("letmein")
	fmt.Println(err)
	// Output:
	// sha256:03fa90a6fbd00d0cf8dffa1ef4d83100cd76f9b5c72f342f2aea74446f275756 <nil>
	// tenancy: the key has less than 16 characters and can be guessed; make one at random: openssl rand -hex 32
}

func ExampleNewKeys() {
	hash, err := tenancy.HashKey("kv-0123456789abcdef0123456789abcdef")
	if err != nil {
		fmt.Println(err)
		return
	}
	keys, err := tenancy.NewKeys(tenancy.KeysOptions{}, tenancy.Key{
		Hash: hash, Identity: tenancy.Identity{Key: "search-2027", Tenant: "search", Models: []string{"qwen3*"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	id, err := keys.Resolve(context.Background(), &tenancy.Presented{
		Header: http.Header{"Authorization": {"Bearer kv-0123456789abcdef0123456789abcdef"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(id.Tenant, id.Key, id.MayUseModel("qwen3-32b"), id.MayUseModel("llama-70b"))
	// Output: search search-2027 true false
}

// Another gateway in front says whom requests are from.
func ExampleNewPeers() {
	peers, err := tenancy.NewPeers(tenancy.PeersOptions{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Headers:  tenancy.PeerHeaders{Tenant: "X-Tenant", Groups: "X-Groups"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	header := http.Header{"X-Tenant": {"search"}, "X-Groups": {"internal, batch"}}
	for _, from := range []string{"10.1.2.3:40000", "192.0.2.7:40000"} {
		id, err := peers.Resolve(context.Background(), &tenancy.Presented{Header: header, Remote: netip.MustParseAddrPort(from)})
		if id == nil {
			fmt.Println(from, "is not heard", err)
			continue
		}
		fmt.Println(from, id.Tenant, id.Groups)
	}
	// Output:
	// 10.1.2.3:40000 search [internal batch]
	// 192.0.2.7:40000 is not heard <nil>
}

// Workloads of a mesh are tenants by their namespace.
func ExampleNewCertificates() {
	certificates, err := tenancy.NewCertificates(tenancy.CertificateRule{
		SPIFFE:   "spiffe://prod.example/ns/{namespace}/sa/{account}",
		Identity: tenancy.Identity{Org: "acme", Tenant: "{namespace}", Key: "{account}"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := &http.Server{
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven}, // and ClientCAs
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = certificates.Resolve(r.Context(), &tenancy.Presented{Header: r.Header, TLS: r.TLS})
		}),
	}
	fmt.Println(server.TLSConfig.ClientAuth)
	// Output: VerifyClientCertIfGiven
}

// Servers that verify certificates by a function of their own (tls.Config's
// VerifyPeerCertificate with tls.RequireAnyClientCert), as go-spiffe sets them up, leave
// VerifiedChains empty. Who has such a server, and no other, says so.
func ExampleCertificates_Resolve() {
	certificates, err := tenancy.NewCertificates(tenancy.CertificateRule{
		SPIFFE:   "spiffe://prod.example/ns/{namespace}/sa/{account}",
		Identity: tenancy.Identity{Tenant: "{namespace}", Key: "{account}"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	resolve := func(r *http.Request) (*tenancy.Identity, error) {
		p := &tenancy.Presented{Header: r.Header, TLS: r.TLS}
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 { // the handshake would have failed
			state := *r.TLS
			state.VerifiedChains = [][]*x509.Certificate{state.PeerCertificates}
			p.TLS = &state
		}
		return certificates.Resolve(r.Context(), p)
	}
	fmt.Println(resolve(new(http.Request)))
	// Output: <nil> <nil>
}
