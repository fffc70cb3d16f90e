package dns_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/dns"
)

// addrs are the addresses of a lookup.
func addrs(t *testing.T, d *dns.Discoverer) []string {
	t.Helper()
	records, _, err := d.Lookup(t.Context())
	require.NoError(t, err)
	out := []string{}
	for _, r := range records {
		out = append(out, r.Addr.String())
	}
	return out
}

// TestPause: the records' time to live, from the shortest on the way, within
// bounds.
func TestPause(t *testing.T) {
	soa := &record{60, &dnsmessage.SOAResource{NS: dnsmessage.MustNewName("ns.test."), MBox: dnsmessage.MustNewName("x.test."), MinTTL: 40}}
	cases := map[string]struct {
		zone map[string][]record
		soa  *record
		want time.Duration
	}{
		"the record's":            {zone: map[string][]record{"workers.test.": {address("10.0.0.1", 30)}}, want: 30 * time.Second},
		"the shortest":            {zone: map[string][]record{"workers.test.": {address("10.0.0.1", 30), address("10.0.0.2", 20)}}, want: 20 * time.Second},
		"the CNAME's":             {zone: map[string][]record{"workers.test.": {cname("a.test.", 25)}, "a.test.": {address("10.0.0.1", 30)}}, want: 25 * time.Second},
		"not less than the floor": {zone: map[string][]record{"workers.test.": {address("10.0.0.1", 1)}}, want: 5 * time.Second},
		"not more than the top":   {zone: map[string][]record{"workers.test.": {address("10.0.0.1", 86400)}}, want: 5 * time.Minute},
		"beyond the range":        {zone: map[string][]record{"workers.test.": {address("10.0.0.1", 1<<31)}}, want: 5 * time.Second},
		"empty":                   {zone: map[string][]record{"workers.test.": {}}, want: 5 * time.Second},
		"empty, with SOA":         {zone: map[string][]record{"workers.test.": {}}, soa: soa, want: 40 * time.Second},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.mu.Lock()
			s.zone, s.soa = c.zone, c.soa
			s.mu.Unlock()
			d := s.discoverer()
			d.MinInterval = 0
			_, pause, err := d.Lookup(t.Context())
			require.NoError(t, err)
			assert.Equal(t, c.want, pause)
		})
	}
}

func TestFamilies(t *testing.T) {
	both := addressesOf("10.0.0.1", "2001:db8::7")
	six := addressesOf("2001:db8::7", "2001:db8::8")
	for _, c := range []struct {
		records []record
		family  dns.Family
		want    []string
	}{
		{both, dns.FamilyAuto, []string{"10.0.0.1:8000"}},
		{both, dns.FamilyIPv4, []string{"10.0.0.1:8000"}},
		{both, dns.FamilyIPv6, []string{"[2001:db8::7]:8000"}},
		{both, dns.FamilyBoth, []string{"10.0.0.1:8000", "[2001:db8::7]:8000"}},
		{six, dns.FamilyAuto, []string{"[2001:db8::7]:8000", "[2001:db8::8]:8000"}},
		{six, dns.FamilyIPv4, []string{}},
	} {
		s := newServer(t)
		s.put("workers.test.", c.records...)
		d := s.discoverer()
		d.Family = c.family
		assert.ElementsMatch(t, c.want, addrs(t, d))
	}
}

// TestOneFamilyFails: what is missing because a question failed is not gone.
func TestOneFamilyFails(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", addressesOf("10.0.0.1", "2001:db8::7")...)
	s.fail(func(q *question, good []byte) [][]byte {
		if q.Type == dnsmessage.TypeAAAA {
			return rcode(2)(q, good)
		}
		return [][]byte{good}
	})
	d := s.discoverer()
	d.Family = dns.FamilyBoth
	_, _, err := d.Lookup(t.Context())
	var re *dns.RCodeError
	require.ErrorAs(t, err, &re)
	assert.Equal(t, 2, re.Code)
}

