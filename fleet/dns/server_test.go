package dns_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/kvsteer/kvsteer/fleet/dns"
)

// question is what the fake server is asked.
type question struct {
	dnsmessage.Header
	dnsmessage.Question

	edns, tcp bool
}

func (q *question) name() string { return strings.ToLower(q.Name.String()) }

// record is an entry of the fake server's zone.
type record struct {
	ttl  uint32
	body dnsmessage.ResourceBody
}

// server is a name server that does what it is told, wrong or right.
type server struct {
	addr string
	udp  net.PacketConn
	tcp  net.Listener
	wg   sync.WaitGroup

	mu    sync.Mutex
	zone  map[string][]record // by name
	soa   *record             // in negative answers
	fault func(q *question, good []byte) (replies [][]byte)
	asked []question
	conns map[net.Conn]bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{zone: map[string][]record{}, conns: map[net.Conn]bool{}}
	for range 20 { // the port may be taken for UDP
		var err error
		s.tcp, err = new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		s.addr = s.tcp.Addr().String()
		if s.udp, err = new(net.ListenConfig).ListenPacket(t.Context(), "udp", s.addr); err == nil {
			break
		}
		require.NoError(t, s.tcp.Close())
	}
	require.NotNil(t, s.udp, "no port is free for both")
	s.wg.Go(s.serveUDP)
	s.wg.Go(s.serveTCP)
	t.Cleanup(func() {
		_ = s.udp.Close()
		_ = s.tcp.Close()
		s.mu.Lock()
		for c := range s.conns {
			_ = c.Close()
		}
		s.mu.Unlock()
		s.wg.Wait()
	})
	return s
}

// discoverer asks s often.
func (s *server) discoverer() *dns.Discoverer {
	return &dns.Discoverer{
		Name: "workers.test", Port: 8000, Servers: []string{s.addr},
		MinInterval: 5 * time.Millisecond, Timeout: 30 * time.Second,
	}
}

func (s *server) serveUDP() {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := s.udp.ReadFrom(buf)
		if err != nil {
			return
		}
		for _, reply := range s.replies(buf[:n], false) {
			_, _ = s.udp.WriteTo(reply, from)
		}
	}
}

func (s *server) serveTCP() {
	for {
		conn, err := s.tcp.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			defer func() {
				_ = conn.Close()
				s.mu.Lock()
				delete(s.conns, conn)
				s.mu.Unlock()
			}()
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return
			}
			buf := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(conn, buf); err != nil {
				return
			}
			replies := s.replies(buf, true)
			for _, reply := range replies {
				_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
			}
			if len(replies) == 0 {
				_, _ = conn.Read(size[:]) // says nothing until the client leaves
			}
		})
	}
}

func (s *server) replies(msg []byte, tcp bool) [][]byte {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	ask := question{h, q, h.ID != 0 && strings.Contains(string(msg[12:]), "\x00\x00\x29"), tcp}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, ask)
	good := s.answer(&ask)
	if s.fault != nil {
		return s.fault(&ask, good)
	}
	return [][]byte{good}
}

// answer looks into the zone, as a server does that resolves CNAMEs.
func (s *server) answer(q *question) []byte {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.ID, Response: true, RecursionDesired: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q.Question},
	}
	name := q.name()
	for range 20 {
		records, exists := s.zone[name]
		if !exists {
			m.RCode = dnsmessage.RCodeNameError
		}
		next := ""
		for _, r := range records {
			alias, isAlias := r.body.(*dnsmessage.CNAMEResource)
			if isAlias || typeOf(r.body) == q.Type {
				m.Answers = append(m.Answers, resource(name, r))
			}
			if isAlias {
				next = strings.ToLower(alias.CNAME.String())
			}
		}
		if next == "" {
			break
		}
		name = next
	}
	if s.soa != nil && (len(m.Answers) == 0 || m.RCode != 0) {
		m.Authorities = append(m.Authorities, resource("test.", *s.soa))
	}
	return s.pack(m, q)
}

// pack writes m, cut if it is too long for UDP.
func (s *server) pack(m dnsmessage.Message, q *question) []byte {
	out, err := m.Pack()
	if err != nil {
		panic(err)
	}
	if limit := map[bool]int{false: 512, true: 1232}[q.edns]; !q.tcp && len(out) > limit {
		m.Answers, m.Truncated = nil, true
		if out, err = m.Pack(); err != nil {
			panic(err)
		}
	}
	return out
}

func typeOf(body dnsmessage.ResourceBody) dnsmessage.Type {
	switch body.(type) {
	case *dnsmessage.AResource:
		return dnsmessage.TypeA
	case *dnsmessage.AAAAResource:
		return dnsmessage.TypeAAAA
	case *dnsmessage.SRVResource:
		return dnsmessage.TypeSRV
	case *dnsmessage.CNAMEResource:
		return dnsmessage.TypeCNAME
	case *dnsmessage.SOAResource:
		return dnsmessage.TypeSOA
	default:
		return dnsmessage.TypeTXT
	}
}

