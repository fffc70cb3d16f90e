package fleettest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

// DiscovererHarness tells [TestDiscoverer] what to test and against what.
type DiscovererHarness struct {
	// New starts a source that lists workers, and makes a Discoverer of it; every
	// subtest calls it anew. What it starts it ends with t.Cleanup. The Discoverer
	// should look and retry often (every 20 ms or so), so that the suite is fast.
	//
	// The workers have names, epochs, and addresses http://10.x.y.z:8000, of which
	// no two are the same. Nobody connects to them.
	New func(t *testing.T, workers []fleet.Worker) DiscovererSource
	// Want is the list that the Discoverer is to make of a source that lists
	// workers, in any order. Where it makes the same of two lists, the difference
	// is one that the source can't express, and the suite doesn't ask for it. It
	// may change its argument. Default: workers themselves.
	Want func(workers []fleet.Worker) []fleet.Worker
	// Timeout bounds every wait for something that must happen. Default 30 s.
	Timeout time.Duration
}

// DiscovererSource is what a Discoverer reads, as far as the suite changes it.
type DiscovererSource struct {
	// Discoverer is the one under test.
	Discoverer fleet.Discoverer
	// Set makes the source list exactly these workers, in one step if it can. The
	// suite also lists workers twice and invalid ones; for what the source can't
	// hold, Set changes nothing and returns an error that wraps
	// errors.ErrUnsupported. Any other error ends the test. nil: the source never
	// changes.
	Set func(workers []fleet.Worker) error
	// Faults are the ways in which the source can fail: unreachable, out of order,
	// talking nonsense, saying nothing. Each is turned on and off again; while it
	// is on, Set still changes what is behind it.
	Faults map[string]DiscovererFault
}

// DiscovererFault is one way for a source to fail.
type DiscovererFault struct {
	// Turn turns it on or off. Once it has returned, nothing that comes later gets
	// through to the Discoverer, or everything does. An error ends the test.
	Turn func(on bool) error
	// Quiet: the Discoverer can't tell it from a source that doesn't change, and
	// so need not report it.
	Quiet bool
}

// TestDiscoverer checks that a Discoverer keeps the contract of
// [fleet.Discoverer], driving it as a Fleet does. Beyond the letter of the
// contract it demands what every Fleet depends on:
//
//   - a source that fails removes nobody, and the Discoverer says that it fails;
//   - what was missed meanwhile is made up for, removals included;
//   - set is called once at a time, and not after Discover has returned;
//   - Discover returns when its context ends, whatever it waits for, and leaves no
//     goroutine, idle connections included;
//   - it can be called again, and then sets the list at once, changed or not;
//   - the lists share nothing with each other, nor with what the Discoverer keeps.
//
// Each rule is a subtest of its own. One that the source has no means for is
// skipped, and says why. The suite counts goroutines, so tests that start some
// must not run in parallel with it.
func TestDiscoverer(t *testing.T, h DiscovererHarness) {
	t.Helper()
	if h.New == nil {
		t.Fatal("fleettest: DiscovererHarness.New is nil; give a function that starts a source and its Discoverer")
	}
	if h.Timeout <= 0 {
		h.Timeout = discovererTimeout
	}
	for _, c := range discovererCases() {
		t.Run(c.name, func(t *testing.T) {
			c.run(&discovery{T: t, DiscovererHarness: h})
		})
	}
}

const (
	discovererTimeout = 30 * time.Second
	// discovererPause is the time between two calls of a Discoverer that fails: a
	// Fleet waits a second and more.
	discovererPause = 10 * time.Millisecond
	// discovererMoment is how long a list must stay.
	discovererMoment = 20 * time.Millisecond
	// discovererQuiet is time in which something wrong may happen; nothing that
	// must happen is waited for this way.
	discovererQuiet = 150 * time.Millisecond
)

type discovererCase struct {
	name string
	run  func(*discovery)
}

func discovererCases() []discovererCase {
	return slices.Concat(discovererListCases(), discovererFaultCases(), discovererLifeCases())
}

// discovery is one subtest with its helpers.
type discovery struct {
	*testing.T
	DiscovererHarness

	source DiscovererSource
}

// open starts the source.
func (d *discovery) open(workers []fleet.Worker) {
	d.Helper()
	d.source = d.New(d.T, cloneWorkers(workers))
	if d.source.Discoverer == nil {
		d.Fatal("fleettest: DiscovererHarness.New returned no Discoverer")
	}
}

