package fleettest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// registry is a source in memory.
type registry struct {
	mu      sync.Mutex
	workers []fleet.Worker
	fault   string
	turned  chan struct{} // closed and replaced when fault changes
}

// errSource: the source is turned off.
var errSource = errors.New("the source can't be read")

func newRegistry(workers []fleet.Worker) *registry {
	return &registry{workers: workers, turned: make(chan struct{})}
}

// set takes whatever the suite lists.
func (r *registry) set(workers []fleet.Worker) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.workers = workers
	return nil
}

func (r *registry) turn(fault string) fleettest.DiscovererFault {
	return fleettest.DiscovererFault{Turn: func(on bool) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.fault = ""; on {
			r.fault = fault
		}
		close(r.turned)
		r.turned = make(chan struct{})
		return nil
	}}
}

// read returns a copy of what the source lists. A source that stalls says nothing
// for a while.
func (r *registry) read(ctx context.Context) ([]fleet.Worker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.fault {
	case "stalls":
		turned := r.turned
		r.mu.Unlock()
		select {
		case <-turned:
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
		r.mu.Lock()
		return nil, errSource
	case "":
		out := make([]fleet.Worker, len(r.workers))
		for i := range out {
			out[i] = r.workers[i].Clone()
		}
		return out, nil
	default:
		return nil, errSource
	}
}

// Discover follows the source as it should be done.
func (r *registry) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	var last []fleet.Worker
	for first := true; ; first = false {
		list, err := r.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // what a cancelled reading returns is no news
		case err != nil:
			return err
		case first || !same(last, list):
			last = make([]fleet.Worker, len(list))
			for i := range list {
				last[i] = list[i].Clone()
			}
			if err := set(list); err != nil {
				return err
			}
		}
		if !pause(ctx) {
			return nil
		}
	}
}

func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(2 * time.Millisecond):
		return true
	}
}

func same(a, b []fleet.Worker) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].Equal(&b[i]) {
			return false
		}
	}
	return true
}

// registryHarness tests the Discoverer that follow makes of a registry.
func registryHarness(follow func(*registry) fleet.Discoverer) fleettest.DiscovererHarness {
	return fleettest.DiscovererHarness{New: func(_ *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
		r := newRegistry(workers)
		return fleettest.DiscovererSource{
			Discoverer: follow(r),
			Set:        r.set,
			Faults: map[string]fleettest.DiscovererFault{
				"unreachable": r.turn("unreachable"),
				"stalls":      r.turn("stalls"),
			},
		}
	}}
}

func TestRegistryConforms(t *testing.T) {
	fleettest.TestDiscoverer(t, registryHarness(func(r *registry) fleet.Discoverer { return r }))
}

func TestStaticConforms(t *testing.T) {
	fleettest.TestDiscoverer(t, fleettest.DiscovererHarness{
		New: func(_ *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
			return fleettest.DiscovererSource{Discoverer: fleet.Static(workers...)}
		},
	})
}

func TestFileConforms(t *testing.T) {
	fleettest.TestDiscoverer(t, fleettest.DiscovererHarness{New: newFileSource})
}

func newFileSource(t *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
	t.Helper()
	s := &fileSource{path: filepath.Join(t.TempDir(), "workers.json")}
	require.NoError(t, s.set(workers))
	return fleettest.DiscovererSource{
		Discoverer: &file.Discoverer{Path: s.path, Interval: 5 * time.Millisecond},
		Set:        s.set,
		Faults: map[string]fleettest.DiscovererFault{
			"missing":   s.turn(os.Remove),
			"empty":     s.turn(func(path string) error { return os.WriteFile(path, nil, 0o600) }),
			"truncated": s.turn(func(path string) error { return os.WriteFile(path, []byte(`{"workers": [{"name": "wo`), 0o600) }),
			"nonsense":  s.turn(func(path string) error { return os.WriteFile(path, []byte("<html>no</html>"), 0o600) }),
		},
	}
}

// fileSource is a file with workers, or one that is spoilt.
type fileSource struct {
	path    string
	content []byte
	spoilt  bool
}

func (s *fileSource) set(workers []fleet.Worker) error {
	var b bytes.Buffer
	if workers == nil {
		workers = []fleet.Worker{} // null is not a list
	}
	if err := json.NewEncoder(&b).Encode(map[string][]fleet.Worker{"workers": workers}); err != nil {
		return err
	}
	s.content = b.Bytes()
	return s.write()
}

// write replaces the file in one step, unless it is spoilt.
func (s *fileSource) write() error {
	if s.spoilt {
		return nil
	}
	if err := os.WriteFile(s.path+".new", s.content, 0o600); err != nil {
		return err
	}
	return os.Rename(s.path+".new", s.path)
}

func (s *fileSource) turn(spoil func(path string) error) fleettest.DiscovererFault {
	return fleettest.DiscovererFault{Turn: func(on bool) error {
		if s.spoilt = on; on {
			return spoil(s.path)
		}
		return s.write()
	}}
}
