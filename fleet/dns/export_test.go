package dns

import (
	"context"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Lookup looks up once, and returns the time to the next lookup too.
func (d *Discoverer) Lookup(ctx context.Context) (records []Record, pause time.Duration, err error) {
	a, err := d.lookup(ctx)
	return a.records, d.pause(a.ttl), err
}

// Search looks up once under a resolv.conf, but asks d's Servers.
func (d *Discoverer) Search(ctx context.Context, conf string) ([]Record, error) {
	r, err := d.resolver()
	if err != nil {
		return nil, err
	}
	r.configure(conf)
	a, err := d.search(ctx, r)
	if err == nil {
		d.keep(a.records)
	}
	return a.records, err
}

// Keep is what is listed after an answer with records, and for how long at most.
func (d *Discoverer) Keep(records []Record) (kept []Record, expiry time.Duration) {
	return d.keep(records)
}

// Candidates are the names that s stands for under a resolv.conf, and the servers
// it names.
func Candidates(conf, s string) (names, servers []string) {
	r := &resolver{ndots: 1}
	r.configure(conf)
	for _, n := range r.candidates(s) {
		names = append(names, n.text())
	}
	return names, r.servers
}

// Parse reads an answer to a question for A records.
func Parse(data []byte, id uint16, s string) (addrs []netip.Addr, ttl time.Duration, err error) {
	m, err := parse(data, id, name(s), dnsmessage.TypeA)
	if err != nil {
		return nil, 0, err
	}
	values, _, ttl, err := m.follow(name(s))
	for _, v := range values {
		addrs = append(addrs, v.addr)
	}
	return addrs, ttl, err
}