func TestAliases(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", cname("a.test.", 0))
	s.put("a.test.", cname("B.test.", 0))
	s.put("b.test.", addressesOf("10.0.0.1")...)
	d := s.discoverer()
	assert.Equal(t, []string{"10.0.0.1:8000"}, addrs(t, d), "a chain in one answer; case doesn't matter")

	s.put("a.test.", cname("workers.test.", 0))
	_, _, err := d.Lookup(t.Context())
	require.ErrorContains(t, err, "a circle")

	// A server that gives each CNAME alone is asked on.
	s.put("a.test.", cname("b.test.", 0))
	s.fail(func(_ *question, good []byte) [][]byte {
		var m dnsmessage.Message
		if m.Unpack(good) == nil && len(m.Answers) > 1 {
			m.Answers = m.Answers[:1]
			good, _ = m.Pack()
		}
		return [][]byte{good}
	})
	assert.Equal(t, []string{"10.0.0.1:8000"}, addrs(t, d))

	s.fail(nil)
	s.drop("b.test.")
	s.put("workers.test.", cname("b.test.", 0))
	_, _, err = d.Lookup(t.Context())
	require.ErrorIs(t, err, dns.ErrNoName, "an alias of what doesn't exist")
}

// TestTruncated: 200 addresses need TCP, and without it the answer is none.
func TestTruncated(t *testing.T) {
	s := newServer(t)
	var texts []string
	for i := range 200 {
		texts = append(texts, fmt.Sprintf("10.0.1.%d", i))
	}
	s.put("workers.test.", addressesOf(texts...)...)
	d := s.discoverer()
	assert.Len(t, addrs(t, d), 200)
	s.mu.Lock()
	assert.False(t, s.asked[0].tcp)
	assert.True(t, s.asked[1].tcp)
	s.mu.Unlock()

	require.NoError(t, s.tcp.Close())
	_, _, err := d.Lookup(t.Context())
	require.ErrorContains(t, err, "its answer needs TCP")
}

// TestWithoutEDNS: a server that refuses to understand the extension is asked
// without.
func TestWithoutEDNS(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", addressesOf("10.0.0.1")...)
	s.fail(func(q *question, good []byte) [][]byte {
		if q.edns {
			return rcode(1)(q, good)
		}
		return [][]byte{good}
	})
	assert.Equal(t, []string{"10.0.0.1:8000"}, addrs(t, s.discoverer()))
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.True(t, s.asked[0].edns)
}

// TestForgeries: answers that come before the right one, and records that come
// with it, are worth nothing.
func TestForgeries(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", addressesOf("10.0.0.1")...)
	forge := faults()
	s.fail(func(q *question, good []byte) [][]byte {
		var m dnsmessage.Message
		if err := m.Unpack(good); err != nil {
			panic(err)
		}
		evil := resource("evil.test.", address("10.66.6.6", 3600))
		m.Answers = append([]dnsmessage.Resource{evil}, m.Answers...)
		m.Additionals = []dnsmessage.Resource{resource("workers.test.", address("10.66.6.7", 3600))}
		mixed, err := m.Pack()
		if err != nil {
			panic(err)
		}
		m.Answers = []dnsmessage.Resource{resource("workers.test.", address("10.66.6.8", 3600))}
		forged, err := m.Pack()
		if err != nil {
			panic(err)
		}
		var out [][]byte
		for _, kind := range []string{"wrong id", "garbage", "echoes the query", "another name", "another type"} {
			out = append(out, forge[kind](q, forged)...)
		}
		return append(out, mixed)
	})
	assert.Equal(t, []string{"10.0.0.1:8000"}, addrs(t, s.discoverer()))
}

