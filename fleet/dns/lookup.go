package dns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// ErrNoName: neither the name nor any that the search list makes of it exists.
// Seen by operators in Fleet.Err, before there was ever an answer.
var ErrNoName = errors.New("dns: no such name")

const (
	// forever is the TTL of nothing.
	forever = time.Duration(math.MaxInt64)
	// atOnce bounds the lookups of SRV targets that run at the same time.
	atOnce = 8
)

// answer is what a name means, and for how long.
type answer struct {
	records []Record
	ttl     time.Duration
	exists  bool // the name does, with these records or others
}

// lookup asks for the Discoverer's name.
func (d *Discoverer) lookup(ctx context.Context) (answer, error) {
	r, err := d.resolver()
	if err != nil {
		return answer{}, err
	}
	return d.search(ctx, r)
}

// search asks for the names that the search list makes, up to the first that
// exists, though it has no records: a name further down the list may be another
// fleet's, of a wildcard for example. For the same reason it goes no further than
// to the name that had records once, even when that doesn't exist any more.
func (d *Discoverer) search(ctx context.Context, r *resolver) (answer, error) {
	names := r.candidates(d.Name)
	if i := slices.Index(names, d.state.from); i >= 0 {
		names = names[:i+1]
	}
	none := answer{ttl: forever}
	for _, n := range names {
		a, err := d.records(ctx, r, n)
		if err != nil { // it ends the search, too
			return answer{}, fmt.Errorf("dns: %s: %w", n, err)
		}
		if len(a.records) > 0 {
			d.state.from = n
		}
		if a.exists {
			return a, nil
		}
		none.ttl = min(none.ttl, a.ttl)
	}
	if !d.state.answered {
		return answer{}, fmt.Errorf("%w: %q; check the name, or wait until the first worker has registered", ErrNoName, d.Name)
	}
	return none, nil
}

func (d *Discoverer) records(ctx context.Context, r *resolver, n name) (answer, error) {
	if d.SRV {
		return d.services(ctx, r, n)
	}
	addrs, a, err := d.addresses(ctx, r, n)
	for _, addr := range addrs {
		a.records = append(a.records, Record{Addr: netip.AddrPortFrom(addr, uint16(d.Port))})
	}
	return a, err
}

// addresses asks for the addresses of a name, of the families that are taken.
func (d *Discoverer) addresses(ctx context.Context, r *resolver, n name) ([]netip.Addr, answer, error) {
	types := []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA}
	switch d.Family {
	case FamilyIPv4:
		types = types[:1]
	case FamilyIPv6:
		types = types[1:]
	case FamilyAuto, FamilyBoth:
	}
	var addrs []netip.Addr
	whole := answer{ttl: forever}
	for _, t := range types {
		found, err := r.resolve(ctx, n, t)
		if err != nil {
			return nil, answer{}, err
		}
		whole.exists = whole.exists || found.exists
		whole.ttl = min(whole.ttl, found.ttl)
		for _, v := range found.values {
			addrs = append(addrs, v.addr)
		}
		if !found.exists || d.Family == FamilyAuto && len(addrs) > 0 {
			break
		}
	}
	return addrs, whole, nil
}

// services asks for SRV records and for the addresses of their targets.
func (d *Discoverer) services(ctx context.Context, r *resolver, n name) (answer, error) {
	found, err := r.resolve(ctx, n, dnsmessage.TypeSRV)
	if err != nil {
		return answer{}, err
	}
	whole := answer{ttl: found.ttl, exists: found.exists}
	srvs := d.preferred(found.values)
	var targets []name
	known := map[name]int{}
	for _, s := range srvs {
		if s.port == 0 {
			return answer{}, fmt.Errorf("the SRV record of %s has port 0; correct the record", s.target)
		}
		if _, ok := known[s.target]; !ok {
			known[s.target] = len(targets)
			targets = append(targets, s.target)
		}
	}
	hosts, err := d.hosts(ctx, r, targets)
	if err != nil {
		return answer{}, err
	}
	for _, s := range srvs {
		host := hosts[known[s.target]]
		whole.ttl = min(whole.ttl, host.ttl)
		for _, addr := range host.addrs {
			whole.records = append(whole.records, Record{
				Addr: netip.AddrPortFrom(addr, s.port), Target: s.target.text(), Priority: s.priority, Weight: s.weight,
			})
		}
	}
	return whole, nil
}

// preferred leaves out the records of other priorities than the lowest, and the
// dot, which says that there is no such service.
func (d *Discoverer) preferred(values []value) []value {
	lowest := uint16(math.MaxUint16)
	for _, v := range values {
		if v.target != root {
			lowest = min(lowest, v.priority)
		}
	}
	var out []value
	for _, v := range values {
		if v.target != root && (d.AllPriorities || v.priority == lowest) {
			out = append(out, v)
		}
	}
	return out
}

type host struct {
	addrs []netip.Addr
	ttl   time.Duration
}

// hosts looks up all targets. A target that doesn't exist has no addresses; one
// that can't be looked up fails all, since its workers would be removed.
func (d *Discoverer) hosts(ctx context.Context, r *resolver, targets []name) ([]host, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([]host, len(targets))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, target := range targets {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-slots }()
			addrs, a, err := d.addresses(ctx, r, target)
			if err != nil {
				cancel(fmt.Errorf("target %s: %w", target, err)) // the first one counts
				return
			}
			out[i] = host{addrs, a.ttl}
		})
	}
	wg.Wait()
	return out, context.Cause(ctx)
}
