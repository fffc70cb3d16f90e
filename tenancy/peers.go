package tenancy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const byPeer = "peer"

// PeerHeaders names the headers that hold an [Identity]; "" is none. Each is given once
// at most. Groups, Models and Providers are lists, with commas between; where Models or
// Providers has a name and a request lacks the header, none may be used.
type PeerHeaders struct {
	Org, Team, Tenant, Key           string
	Groups, Class, Models, Providers string
	// Priority is a whole number.
	Priority string
}

// PeersOptions are for [NewPeers].
type PeersOptions struct {
	// Networks are those whose peers are trusted, by the address of the connection's
	// other end. An IPv4 address may come as IPv6 (::ffff:10.0.0.1): it is the same.
	Networks []netip.Prefix
	// SPIFFE are the ids of peers that are trusted wherever they are, if their
	// certificates were verified.
	SPIFFE []string
	// Local trusts peers that have no address, as on a Unix socket. [Presented] can't tell
	// them from peers whose address a gateway forgot to say.
	Local bool
	// Headers are where identities are.
	Headers PeerHeaders
}

// Peers is a [Resolver] that takes the word of other gateways: of requests that come
// directly from a trusted peer, headers say whom they are from. What anybody else sends
// in these headers is ignored. It is safe for concurrent use.
type Peers struct {
	networks []netip.Prefix
	ids      []string
	local    bool
	headers  PeerHeaders
	names    []string
}

var _ Resolver = (*Peers)(nil)

// NewPeers returns a Resolver that trusts who is named, and nobody else.
func NewPeers(opts PeersOptions) (*Peers, error) {
	p := &Peers{ids: slices.Clone(opts.SPIFFE), local: opts.Local, headers: opts.Headers}
	for _, n := range opts.Networks {
		plain, err := network(n)
		if err != nil {
			return nil, err
		}
		p.networks = append(p.networks, plain)
	}
	for _, id := range p.ids {
		if err := checkSPIFFE(id); err != nil {
			return nil, fmt.Errorf("tenancy: PeersOptions.SPIFFE: %q %w", id, err)
		}
	}
	h := &p.headers
	for _, name := range []*string{&h.Org, &h.Team, &h.Tenant, &h.Key, &h.Groups, &h.Class, &h.Models, &h.Providers, &h.Priority} {
		if *name == "" {
			continue
		}
		*name = http.CanonicalHeaderKey(*name)
		switch {
		case !token(*name):
			return nil, fmt.Errorf("tenancy: PeersOptions.Headers: %q can't be the name of a header; correct it", *name)
		case slices.Contains(p.names, *name):
			return nil, fmt.Errorf("tenancy: PeersOptions.Headers: %q is given for two fields; remove one", *name)
		}
		p.names = append(p.names, *name)
	}
	switch {
	case len(p.networks) == 0 && len(p.ids) == 0 && !p.local:
		return nil, errors.New("tenancy: PeersOptions trust nobody; give Networks, SPIFFE or Local, or leave Peers out")
	case h.Org == "" && h.Team == "" && h.Tenant == "" && h.Key == "":
		return nil, errors.New("tenancy: PeersOptions.Headers name nobody; give at least one of Org, Team, Tenant and Key")
	}
	return p, nil
}

// network returns the form of n that addresses are compared with.
func network(n netip.Prefix) (netip.Prefix, error) {
	const mapped = 96 // bits before the IPv4 address
	if n.IsValid() && n.Addr().Is4In6() && n.Bits() >= mapped {
		n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-mapped)
	}
	switch {
	case !n.IsValid():
		return n, errors.New("tenancy: PeersOptions.Networks: a prefix is not valid; make it with netip.ParsePrefix")
	case n.Bits() == 0:
		return n, fmt.Errorf("tenancy: PeersOptions.Networks: %v is everybody; name the networks that other gateways are in", n)
	case n != n.Masked():
		return n, fmt.Errorf("tenancy: PeersOptions.Networks: %v is more than the network; write %v, or /%d for one address",
			n, n.Masked(), n.Addr().BitLen())
	}
	return n, nil
}

// token reports whether s can be the name of a header.
func token(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// Headers are the names that p reads. A gateway removes them from what strangers send,
// before anything else reads them.
func (p *Peers) Headers() []string { return slices.Clone(p.names) }

// Resolve implements [Resolver]. It doesn't block.
func (p *Peers) Resolve(_ context.Context, shown *Presented) (*Identity, error) {
	if !p.trusts(shown) {
		return nil, nil //nolint:nilnil // as Resolver's contract has it
	}
	r := peerReader{header: shown.Header}
	h := &p.headers
	id := &Identity{
		Org: r.text(h.Org), Team: r.text(h.Team), Tenant: r.text(h.Tenant), Key: r.text(h.Key), Class: r.text(h.Class),
		Groups: r.list(h.Groups), Models: r.list(h.Models), Providers: r.list(h.Providers), Priority: r.number(h.Priority),
		By: byPeer, Spent: p.names,
	}
	switch {
	case r.reason != "":
		return nil, &UnverifiedError{Kind: byPeer, Reason: r.reason}
	case !r.found:
		return nil, nil //nolint:nilnil // as Resolver's contract has it
	case id.Org == "" && id.Team == "" && id.Tenant == "" && id.Key == "":
		return nil, &UnverifiedError{Kind: byPeer, Reason: "the headers name nobody"}
	}
	if h.Models != "" && id.Models == nil {
		id.Models = []string{}
	}
	if h.Providers != "" && id.Providers == nil {
		id.Providers = []string{}
	}
	if err := id.Validate(); err != nil {
		return nil, &UnverifiedError{Kind: byPeer, Reason: "a header is not fit", Err: err}
	}
	return id, nil
}

func (p *Peers) trusts(shown *Presented) bool {
	if addr := shown.Remote.Addr(); addr.IsValid() {
		addr = addr.Unmap().WithZone("")
		for _, n := range p.networks {
			if n.Contains(addr) {
				return true
			}
		}
	} else if p.local {
		return true
	}
	if len(p.ids) == 0 {
		return false
	}
	leaf := verifiedLeaf(shown.TLS)
	if leaf == nil {
		return false
	}
	id, err := spiffeID(leaf)
	return err == nil && slices.Contains(p.ids, id)
}

// peerReader reads headers; reason is the first thing that is wrong.
type peerReader struct {
	header http.Header
	found  bool
	reason string
}

func (r *peerReader) value(name string) string {
	values := r.header[name]
	switch {
	case len(values) == 0:
		return ""
	case len(values) > 1:
		r.fail(name + " is given more than once")
		return ""
	}
	v := trim(values[0])
	r.found = r.found || v != ""
	return v
}

func (r *peerReader) fail(reason string) {
	if r.reason == "" {
		r.reason = reason
	}
}

func (r *peerReader) text(name string) string {
	v := r.value(name)
	// Two values become one with a comma on their way through some proxies.
	if strings.Contains(v, ",") {
		r.fail(name + " holds a comma")
	}
	return v
}

func (r *peerReader) list(name string) []string {
	v := r.value(name)
	if v == "" {
		return nil
	}
	parts := strings.Split(v, ",")
	for i := range parts {
		parts[i] = trim(parts[i])
	}
	return parts
}

func (r *peerReader) number(name string) int {
	v := r.value(name)
	if v == "" {
		return 0
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		r.fail(name + " is not a whole number")
	}
	return int(n)
}
