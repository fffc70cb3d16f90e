package extproc

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
)

// destination is what Envoy is told of where a request goes.
type destination struct {
	target kvsteer.Target
	list   string            // endpoints, separated by commas
	prefix string            // of the path on the worker
	hosts  map[string]string // of endpoints, as the fleet has them
}

// destination names the target and those of the alternatives that can stand in for it with
// nothing of the request changed: of the same model, rank, path and scheme.
func (s *Server) destination(ctx context.Context, t kvsteer.Target, rest []kvsteer.Target) (destination, error) {
	first, err := s.resolver.endpoint(ctx, t.URL)
	if err != nil {
		return destination{}, err
	}
	d := destination{target: t, prefix: strings.TrimSuffix(t.URL.EscapedPath(), "/"), hosts: map[string]string{first: t.URL.Host}}
	list := []string{first}
	for i := range rest {
		if len(list) >= s.opts.Endpoints {
			break
		}
		alt := &rest[i]
		if alt.Model != t.Model || alt.URL.Path != t.URL.Path || alt.URL.Scheme != t.URL.Scheme ||
			!maps.EqualFunc(alt.Header, t.Header, slices.Equal) {
			continue
		}
		endpoint, err := s.resolver.endpoint(ctx, alt.URL)
		if err != nil || slices.Contains(list, endpoint) {
			continue
		}
		list = append(list, endpoint)
		d.hosts[endpoint] = alt.URL.Host
	}
	d.list = strings.Join(list, ",")
	return d, nil
}

// resolver turns the hosts of workers' URLs into addresses, which is all that Envoy takes.
type resolver struct {
	mu    sync.Mutex
	known map[string]lookup
}

type lookup struct {
	addr  netip.Addr
	until time.Time
}

const (
	lookupTime = 2 * time.Second  // for one lookup
	lookupKept = 10 * time.Second // how long its result is used
	lookupMost = 4096             // names that are kept
)

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
	if _, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(host, port), nil
	}
	now := time.Now()
	r.mu.Lock()
	was, ok := r.known[host]
	r.mu.Unlock()
	if ok && now.Before(was.until) {
		return net.JoinHostPort(was.addr.String(), port), nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(addrs) == 0 {
		return "", fmt.Errorf("extproc: the worker's host has no address: %w", err)
	}
	addr := slices.MinFunc(addrs, func(a, b netip.Addr) int { return a.Unmap().Compare(b.Unmap()) }).Unmap() // IPv4 first, always the same
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil || len(r.known) >= lookupMost {
		r.known = map[string]lookup{}
	}
	r.known[host] = lookup{addr: addr, until: now.Add(lookupKept)}
	return net.JoinHostPort(addr.String(), port), nil
}
