package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"
)

// resolver turns the hosts of workers' URLs into addresses, which is all that Envoy takes.
type resolver struct {
	look func(ctx context.Context, network, host string) ([]netip.Addr, error) // nil: the system's

	mu    sync.Mutex
	known map[string]*lookup
}

// lookup is one look for a host, which whoever needs it waits for. It goes on when they do
// not: the next one gets what it found.
type lookup struct {
	done  chan struct{} // closed when the rest is set
	addr  netip.Addr
	err   error
	until time.Time
}

const (
	lookupTime   = 2 * time.Second  // for one lookup
	othersTime   = time.Second      // for those of all alternatives together
	lookupKept   = 10 * time.Second // how long its result is used
	lookupFailed = time.Second      // and how long its failure
	lookupMost   = 4096             // names that are kept
)

var errNoAddress = errors.New("the name server knows none")

// endpoint is the address of a worker, in the one spelling that an address has in Envoy.
func (r *resolver) endpoint(ctx context.Context, u *url.URL) (string, error) {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	host := u.Hostname()
	addr, err := netip.ParseAddr(host)
	if err != nil {
		if addr, err = r.address(ctx, host); err != nil {
			return "", fmt.Errorf("extproc: the worker's host has no address: %w", err)
		}
	}
	return net.JoinHostPort(addr.Unmap().String(), port), nil
}

// spelled is an endpoint as the resolver spells it.
func spelled(endpoint string) string {
	a, err := netip.ParseAddrPort(endpoint)
	if err != nil {
		return endpoint
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
}

func (r *resolver) address(ctx context.Context, host string) (netip.Addr, error) {
	l := r.lookup(ctx, host)
	if l == nil {
		return netip.Addr{}, ctx.Err()
	}
	select {
	case <-l.done: // whatever has become of ctx
		return l.addr, l.err
	default:
	}
	select {
	case <-l.done:
		return l.addr, l.err
	case <-ctx.Done():
		return netip.Addr{}, ctx.Err()
	}
}

// lookup is the one that is under way or still good, or else a new one: nil if it is too
// late for that.
func (r *resolver) lookup(ctx context.Context, host string) *lookup {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.known[host]; l != nil && !l.stale() {
		return l
	}
	if ctx.Err() != nil {
		return nil
	}
	if r.known == nil || len(r.known) >= lookupMost {
		r.known = map[string]*lookup{}
	}
	l := &lookup{done: make(chan struct{})}
	r.known[host] = l
	look := r.look
	if look == nil {
		look = net.DefaultResolver.LookupNetIP
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTime)
	go func() {
		defer cancel()
		addrs, err := look(ctx, "ip", host)
		switch {
		case err == nil && len(addrs) == 0:
			err = errNoAddress
			fallthrough
		case err != nil:
			l.err, l.until = err, time.Now().Add(lookupFailed)
		default: // IPv4 first, always the same
			l.addr = slices.MinFunc(addrs, func(a, b netip.Addr) int { return a.Unmap().Compare(b.Unmap()) }).Unmap()
			l.until = time.Now().Add(lookupKept)
		}
		close(l.done)
	}()
	return l
}

func (l *lookup) stale() bool {
	select {
	case <-l.done:
		return time.Now().After(l.until)
	default:
		return false
	}
}
