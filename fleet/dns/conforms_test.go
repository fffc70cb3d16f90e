package dns_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// hostOf is the address of a worker's URL.
func hostOf(w *fleet.Worker) string {
	return netip.MustParseAddrPort(strings.TrimPrefix(w.URL, "http://")).Addr().String()
}

func targetOf(ip string) string { return "h-" + strings.ReplaceAll(ip, ".", "-") + ".workers.test" }

// want is what the DNS can say of workers: their addresses, once.
func want(srv bool) func([]fleet.Worker) []fleet.Worker {
	return func(workers []fleet.Worker) []fleet.Worker {
		seen := map[string]bool{}
		out := []fleet.Worker{}
		for i := range workers {
			if seen[workers[i].URL] {
				continue
			}
			seen[workers[i].URL] = true
			w := fleet.Worker{Name: strings.TrimPrefix(workers[i].URL, "http://"), URL: workers[i].URL}
			if srv {
				w.Labels = map[string]string{
					"dns-target": targetOf(hostOf(&w)), "dns-priority": "10", "dns-weight": "5",
				}
			}
			out = append(out, w)
		}
		return out
	}
}

// lister makes the zone list workers.
func (s *server) lister(asSRV bool) func([]fleet.Worker) error {
	return func(workers []fleet.Worker) error {
		records := []record{}
		hosts := map[string][]record{}
		for i := range workers {
			if workers[i].Validate() != nil {
				return errors.ErrUnsupported
			}
			ip := hostOf(&workers[i])
			if asSRV {
				hosts[targetOf(ip)+"."] = []record{address(ip, 0)}
				records = append(records, srv(targetOf(ip)+".", 8000, 10, 5, 0))
			} else {
				records = append(records, address(ip, 0))
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.zone = hosts
		s.zone["workers.test."] = records
		return nil
	}
}

func conform(t *testing.T, asSRV bool) {
	t.Helper()
	fleettest.TestDiscoverer(t, fleettest.DiscovererHarness{
		Want: want(asSRV),
		New: func(t *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
			t.Helper()
			s := newServer(t)
			set := s.lister(asSRV)
			require.NoError(t, set(workers))
			turns := map[string]fleettest.DiscovererFault{}
			for name, fault := range faults() {
				turns[name] = fleettest.DiscovererFault{Turn: func(on bool) error {
					if s.fail(nil); on {
						s.fail(fault)
					}
					return nil
				}}
			}
			d := s.discoverer()
			if strings.Contains(t.Name(), "outage") { // many of them, and some never answer
				d.Timeout = 200 * time.Millisecond
			}
			if asSRV {
				d.SRV, d.Port = true, 0
			}
			return fleettest.DiscovererSource{Discoverer: d, Set: set, Faults: turns}
		},
	})
}

func TestAddressesConform(t *testing.T) { conform(t, false) }
func TestServicesConform(t *testing.T)  { conform(t, true) }