func resource(name string, r record) dnsmessage.Resource {
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{
			Name: dnsmessage.MustNewName(name), Type: typeOf(r.body), Class: dnsmessage.ClassINET, TTL: r.ttl,
		},
		Body: r.body,
	}
}

// put makes the zone say this of a name. Without records it exists, empty.
func (s *server) put(name string, records ...record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[name] = records
}

func (s *server) drop(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.zone, name)
}

func (s *server) fail(fault func(q *question, good []byte) [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// questions are those asked so far, "name type" each.
func (s *server) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for i := range s.asked {
		out = append(out, s.asked[i].name()+" "+strings.TrimPrefix(s.asked[i].Type.String(), "Type"))
	}
	return out
}

func address(text string, ttl uint32) record {
	ip := netip.MustParseAddr(text)
	if ip.Is4() {
		return record{ttl, &dnsmessage.AResource{A: ip.As4()}}
	}
	return record{ttl, &dnsmessage.AAAAResource{AAAA: ip.As16()}}
}

func addressesOf(texts ...string) []record {
	out := []record{}
	for _, t := range texts {
		out = append(out, address(t, 0))
	}
	return out
}

func cname(to string, ttl uint32) record {
	return record{ttl, &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName(to)}}
}

func srv(target string, port, priority, weight uint16, ttl uint32) record {
	return record{ttl, &dnsmessage.SRVResource{
		Target: dnsmessage.MustNewName(target), Port: port, Priority: priority, Weight: weight,
	}}
}

// patched is a copy of a message with some bytes changed.
func patched(msg []byte, change func([]byte)) []byte {
	out := append([]byte(nil), msg...)
	change(out)
	return out
}

func rcode(code byte) func(*question, []byte) [][]byte {
	return func(_ *question, good []byte) [][]byte {
		// The header and the question alone.
		var m dnsmessage.Message
		if err := m.Unpack(good); err != nil {
			panic(err)
		}
		m.Answers, m.Authorities = nil, nil
		m.RCode = dnsmessage.RCode(code)
		out, err := m.Pack()
		if err != nil {
			panic(err)
		}
		return [][]byte{out}
	}
}

// faults are answers that mean nothing.
func faults() map[string]func(*question, []byte) [][]byte {
	other := func(change func(*dnsmessage.Message)) func(*question, []byte) [][]byte {
		return func(_ *question, good []byte) [][]byte {
			var m dnsmessage.Message
			if err := m.Unpack(good); err != nil {
				panic(err)
			}
			change(&m)
			out, err := m.Pack()
			if err != nil {
				panic(err)
			}
			return [][]byte{out}
		}
	}
	return map[string]func(*question, []byte) [][]byte{
		"SERVFAIL": rcode(2),
		"REFUSED":  rcode(5),
		"FORMERR":  rcode(1),
		"stalls":   func(*question, []byte) [][]byte { return nil },
		"garbage":  func(*question, []byte) [][]byte { return [][]byte{[]byte("what?"), {}, make([]byte, 12)} },
		"wrong id": func(_ *question, good []byte) [][]byte { return [][]byte{patched(good, func(b []byte) { b[1] ^= 1 })} },
		"echoes the query": func(_ *question, good []byte) [][]byte {
			return [][]byte{patched(good, func(b []byte) { b[2] &^= 0x80 })}
		},
		"another name": other(func(m *dnsmessage.Message) {
			m.Questions[0].Name = dnsmessage.MustNewName("another.test.")
			m.Answers = nil
		}),
		"another type": other(func(m *dnsmessage.Message) {
			m.Questions[0].Type = dnsmessage.TypeTXT
			m.Answers = nil
		}),
		"records of another name": other(func(m *dnsmessage.Message) {
			m.RCode = 0
			m.Answers = []dnsmessage.Resource{
				resource("evil.test.", address("10.66.6.6", 3600)), resource("evil.test.", srv("evil.test.", 1, 0, 0, 3600)),
				resource("evil.test.", address("2001:db8::666", 3600)),
			}
		}),
		"cut in a record": func(_ *question, good []byte) [][]byte {
			return [][]byte{patched(good[:len(good)-1], func(b []byte) { b[3] &^= 0x0f; b[7] = 9 })}
		},
		"cut for ever": func(_ *question, good []byte) [][]byte { return [][]byte{patched(good, func(b []byte) { b[2] |= 2 })} },
		"refers to others": other(func(m *dnsmessage.Message) {
			m.RCode, m.Answers = 0, nil
			m.Authorities = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("."), Type: dnsmessage.TypeNS, Class: dnsmessage.ClassINET},
				Body:   &dnsmessage.NSResource{NS: dnsmessage.MustNewName("a.root.test.")},
			}}
		}),
	}
}
