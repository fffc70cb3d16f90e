package discoverer_test

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/examples/discoverer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// instance is an entry of the registry.
type instance struct {
	ID, Address string
	Port        int
	Meta        map[string]string
}

// entry is an instance on its node.
type entry struct {
	Node    struct{ Node, Address string }
	Service instance
}

// registry answers as Consul does: at once if its index is another one than that
// of the query, else when it changes or the query's time is over.
type registry struct {
	mu      sync.Mutex
	list    []entry
	index   int
	changed chan struct{} // closed and replaced
	fault   http.HandlerFunc
}

// change makes a change and wakes the queries that wait for it.
func (g *registry) change(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
	g.index++
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if r.URL.Path != "/v1/health/service/vllm" || err != nil {
		http.Error(w, "no such query", http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	changed, same := g.changed, r.URL.Query().Get("index") == strconv.Itoa(g.index)
	g.mu.Unlock()
	if same {
		select {
		case <-changed:
		case <-time.After(wait):
		case <-r.Context().Done():
			return
		}
	}
	g.mu.Lock()
	fault, list, index := g.fault, g.list, g.index
	g.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	w.Header().Set("X-Consul-Index", strconv.Itoa(index))
	_ = json.NewEncoder(w).Encode(list)
}

const node = "node-a"

// set lists workers of one node, as far as an instance can describe them.
func (g *registry) set(workers []fleet.Worker) error {
	list := []entry{}
	for i := range workers {
		w := &workers[i]
		addr, err := netip.ParseAddrPort(strings.TrimPrefix(w.URL, "http://"))
		if err != nil && w.URL != "" || w.Name == "" { // every instance has an ID
			return errors.ErrUnsupported
		}
		e := entry{Service: instance{ID: w.Name, Port: int(addr.Port()), Meta: map[string]string{"epoch": w.Epoch}}}
		e.Node.Node = node
		switch host := addr.Addr().String(); {
		case w.URL == "":
		case i%2 == 0:
			e.Node.Address, e.Service.Address = "192.0.2.1", host
		default:
			e.Node.Address = host
		}
		maps.Copy(e.Service.Meta, w.Labels)
		list = append(list, e)
	}
	g.change(func() { g.list = list })
	return nil
}

// want is what an instance can say of workers.
func want(workers []fleet.Worker) []fleet.Worker {
	for i := range workers {
		w := &workers[i]
		labels := map[string]string{"epoch": w.Epoch}
		maps.Copy(labels, w.Labels)
		*w = fleet.Worker{Name: node + "/" + w.Name, URL: w.URL, Epoch: w.Epoch, Labels: labels}
	}
	return workers
}

func faults() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"disconnects": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"status 500": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no leader", http.StatusInternalServerError)
		},
		"says null": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Consul-Index", "1")
			_, _ = w.Write([]byte("null"))
		},
		"says nothing of use": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) }, // no index: not Consul
		"says an index of 0": func(w http.ResponseWriter, _ *http.Request) { // with which no query blocks
			w.Header().Set("X-Consul-Index", "0")
			_, _ = w.Write([]byte("[]"))
		},
		"stalls": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
}

func TestConforms(t *testing.T) {
	fleettest.TestDiscoverer(t, fleettest.DiscovererHarness{Want: want, New: func(t *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
		t.Helper()
		g := &registry{changed: make(chan struct{}), index: 7}
		if err := g.set(workers); err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(g)
		t.Cleanup(s.Close)
		turns := map[string]fleettest.DiscovererFault{}
		for name, fault := range faults() {
			turns[name] = fleettest.DiscovererFault{Turn: func(on bool) error {
				g.change(func() {
					if g.fault = nil; on {
						g.fault = fault
					}
				})
				return nil
			}}
		}
		timeout := 30 * time.Second
		if strings.Contains(t.Name(), "outage") { // some of which never answer
			timeout = time.Second
		}
		return fleettest.DiscovererSource{
			Discoverer: &discoverer.Consul{
				URL:    s.URL + "/v1/health/service/vllm?passing=1&wait=200ms",
				Client: &http.Client{Transport: &http.Transport{}, Timeout: timeout},
			},
			Set: g.set, Faults: turns,
		}
	}})
}

// TestSameIDs: an instance's ID says which one it is on its node alone.
func TestSameIDs(t *testing.T) {
	list := make([]entry, 2)
	for i := range list {
		list[i].Node.Node = "node-" + strconv.Itoa(i)
		list[i].Node.Address = "10.0.0." + strconv.Itoa(i+1)
		list[i].Service = instance{ID: "vllm", Port: 8000}
	}
	s := httptest.NewServer(&registry{list: list, index: 7, changed: make(chan struct{})})
	defer s.Close()
	d := &discoverer.Consul{
		URL:    s.URL + "/v1/health/service/vllm?passing=1&wait=200ms",
		Client: &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second},
	}
	enough := errors.New("enough")
	err := d.Discover(t.Context(), func(got []fleet.Worker) error {
		if err := fleet.Validate(got); err != nil || len(got) != 2 || got[1].Name != "node-1/vllm" || got[1].URL != "http://10.0.0.2:8000" {
			t.Errorf("%+v: %v", got, err)
		}
		return enough
	})
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

// TestClientIsMissing: the connections that everybody shares are not closed.
func TestClientIsMissing(t *testing.T) {
	for _, client := range []*http.Client{nil, {Timeout: time.Minute}} {
		d := &discoverer.Consul{URL: "http://127.0.0.1:1/?wait=1s", Client: client}
		if err := d.Discover(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "no Client with a Transport") {
			t.Error(err)
		}
	}
}
