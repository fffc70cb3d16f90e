package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// value is an address or an SRV record, with its owner's TTL.
type value struct {
	addr             netip.Addr
	target           name
	port             uint16
	priority, weight uint16
	ttl              time.Duration
}

type alias struct {
	to  name
	ttl time.Duration
}

// message is an answer to a question, as far as it matters here.
type message struct {
	header  dnsmessage.Header
	values  map[name][]value
	aliases map[name]alias
	soa     bool
	ns      bool
	// negative is how long nothing may be remembered.
	negative time.Duration
}

// errForeign: a message that answers another question, or none. Over UDP it may
// come from anyone.
var errForeign = errors.New("an answer to another question")

// parse reads a message, which must be the answer to the question.
func parse(data []byte, id uint16, n name, t dnsmessage.Type) (*message, error) {
	var p dnsmessage.Parser
	h, err := p.Start(data)
	if err != nil || h.ID != id || !h.Response {
		return nil, errForeign
	}
	questions, err := p.AllQuestions()
	if err != nil || len(questions) != 1 {
		return nil, errForeign
	}
	if q := questions[0]; q.Type != t || q.Class != dnsmessage.ClassINET || wireName(q.Name) != n {
		return nil, errForeign
	}
	m := &message{header: h, values: map[name][]value{}, aliases: map[name]alias{}}
	if h.Truncated {
		return m, nil // asked again over TCP
	}
	if err := m.answers(&p, t); err != nil {
		return nil, fmt.Errorf("the answer can't be read: %w", err)
	}
	if err := m.authorities(&p); err != nil {
		return nil, fmt.Errorf("the answer can't be read: %w", err)
	}
	// What else the server adds is not asked for, and not believed.
	return m, nil
}

func seconds(ttl uint32) time.Duration {
	const top = 1 << 31
	if ttl >= top { // RFC 2181: as if it were 0
		return 0
	}
	return time.Duration(ttl) * time.Second
}

func (m *message) answers(p *dnsmessage.Parser, t dnsmessage.Type) error {
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return nil
		}
		if err != nil {
			return err
		}
		wanted := h.Class == dnsmessage.ClassINET && (h.Type == t || h.Type == dnsmessage.TypeCNAME)
		if !wanted {
			if err := p.SkipAnswer(); err != nil {
				return err
			}
			continue
		}
		if err := m.answer(p, h); err != nil {
			return err
		}
	}
}

func (m *message) answer(p *dnsmessage.Parser, h dnsmessage.ResourceHeader) error {
	owner := wireName(h.Name)
	v := value{ttl: seconds(h.TTL)}
	switch h.Type {
	case dnsmessage.TypeA:
		r, err := p.AResource()
		if err != nil {
			return err
		}
		v.addr = netip.AddrFrom4(r.A)
	case dnsmessage.TypeAAAA:
		r, err := p.AAAAResource()
		if err != nil {
			return err
		}
		v.addr = netip.AddrFrom16(r.AAAA).Unmap()
	case dnsmessage.TypeSRV:
		r, err := p.SRVResource()
		if err != nil {
			return err
		}
		v.target, v.port, v.priority, v.weight = wireName(r.Target), r.Port, r.Priority, r.Weight
	default: // a CNAME
		r, err := p.CNAMEResource()
		if err == nil {
			m.aliases[owner] = alias{wireName(r.CNAME), v.ttl}
		}
		return err
	}
	m.values[owner] = append(m.values[owner], v)
	return nil
}

func (m *message) authorities(p *dnsmessage.Parser) error {
	for {
		h, err := p.AuthorityHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return nil
		}
		if err != nil {
			return err
		}
		switch h.Type {
		case dnsmessage.TypeSOA:
			r, err := p.SOAResource()
			if err != nil {
				return err
			}
			m.soa, m.negative = true, min(seconds(h.TTL), seconds(r.MinTTL))
			continue
		case dnsmessage.TypeNS:
			m.ns = true
		default:
		}
		if err := p.SkipAuthority(); err != nil {
			return err
		}
	}
}

// follow walks from the name along its aliases, as far as the message goes. Records
// of other names than those on the way are not looked at.
func (m *message) follow(n name) (values []value, end name, ttl time.Duration, err error) {
	ttl = forever
	for range maxChain {
		if values = m.values[n]; len(values) > 0 {
			for _, v := range values {
				ttl = min(ttl, v.ttl)
			}
			return values, n, ttl, nil
		}
		next, ok := m.aliases[n]
		if !ok {
			return nil, n, ttl, nil
		}
		n, ttl = next.to, min(ttl, next.ttl)
	}
	return nil, n, ttl, errChain
}
