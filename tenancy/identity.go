package tenancy

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/netip"
	"strings"
)

// Identity is whom a request comes from and what they may use. It must not be modified
// once a [Resolver] has returned it: many requests share it.
type Identity struct {
	// Org, Team, Tenant and Key are levels at which limits count; any may be empty.
	// Tenant is the one that policies, the router's line, limits and caches know; no two
	// organisations may have tenants of one name. Who is verified but has none is taken for
	// a tenant of the Team's name, or else the Key's, or the Org's, with "team:" and so on
	// before it.
	Org, Team, Tenant, Key string
	// Groups are those that the tenant belongs to.
	Groups []string
	// Class is the class of service.
	Class string
	// Priority orders requests that wait: lower goes first.
	Priority int
	// Models and Providers may be used, no others; nil means all, an empty list none. A
	// name that ends in an asterisk stands for all that begin so.
	Models, Providers []string
	// By says how this was verified, in a word: "api key", "jwt", "mtls", "peer". Empty
	// means that nobody has verified anything.
	By string
	// Spent are the names of the headers that the proof was in. They are for the gateway:
	// a Transport does not pass them on to workers.
	Spent []string
}

// Anonymous returns whom nobody has verified.
func Anonymous() *Identity { return new(Identity) }

// Verified reports whether somebody has.
func (i *Identity) Verified() bool { return i.By != "" }

// MayUseModel reports whether requests may name the model.
func (i *Identity) MayUseModel(name string) bool { return listed(i.Models, name) }

// MayUseProvider reports whether requests may go to the external provider.
func (i *Identity) MayUseProvider(name string) bool { return listed(i.Providers, name) }

func listed(names []string, name string) bool {
	if names == nil {
		return true
	}
	for _, n := range names {
		if prefix, all := strings.CutSuffix(n, "*"); n == name || all && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Presented is what a request shows of its sender. It must not be modified.
type Presented struct {
	// Header is the request's; may be nil.
	Header http.Header
	// Remote is the other end of the connection, the zero AddrPort if that isn't known.
	// It must be the connection's, never a header's.
	Remote netip.AddrPort
	// TLS is the connection's, nil if it has none.
	TLS *tls.ConnectionState
}

// Resolver finds out whom a request comes from. Implementations are safe for concurrent
// use, and block no longer than ctx allows.
type Resolver interface {
	// Resolve returns nil and no error if p holds nothing that the Resolver knows, and
	// an error that is, or wraps, a *[UnverifiedError] if it holds something that is not valid: a
	// wrong key, a token that has expired. Any other error means that it could not find
	// out.
	Resolve(ctx context.Context, p *Presented) (*Identity, error)
}

// UnverifiedError says that what a request presented isn't valid. It is for the
// operator, and holds nothing of the secret.
type UnverifiedError struct {
	// Kind is what was presented, as in Identity.By; Reason is a short fixed phrase.
	Kind, Reason string
	Err          error
}

// Error implements error.
func (e *UnverifiedError) Error() string {
	text := "tenancy: " + e.Kind + ": " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause, nil if there is none.
func (e *UnverifiedError) Unwrap() error { return e.Err }

// Chain asks Resolvers in turn; the first that knows the request, or finds that it lies,
// has the last word.
type Chain []Resolver

// Headers are the names of the headers that its Resolvers read, of those that say so by a
// method of this name, as [Peers] does.
func (c Chain) Headers() (names []string) {
	for _, r := range c {
		if h, ok := r.(interface{ Headers() []string }); ok {
			names = append(names, h.Headers()...)
		}
	}
	return names
}

// Resolve implements [Resolver].
func (c Chain) Resolve(ctx context.Context, p *Presented) (*Identity, error) {
	for _, r := range c {
		if id, err := r.Resolve(ctx, p); id != nil || err != nil {
			return id, err
		}
	}
	return nil, nil //nolint:nilnil // as Resolver's contract has it
}
