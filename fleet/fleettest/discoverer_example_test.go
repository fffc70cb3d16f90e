package fleettest_test

import (
	"testing"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// A Discoverer of your own takes the place of this one, which never changes. With
// a source that does, give Set and Faults too; examples/discoverer has all of it.
func ExampleTestDiscoverer() {
	test := func(t *testing.T) {
		t.Helper()
		fleettest.TestDiscoverer(t, fleettest.DiscovererHarness{
			New: func(_ *testing.T, workers []fleet.Worker) fleettest.DiscovererSource {
				return fleettest.DiscovererSource{Discoverer: fleet.Static(workers...)}
			},
		})
	}
	_ = test // in your package it is called TestDiscoverer
	// Output:
}
