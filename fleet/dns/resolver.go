package dns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// maxChain bounds the CNAMEs from a name to its records.
	maxChain = 8
	// rounds is how often each server is asked.
	rounds = 2
)

var errChain = fmt.Errorf("more than %d CNAMEs in a row, or a circle of them; correct the records", maxChain)

// resolver asks servers.
type resolver struct {
	servers []string
	search  []name
	ndots   int
	timeout time.Duration
}

// found is what a name has of one type of records.
type found struct {
	values []value
	ttl    time.Duration
	exists bool
}

// resolve asks for the records of a name, over CNAMEs.
func (r *resolver) resolve(ctx context.Context, n name, t dnsmessage.Type) (found, error) {
	ttl := forever
	for range maxChain {
		m, err := r.exchange(ctx, n, t)
		if err != nil {
			return found{}, err
		}
		values, end, held, err := m.follow(n)
		if err != nil {
			return found{}, err
		}
		ttl = min(ttl, held)
		switch {
		case len(values) > 0:
			return found{values, ttl, true}, nil
		case m.header.RCode == dnsmessage.RCodeNameError:
			return found{nil, min(ttl, m.negative), false}, nil
		case end == n && len(m.values)+len(m.aliases) > 0:
			// To take this for an empty answer would remove everybody.
			return found{}, errors.New("it answers with records of other names; look into the server's log")
		case end == n || m.soa:
			return found{nil, min(ttl, m.negative), true}, nil
		}
		n = end // the server gave the CNAME alone
	}
	return found{}, errChain
}

// exchange asks the servers in turn until one answers.
func (r *resolver) exchange(ctx context.Context, n name, t dnsmessage.Type) (*message, error) {
	errs := make([]error, len(r.servers))
	for range rounds {
		for i, server := range r.servers {
			m, err := r.ask(ctx, server, n, t)
			if err == nil {
				return m, nil
			}
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			errs[i] = fmt.Errorf("server %s: %w", server, err)
		}
	}
	return nil, errors.Join(errs...)
}

// ask asks one server, in the way that it understands.
func (r *resolver) ask(ctx context.Context, server string, n name, t dnsmessage.Type) (*message, error) {
	m, err := r.udp(ctx, server, n, t, true)
	if err == nil && (m.header.RCode == dnsmessage.RCodeFormatError || m.header.RCode == dnsmessage.RCodeNotImplemented) {
		m, err = r.udp(ctx, server, n, t, false) // perhaps it is EDNS that it doesn't know
	}
	if err == nil && m.header.Truncated {
		m, err = r.tcp(ctx, server, n, t)
	}
	if err != nil {
		return nil, err
	}
	switch m.header.RCode {
	case dnsmessage.RCodeSuccess, dnsmessage.RCodeNameError:
	default:
		return nil, &RCodeError{Code: int(m.header.RCode)}
	}
	if m.header.RCode == dnsmessage.RCodeSuccess && len(m.values)+len(m.aliases) == 0 && m.ns && !m.soa && !m.header.Authoritative {
		return nil, errors.New("it refers to other servers; give one that resolves names itself")
	}
	return m, nil
}

// RCodeError is a server's refusal to answer. Seen by operators in Fleet.Err.
type RCodeError struct {
	// Code is the RCODE of the answer, for example 2 for SERVFAIL.
	Code int
}

// Error names the code.
func (e *RCodeError) Error() string {
	names := map[dnsmessage.RCode]string{
		dnsmessage.RCodeFormatError:    "FORMERR: it does not understand the query",
		dnsmessage.RCodeServerFailure:  "SERVFAIL: it could not find out; look into the server's log",
		dnsmessage.RCodeNotImplemented: "NOTIMP: it does not know the kind of query",
		dnsmessage.RCodeRefused:        "REFUSED: it does not answer us; check its access list",
	}
	if text, ok := names[dnsmessage.RCode(e.Code)]; ok {
		return text
	}
	return fmt.Sprintf("RCODE %d", e.Code)
}
