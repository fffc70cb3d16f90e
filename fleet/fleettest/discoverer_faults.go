package fleettest

import (
	"maps"
	"slices"
	"testing"

	"github.com/kvsteer/kvsteer/fleet"
)

func discovererFaultCases() []discovererCase {
	return []discovererCase{
		{"outage", eachFault(testOutage)},
		{"outage at the start", eachFault(testOutageAtStart)},
		{"outages in a row", eachFault(testOutagesInARow)},
		{"context ends in an outage", eachFault(testContextEndsInOutage)},
	}
}

// sub is d for a subtest.
func (d *discovery) sub(t *testing.T) *discovery {
	t.Helper()
	return &discovery{T: t, DiscovererHarness: d.DiscovererHarness}
}

// eachFault runs a case under every fault that the source can have.
func eachFault(run func(*discovery, string)) func(*discovery) {
	return func(d *discovery) {
		// Only to learn the names: the subtests have sources of their own.
		d.open(nil)
		if len(d.source.Faults) == 0 {
			d.Skip("the source never fails: DiscovererSource.Faults is empty")
		}
		for _, name := range slices.Sorted(maps.Keys(d.source.Faults)) {
			d.Run(name, func(t *testing.T) { run(d.sub(t), name) })
		}
	}
}

// testOutage: what happened while the source could not be read is made up for,
// and until then nobody is removed.
func testOutage(d *discovery, name string) {
	w := d.follow(someWorkers(1, 2, 3))
	fault := d.source.Faults[name]
	d.turn(fault, true)
	before := w.seen()
	d.put(someWorkers(1, 4))
	if !fault.Quiet {
		w.wantReport(before, "that its source fails")
	}
	d.quiet()
	w.unmoved(before, someWorkers(1, 2, 3))
	d.turn(fault, false)
	w.want(someWorkers(1, 4))
}

// testOutageAtStart: a source that can't be read is not one without workers.
func testOutageAtStart(d *discovery, name string) {
	d.changing(someWorkers(1, 2))
	fault := d.source.Faults[name]
	d.turn(fault, true)
	w := d.start(nil)
	if !fault.Quiet {
		w.wantReport(seen{}, "that its source fails")
	}
	d.quiet()
	if lists := w.since(seen{}); len(lists) > 0 {
		d.Errorf("a list of %d workers was set, though the source could not be read", len(lists[0]))
	}
	d.turn(fault, false)
	w.want(someWorkers(1, 2))
}

func testOutagesInARow(d *discovery, name string) {
	const times = 3
	w := d.follow(someWorkers(0, 1))
	fault := d.source.Faults[name]
	for n := range times {
		// The source is as it was when the second one ends: also then the list is
		// set again, or else the error stays.
		next := someWorkers(0, 2+n/2)
		d.turn(fault, true)
		before := w.seen()
		d.put(next)
		if !fault.Quiet {
			w.wantReport(before, "that its source fails")
		}
		d.turn(fault, false)
		if !fault.Quiet {
			w.until(func() bool { return len(w.lists) > before.lists },
				func() string { return "no list was set after the source had recovered, so that the error stays" })
		}
		w.want(next)
	}
}

func testContextEndsInOutage(d *discovery, name string) {
	w := d.follow(someWorkers(1))
	fault := d.source.Faults[name]
	d.turn(fault, true)
	d.put(someWorkers(2))
	d.quiet()
	w.stop()
	d.turn(fault, false)
	d.start(nil).want(someWorkers(2))
}

// unmoved fails if a list since then is not what the Discoverer made of workers.
func (w *watch) unmoved(before seen, workers []fleet.Worker) {
	w.d.Helper()
	want := w.d.expected(workers)
	for _, list := range w.since(before) {
		if !equalWorkers(list, want) {
			w.d.Errorf("while the source could not be read, the list changed: %s", difference(list, want))
		}
	}
}