func TestServers(t *testing.T) {
	s, silent := newServer(t), newServer(t)
	s.put("workers.test.", addressesOf("10.0.0.1")...)
	silent.fail(faults()["stalls"])
	d := s.discoverer()
	d.Servers = []string{silent.addr, s.addr}
	// The first never answers; the second does within a time that a busy machine needs.
	lookup := func(answers func(error) bool) ([]dns.Record, error) {
		for d.Timeout = 500 * time.Millisecond; ; d.Timeout *= 2 {
			records, _, err := d.Lookup(t.Context())
			if answers(err) || d.Timeout > 30*time.Second {
				return records, err
			}
		}
	}
	records, err := lookup(func(err error) bool { return err == nil })
	require.NoError(t, err)
	assert.Len(t, records, 1, "the second answers when the first doesn't")

	s.fail(rcode(2))
	_, err = lookup(func(err error) bool { return err == nil || strings.Contains(err.Error(), "SERVFAIL") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "dns: workers.test: server "+silent.addr+": no answer within "+d.Timeout.String())
	require.ErrorContains(t, err, "server "+s.addr+": SERVFAIL")
}

func TestServiceRecords(t *testing.T) {
	s := newServer(t)
	s.put("a.test.", addressesOf("10.0.0.1")...)
	s.put("b.test.", addressesOf("10.0.0.2", "10.0.0.3")...)
	d := s.discoverer()
	d.SRV, d.Port = true, 0
	list := func() []string { return addrs(t, d) }

	s.put("workers.test.", srv("a.test.", 8001, 10, 1, 0), srv("B.test.", 8002, 10, 0, 0), srv("a.test.", 8003, 10, 0, 0),
		srv("b.test.", 9000, 20, 0, 0))
	assert.ElementsMatch(t, []string{"10.0.0.1:8001", "10.0.0.1:8003", "10.0.0.2:8002", "10.0.0.3:8002"}, list(),
		"each address and port is a worker, of the lowest priority only")
	d.AllPriorities = true
	assert.Len(t, list(), 6)
	records, _, err := d.Lookup(t.Context())
	require.NoError(t, err)
	assert.Equal(t, dns.Record{Addr: netip.MustParseAddrPort("10.0.0.1:8001"), Target: "a.test", Priority: 10, Weight: 1}, records[0])

	s.put("workers.test.", srv("a.test.", 8001, 0, 0, 0), srv("gone.test.", 8001, 0, 0, 0))
	assert.Equal(t, []string{"10.0.0.1:8001"}, list(), "a target that does not exist is no worker")
	s.put("workers.test.", srv(".", 0, 0, 0, 0))
	assert.Empty(t, list(), "the dot says that there is no such service")
	s.put("workers.test.", srv("a.test.", 0, 0, 0, 0))
	_, _, err = d.Lookup(t.Context())
	require.ErrorContains(t, err, "the SRV record of a.test has port 0; correct the record")

	s.put("workers.test.", srv("a.test.", 8001, 0, 0, 0), srv("b.test.", 8001, 0, 0, 0))
	s.fail(func(q *question, good []byte) [][]byte {
		if q.name() == "b.test." {
			return rcode(2)(q, good)
		}
		return [][]byte{good}
	})
	_, _, err = d.Lookup(t.Context())
	require.ErrorContains(t, err, "target b.test: ", "a target that can't be looked up is not gone")
}

func TestSearchList(t *testing.T) {
	const conf = "# comment\nnameserver 10.0.0.2\nnameserver fe80::1%eth0 ; x\nnameserver nonsense\nnameserver\n" +
		"domain ignored.test\nsearch ns.svc.test Svc.test.\noptions timeout:1 ndots:2\n"
	names, servers := dns.Candidates(conf, "vllm.ns")
	assert.Equal(t, []string{"vllm.ns.ns.svc.test", "vllm.ns.svc.test", "vllm.ns"}, names)
	assert.Equal(t, []string{"10.0.0.2:53", "[fe80::1%eth0]:53"}, servers)
	names, _ = dns.Candidates(conf, "vllm.ns.svc")
	assert.Equal(t, []string{"vllm.ns.svc", "vllm.ns.svc.ns.svc.test", "vllm.ns.svc.svc.test"}, names)
	names, _ = dns.Candidates(conf, "vllm.")
	assert.Equal(t, []string{"vllm"}, names)
	names, _ = dns.Candidates("", "vllm")
	assert.Equal(t, []string{"vllm"}, names)
	names, _ = dns.Candidates("options ndots:x ndots:-1 ndots:99\nsearch bad..name", "a.b")
	assert.Equal(t, []string{"a.b"}, names)
}

// scene is a Fleet on a Discoverer whose time the test tells.
type scene struct {
	*fleet.Fleet

	mu  sync.Mutex
	now time.Time
}

func newScene(t *testing.T, d *dns.Discoverer) *scene {
	t.Helper()
	c := &scene{now: time.Unix(1_000_000, 0)}
	d.Now = func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.now
	}
	f, err := fleet.New(fleet.Options{Discoverer: d})
	require.NoError(t, err)
	c.Fleet = f
	t.Cleanup(func() { assert.NoError(t, f.Close()) })
	return c
}

func (c *scene) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func (c *scene) wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, 30*time.Second, time.Millisecond, what)
}

func (c *scene) members() int { return len(c.Snapshot().Members()) }

// TestNoSuchName: at the start it is a mistake, later it is that all have left.
func TestNoSuchName(t *testing.T) {
	s := newServer(t)
	c := newScene(t, s.discoverer())
	c.wait(t, "told", func() bool { return c.Err() != nil })
	require.ErrorIs(t, c.Err(), dns.ErrNoName)
	require.ErrorContains(t, c.Err(), `no such name: "workers.test"; check the name`)
	s.put("workers.test.", addressesOf("10.0.0.1")...)
	c.wait(t, "there", func() bool { return c.members() == 1 })
	require.NoError(t, c.Err())
	s.drop("workers.test.")
	c.wait(t, "gone", func() bool { return c.members() == 0 })
	require.NoError(t, c.Err())
}