// changing is open for cases that need a source that changes.
func (d *discovery) changing(workers []fleet.Worker) {
	d.Helper()
	d.open(workers)
	if d.source.Set == nil {
		d.Skip("the source never changes: DiscovererSource.Set is nil")
	}
}

// follow opens a source that changes, and waits for its first list.
func (d *discovery) follow(workers []fleet.Worker) *watch {
	d.Helper()
	d.changing(workers)
	w := d.start(nil)
	w.want(workers)
	return w
}

// put changes the source.
func (d *discovery) put(workers []fleet.Worker) {
	d.Helper()
	if err := d.source.Set(cloneWorkers(workers)); err != nil {
		d.Fatalf("changing the source: %v", err)
	}
}

// offer changes the source to something that it may be unable to hold, which
// skips the test.
func (d *discovery) offer(workers []fleet.Worker) {
	d.Helper()
	err := d.source.Set(cloneWorkers(workers))
	if errors.Is(err, errors.ErrUnsupported) {
		d.Skip("the source can't hold this: ", err)
	}
	if err != nil {
		d.Fatalf("changing the source: %v", err)
	}
}

// turn turns a fault on or off.
func (d *discovery) turn(fault DiscovererFault, on bool) {
	d.Helper()
	if err := fault.Turn(on); err != nil {
		d.Fatalf("turning the fault (on: %v): %v", on, err)
	}
}

func (d *discovery) quiet() {
	d.Helper()
	<-time.After(discovererQuiet)
}

// expected is what the Discoverer is to make of workers, by name.
func (d *discovery) expected(workers []fleet.Worker) []fleet.Worker {
	list := cloneWorkers(workers)
	if d.Want != nil {
		list = d.Want(list)
	}
	return byName(list)
}

// expressible skips the test if the source can't tell two lists apart.
func (d *discovery) expressible(a, b []fleet.Worker) {
	d.Helper()
	if equalWorkers(d.expected(a), d.expected(b)) {
		d.Skip("the source can't express this: DiscovererHarness.Want makes the same of both")
	}
}

// someWorkers are the workers with these numbers.
func someWorkers(numbers ...int) []fleet.Worker {
	list := make([]fleet.Worker, len(numbers))
	for i, n := range numbers {
		list[i] = fleet.Worker{
			Name:  fmt.Sprintf("worker-%04d", n),
			Epoch: fmt.Sprintf("epoch-%04d-1", n),
			URL:   workerURL(n),
		}
	}
	return list
}

// workerURL is an address that belongs to that number alone.
func workerURL(n int) string {
	const a, b = 250, 250 * 250
	return fmt.Sprintf("http://10.%d.%d.%d:8000", n/b, n/a%a, 1+n%a)
}

// manyWorkers are those with numbers 0 to n-1.
func manyWorkers(n int) []fleet.Worker {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return someWorkers(numbers...)
}

func cloneWorkers(list []fleet.Worker) []fleet.Worker {
	out := make([]fleet.Worker, len(list))
	for i := range list {
		out[i] = list[i].Clone()
	}
	return out
}

func byName(list []fleet.Worker) []fleet.Worker {
	slices.SortFunc(list, func(a, b fleet.Worker) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// equalWorkers compares lists that are in order.
func equalWorkers(a, b []fleet.Worker) bool {
	return slices.EqualFunc(a, b, func(v, w fleet.Worker) bool { return v.Equal(&w) })
}

// difference says how got differs from want; both are in order.
func difference(got, want []fleet.Worker) string {
	index := func(list []fleet.Worker) map[string]fleet.Worker {
		m := make(map[string]fleet.Worker, len(list))
		for i := range list {
			m[list[i].Name] = list[i]
		}
		return m
	}
	has, wants := index(got), index(want)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(wants)) {
		w := wants[name]
		if g, ok := has[name]; !ok {
			lines = append(lines, fmt.Sprintf("missing: %+v", w))
		} else if !g.Equal(&w) {
			lines = append(lines, fmt.Sprintf("differs: %+v\n  wanted: %+v", g, w))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if _, ok := wants[name]; !ok {
			lines = append(lines, fmt.Sprintf("too many: %+v", has[name]))
		}
	}
	const most = 8
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("and %d more", len(lines)-most))
	}
	return fmt.Sprintf("%d workers, want %d\n%s", len(got), len(want), strings.Join(lines, "\n"))
}
