package dns

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
)

const (
	resolvConf    = "/etc/resolv.conf"
	maxResolvConf = 64 << 10
	maxNdots      = 15
	dnsPort       = 53
)

// servers completes addresses with the port.
func servers(list []string) ([]string, error) {
	out := make([]string, len(list))
	for i, s := range list {
		if addr, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
			out[i] = netip.AddrPortFrom(addr, dnsPort).String()
			continue
		}
		ap, err := netip.ParseAddrPort(s)
		if err != nil || ap.Port() == 0 {
			return nil, fmt.Errorf("dns: Discoverer.Servers[%d], %q, is not an address; write for example 10.0.0.2 or [2001:db8::2]:53", i, s)
		}
		out[i] = ap.String()
	}
	return out, nil
}

// resolver is made anew for each lookup, since resolv.conf changes.
func (d *Discoverer) resolver() (*resolver, error) {
	r := &resolver{timeout: or(d.Timeout, defaultTimeout), ndots: 1}
	var err error
	if len(d.Servers) > 0 {
		r.servers, err = servers(d.Servers)
		return r, err
	}
	f, err := os.Open(resolvConf)
	if err != nil {
		return nil, fmt.Errorf("dns: no servers to ask: %w; give Discoverer.Servers, as %s may have no such file", err, runtime.GOOS)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxResolvConf))
	_ = f.Close() // it was only read
	if err != nil {
		return nil, fmt.Errorf("dns: %w", err)
	}
	r.configure(string(data))
	if len(r.servers) == 0 {
		return nil, fmt.Errorf("dns: %s names no server; give Discoverer.Servers", resolvConf)
	}
	return r, nil
}

// configure reads a resolv.conf as the system does: what it doesn't understand it
// ignores.
func (r *resolver) configure(text string) {
	for line := range strings.Lines(text) {
		if cut := strings.IndexAny(line, "#;"); cut >= 0 {
			line = line[:cut]
		}
		fields := strings.Fields(line)
		const least = 2
		if len(fields) < least {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if addr, err := netip.ParseAddr(fields[1]); err == nil {
				r.servers = append(r.servers, net.JoinHostPort(addr.String(), strconv.Itoa(dnsPort)))
			}
		case "domain", "search": // the last one counts
			r.search = nil
			for _, s := range fields[1:] {
				if n, err := newName(s); err == nil {
					r.search = append(r.search, n)
				}
			}
		case "options":
			for _, o := range fields[1:] {
				if v, ok := strings.CutPrefix(o, "ndots:"); ok {
					if n, err := strconv.Atoi(v); err == nil && n >= 0 {
						r.ndots = min(n, maxNdots)
					}
				}
			}
		}
	}
}

// candidates are the names that a name may stand for, in order.
func (r *resolver) candidates(s string) []name {
	whole, err := newName(s)
	if err != nil {
		return nil // Validate has seen it
	}
	if strings.HasSuffix(s, ".") {
		return []name{whole}
	}
	var out []name
	for _, suffix := range r.search {
		if n, err := newName(string(whole) + string(suffix)); err == nil {
			out = append(out, n)
		}
	}
	if strings.Count(s, ".") >= r.ndots {
		return append([]name{whole}, out...)
	}
	return append(out, whole)
}
