package dns_test

import (
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/dns"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// The lines between the markers stand in docs/discovery.md.

func fromAddresses() *dns.Discoverer {
	// DOCS begin
	d := &dns.Discoverer{Name: "vllm.default.svc.cluster.local.", Port: 8000}
	// DOCS end
	return d
}

func fromServices() *dns.Discoverer {
	// DOCS begin
	d := &dns.Discoverer{Name: "_llm._tcp.example.com", SRV: true}
	// DOCS end
	return d
}

// TestDocument: the page holds this code, and it finds a worker that gets ready.
func TestDocument(t *testing.T) {
	source, err := os.ReadFile("docs_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/discovery.md")
	require.NoError(t, err)
	pieces := strings.Split(string(source), "\t// DOCS "+"begin\n")[1:]
	require.Len(t, pieces, 2)
	for _, piece := range pieces {
		code, _, _ := strings.Cut(piece, "\t// DOCS "+"end\n")
		require.Contains(t, string(page), "```go\n"+strings.TrimPrefix(code, "\t")+"```")
	}

	engine := fleettest.New(t, fleettest.Config{Name: "gpu-0", Model: "demo-27b", Speed: 100})
	u, err := url.Parse(engine.URL())
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(u.Host)
	require.NoError(t, err)
	number, err := strconv.ParseUint(port, 10, 16)
	require.NoError(t, err)
	s := newServer(t)
	s.put("vllm.default.svc.cluster.local.", address(host, 5))
	s.put("_llm._tcp.example.com.", srv("vllm.default.svc.cluster.local.", uint16(number), 0, 0, 5))
	for _, d := range []*dns.Discoverer{fromAddresses(), fromServices()} {
		d.Servers = []string{s.addr}
		if !d.SRV {
			d.Port = int(number)
		}
		workers, err := fleet.New(fleet.Options{Discoverer: d})
		require.NoError(t, err)
		require.NoError(t, workers.WaitReady(t.Context()))
		require.NoError(t, workers.Close())
	}
}
