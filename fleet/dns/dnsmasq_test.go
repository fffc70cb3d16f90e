package dns_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/dns"
)

// dnsmasq is a real name server.
type dnsmasq struct {
	t    *testing.T
	path string
	addr string
	conf string
	stop func()
}

func newDnsmasq(t *testing.T) *dnsmasq {
	t.Helper()
	path, err := exec.LookPath("dnsmasq")
	if err != nil {
		path = "/usr/sbin/dnsmasq" // where Debian has it, which is not in every PATH
		if _, err = os.Stat(path); err != nil {
			t.Skip("no dnsmasq here; apt-get install dnsmasq-base")
		}
	}
	d := &dnsmasq{t: t, path: path, addr: freePort(t), conf: filepath.Join(t.TempDir(), "conf"), stop: func() {}}
	t.Cleanup(func() { d.stop() })
	return d
}

// freePort is an address whose port is free now, for UDP and for TCP; nobody else
// asks for it soon.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		l, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := l.LocalAddr().String()
		tcp, taken := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
		require.NoError(t, l.Close())
		if taken == nil {
			require.NoError(t, tcp.Close())
			return addr
		}
	}
}

// serve starts it anew with these lines of configuration.
func (d *dnsmasq) serve(lines ...string) {
	d.t.Helper()
	d.stop()
	_, port, err := net.SplitHostPort(d.addr)
	require.NoError(d.t, err)
	require.NoError(d.t, os.WriteFile(d.conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	// Until it answers something; the caller's first list is then the right one. One
	// whose port somebody else has for a moment ends, and is started again.
	probe := &dns.Discoverer{Name: "up.test", Port: 1, Servers: []string{d.addr}}
	var out bytes.Buffer
	var ended chan struct{}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if ended == nil {
			out.Reset()
			ended = d.start(port, &out)
		}
		if records, _, err := probe.Lookup(d.t.Context()); err == nil && len(records) == 1 {
			return
		}
		select {
		case <-ended:
			ended = nil
			require.True(d.t, time.Now().Before(deadline), "dnsmasq ends: %s", &out)
		default:
			require.True(d.t, time.Now().Before(deadline), "dnsmasq does not answer")
		}
	}
}

// start runs it until stop, and closes ended after its end.
func (d *dnsmasq) start(port string, out *bytes.Buffer) (ended chan struct{}) {
	d.t.Helper()
	cmd := exec.CommandContext(context.Background(), d.path, "--keep-in-foreground", "--conf-file="+d.conf, "--port="+port,
		"--listen-address=127.0.0.1", "--bind-interfaces", "--no-resolv", "--no-hosts", "--pid-file", "--user=",
		"--local=/test/", "--local-ttl=1", "--log-facility=-")
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(d.t, cmd.Start())
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	d.stop = func() {
		_ = cmd.Process.Kill()
		<-ended
		d.stop = func() {}
	}
	return ended
}

const up = "host-record=up.test,10.9.9.9"

// TestDnsmasq follows a real server through a fleet's life: addresses, many of
// them over TCP, SRV records, aliases, no such name, an outage.
func TestDnsmasq(t *testing.T) {
	s := newDnsmasq(t)
	follow := func(t *testing.T, d *dns.Discoverer) *fleet.Fleet {
		t.Helper()
		d.Servers, d.MinInterval = []string{s.addr}, 20*time.Millisecond
		f, err := fleet.New(fleet.Options{Discoverer: d})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, f.Close()) })
		return f
	}
	names := func(f *fleet.Fleet) string {
		var out []string
		for _, m := range f.Snapshot().Members() {
			out = append(out, m.Name())
		}
		return strings.Join(out, " ")
	}
	becomes := func(t *testing.T, f *fleet.Fleet, want string) {
		t.Helper()
		require.Eventually(t, func() bool { return names(f) == want && f.Err() == nil }, 30*time.Second, 5*time.Millisecond,
			"members should become %q", want)
	}

	t.Run("addresses", func(t *testing.T) {
		s.serve(up, "host-record=llm.test,127.0.0.1", "cname=alias.test,llm.test")
		f := follow(t, &dns.Discoverer{Name: "alias.test", Port: 1})
		becomes(t, f, "127.0.0.1:1")
		s.stop()
		require.Eventually(t, func() bool { return f.Err() != nil }, 30*time.Second, 5*time.Millisecond, "the outage is told")
		assert.NotEmpty(t, names(f), "and removes nobody")
		s.serve(up, "host-record=llm.test,127.0.0.3", "cname=alias.test,llm.test")
		becomes(t, f, "127.0.0.3:1")
		s.serve(up)
		becomes(t, f, "")
	})
	t.Run("IPv6", func(t *testing.T) {
		s.serve(up, "host-record=llm.test,::1")
		becomes(t, follow(t, &dns.Discoverer{Name: "llm.test", Port: 1}), "[::1]:1")
	})
	t.Run("many", func(t *testing.T) {
		lines := []string{up}
		for i := range 200 {
			lines = append(lines, fmt.Sprintf("address=/llm.test/127.1.0.%d", 1+i))
		}
		s.serve(lines...)
		f := follow(t, &dns.Discoverer{Name: "llm.test", Port: 1})
		require.Eventually(t, func() bool { return len(f.Snapshot().Members()) == 200 }, 30*time.Second, 5*time.Millisecond)
	})
	t.Run("services", func(t *testing.T) {
		s.serve(up, "host-record=a.test,127.0.0.1", "host-record=b.test,127.0.0.2",
			"srv-host=_llm._tcp.test,a.test,1,10,5", "srv-host=_llm._tcp.test,b.test,2,10,5", "srv-host=_llm._tcp.test,b.test,3,20,5")
		f := follow(t, &dns.Discoverer{Name: "_llm._tcp.test", SRV: true})
		becomes(t, f, "127.0.0.1:1 127.0.0.2:2")
		assert.Equal(t, map[string]string{"dns-target": "b.test", "dns-priority": strconv.Itoa(10), "dns-weight": "5"},
			f.Snapshot().Member("127.0.0.2:2").Worker().Labels)
	})
	t.Run("no such name", func(t *testing.T) {
		s.serve(up)
		f := follow(t, &dns.Discoverer{Name: "mistyped.test", Port: 1})
		require.Eventually(t, func() bool { return f.Err() != nil }, 30*time.Second, 5*time.Millisecond)
		require.ErrorIs(t, f.Err(), dns.ErrNoName)
	})
}