// TestAddressReturns: whoever comes back at an address is somebody else.
func TestAddressReturns(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", addressesOf("127.0.0.1")...)
	d := s.discoverer()
	d.Port = 1
	c := newScene(t, d)
	c.wait(t, "there", func() bool { return c.members() == 1 })
	first := c.Snapshot().Members()[0]
	assert.Equal(t, "127.0.0.1:1", first.Name())
	s.put("workers.test.")
	c.wait(t, "gone", func() bool { return c.members() == 0 })
	s.put("workers.test.", addressesOf("127.0.0.1")...)
	c.wait(t, "back", func() bool { return c.members() == 1 })
	assert.NotEqual(t, first.ID(), c.Snapshot().Members()[0].ID())
}

// TestMaxStale: without it workers stay, with it they leave after that long.
func TestMaxStale(t *testing.T) {
	for _, most := range []time.Duration{0, time.Hour} {
		s := newServer(t)
		s.put("workers.test.", addressesOf("10.0.0.1")...)
		d := s.discoverer()
		d.MaxStale = most
		c := newScene(t, d)
		c.wait(t, "there", func() bool { return c.members() == 1 })
		s.fail(rcode(2))
		c.wait(t, "told", func() bool { return c.Err() != nil })
		require.ErrorContains(t, c.Err(), "the last list stays in force: dns: workers.test: server "+s.addr+": SERVFAIL")
		assert.Equal(t, 1, c.members())
		c.pass(2 * time.Hour)
		before := len(s.questions())
		c.wait(t, "asked again, twice", func() bool { return len(s.questions()) >= before+4 })
		if most == 0 {
			assert.Equal(t, 1, c.members())
			continue
		}
		c.wait(t, "gone", func() bool { return c.members() == 0 })
		c.wait(t, "told why", func() bool { err := c.Err(); return err != nil && strings.Contains(err.Error(), "more than MaxStale") })
		s.fail(nil)
		c.wait(t, "back", func() bool { return c.members() == 1 && c.Err() == nil })
	}
}

func TestWorker(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", srv("a.test.", 8443, 0, 0, 0))
	s.put("a.test.", addressesOf("10.0.0.1")...)
	d := s.discoverer()
	d.SRV, d.Port, d.HTTPS = true, 0, true
	d.Worker = func(r dns.Record, w fleet.Worker) fleet.Worker {
		assert.Equal(t, "https://10.0.0.1:8443", w.URL)
		w.URL = "https://" + net.JoinHostPort(r.Target, strconv.Itoa(int(r.Addr.Port())))
		return w
	}
	c := newScene(t, d)
	c.wait(t, "there", func() bool { return c.members() == 1 })
	assert.Equal(t, "https://a.test:8443", c.Snapshot().Members()[0].Worker().URL)
}

func TestOneFleetEach(t *testing.T) {
	s := newServer(t)
	s.put("workers.test.", addressesOf("10.0.0.1")...)
	d := s.discoverer()
	c := newScene(t, d)
	c.wait(t, "there", func() bool { return c.members() == 1 })
	require.ErrorIs(t, d.Discover(t.Context(), nil), dns.ErrInUse)
}

func TestNewRefusesMisuse(t *testing.T) {
	for _, d := range []*dns.Discoverer{
		{},
		{Name: "a.test"},
		{Name: "a.test", Port: 65536},
		{Name: "a.test", Port: 1, SRV: true},
		{Name: "a..test", Port: 1},
		{Name: "ä.test", Port: 1},
		{Name: "a b", Port: 1},
		{Name: ".", Port: 1},
		{Name: "a.test", Port: 1, Family: 4},
		{Name: "a.test", Port: 1, Servers: []string{"ns.test"}},
		{Name: "a.test", Port: 1, Servers: []string{"10.0.0.2:0"}},
		{Name: "a.test", Port: 1, MinInterval: -1},
		{Name: "a.test", Port: 1, MinInterval: time.Hour},
		{Name: "a.test", Port: 1, Hold: -1},
	} {
		_, err := fleet.New(fleet.Options{Discoverer: d})
		require.ErrorContains(t, err, "dns: ", "%+v", d)
	}
	for _, server := range []string{"10.0.0.2", "10.0.0.2:5353", "2001:db8::2", "[2001:db8::2]", "[2001:db8::2]:53"} {
		require.NoError(t, (&dns.Discoverer{Name: "a.test", Port: 1, Servers: []string{server}}).Validate(), server)
	}
}
