package fleettest

import (
	"testing"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// manyCount is how large a fleet every Discoverer must cope with.
const manyCount = 1000

func discovererListCases() []discovererCase {
	return []discovererCase{
		{"initial", testInitial},
		{"empty", testEmpty},
		{"add", testAdd},
		{"remove", testRemove},
		{"remove all", testRemoveAll},
		{"address", testAddress},
		{"address reused", testAddressReused},
		{"restart", testRestart},
		{"drain", testDrain},
		{"every field", testEveryField},
		{"field changes", testFieldChanges},
		{"flapping", testFlapping},
		{"many", testMany},
		{"listed twice", testListedTwice},
		{"name taken twice", testNameTakenTwice},
		{"invalid worker", testInvalidWorker},
		{"nothing shared", testNothingShared},
		{"nothing kept", testNothingKept},
	}
}

func testInitial(d *discovery) {
	d.open(someWorkers(1, 2, 3))
	d.start(nil).want(someWorkers(1, 2, 3))
}

// testEmpty: no workers is a list too, without which a Fleet would wait for one.
func testEmpty(d *discovery) {
	d.open(nil)
	w := d.start(nil)
	w.want(nil)
	if d.source.Set != nil {
		d.put(someWorkers(1))
		w.want(someWorkers(1))
	}
}

func testAdd(d *discovery) {
	w := d.follow(someWorkers(1, 2))
	d.put(someWorkers(1, 2, 3))
	w.want(someWorkers(1, 2, 3))
	d.put(someWorkers(0, 1, 2, 3, 4))
	w.want(someWorkers(0, 1, 2, 3, 4))
}

func testRemove(d *discovery) {
	w := d.follow(someWorkers(1, 2, 3))
	d.put(someWorkers(1, 3))
	w.want(someWorkers(1, 3))
	d.put(someWorkers(3))
	w.want(someWorkers(3))
}

func testRemoveAll(d *discovery) {
	w := d.follow(someWorkers(1, 2))
	d.put(nil)
	w.want(nil)
	d.put(someWorkers(2))
	w.want(someWorkers(2))
}

func testAddress(d *discovery) {
	w := d.follow(someWorkers(1, 2))
	moved := someWorkers(1, 2)
	moved[1].URL = workerURL(9)
	d.put(moved)
	w.want(moved)
}

// testAddressReused: a worker leaves and another one comes at its address in the
// same step, and two exchange theirs.
func testAddressReused(d *discovery) {
	w := d.follow(someWorkers(1, 2, 3))
	reused := someWorkers(1, 2, 4)
	reused[2].URL = workerURL(3)
	d.put(reused)
	w.want(reused)
	reused[0].URL, reused[1].URL = reused[1].URL, reused[0].URL
	d.put(reused)
	w.want(reused)
}

// testRestart: the same name at the same address is another instance.
func testRestart(d *discovery) {
	after := someWorkers(1, 2)
	after[1].Epoch += "-again"
	d.expressible(someWorkers(1, 2), after)
	w := d.follow(someWorkers(1, 2))
	d.put(after)
	w.want(after)
}

func testDrain(d *discovery) {
	draining := someWorkers(1, 2)
	draining[0].Draining = true
	d.expressible(someWorkers(1, 2), draining)
	w := d.follow(someWorkers(1, 2))
	d.put(draining)
	w.want(draining)
	d.put(someWorkers(1, 2))
	w.want(someWorkers(1, 2))
}

// fullWorker has every field set.
func fullWorker() fleet.Worker {
	w := someWorkers(7)[0]
	w.Engine = fleet.EngineVLLM
	w.Models = []string{"model-a", "model-b"}
	w.Class = "h100-tp2"
	w.Pool = "large"
	w.Labels = map[string]string{"region": "eu", "rack": "r 7"}
	w.BlockSize = 32
	w.DataParallel = 2
	w.Events = []follow.Endpoint{
		{Events: "tcp://10.0.0.8:5557", Replay: "tcp://10.0.0.8:5558", Topic: "kv", Rank: 0},
		{Events: "tcp://10.0.0.8:5559", Replay: "tcp://10.0.0.8:5560", Topic: "kv", Rank: 1},
	}
	w.Speculative = true
	w.Role = fleet.RoleDecode
	w.Draining = true
	return w
}

func testEveryField(d *discovery) {
	list := append(someWorkers(1), fullWorker())
	d.open(list)
	d.start(nil).want(list)
}

// testFieldChanges changes one field at a time, of those that the source has.
func testFieldChanges(d *discovery) {
	changes := []func(*fleet.Worker){
		func(w *fleet.Worker) { w.Engine = fleet.EngineSGLang },
		func(w *fleet.Worker) { w.Models = []string{"model-a"} },
		func(w *fleet.Worker) { w.Class = "h200-tp2" },
		func(w *fleet.Worker) { w.Pool = "small" },
		func(w *fleet.Worker) { w.Labels["region"] = "us" },
		func(w *fleet.Worker) { delete(w.Labels, "rack") },
		func(w *fleet.Worker) { w.BlockSize = 16 },
		func(w *fleet.Worker) { w.Events[0].Topic = "other" },
		func(w *fleet.Worker) { w.Events, w.DataParallel = nil, 4 },
		func(w *fleet.Worker) { w.Speculative = false },
		func(w *fleet.Worker) { w.Role = fleet.RoleWhole },
		func(w *fleet.Worker) { w.Draining = false },
		func(w *fleet.Worker) { w.Epoch = "" },
	}
	list := append(someWorkers(1), fullWorker())
	w := d.follow(list)
	for _, change := range changes {
		next := cloneWorkers(list)
		change(&next[1])
		d.put(next)
		w.want(next)
		list = next
	}
}

// testFlapping: what comes and goes faster than it is looked at ends as it is.
func testFlapping(d *discovery) {
	const times = 20
	w := d.follow(someWorkers(1, 2))
	for range times {
		d.put(someWorkers(1))
		d.put(someWorkers(1, 2))
		d.put(someWorkers(1, 3))
	}
	w.want(someWorkers(1, 3))
	d.quiet()
	w.want(someWorkers(1, 3))
}

func testMany(d *discovery) {
	all := manyWorkers(manyCount)
	if d.open(all); d.source.Set == nil {
		d.start(nil).want(all)
		return
	}
	w := d.start(nil)
	w.want(all)
	var half []fleet.Worker
	for i := 0; i < manyCount; i += 2 {
		half = append(half, all[i])
	}
	d.put(half)
	w.want(half)
	d.put(all)
	w.want(all)
}

// testListedTwice: one entry twice is one worker or an error, and does no harm to
// the others.
func testListedTwice(d *discovery) {
	w := d.follow(someWorkers(1, 2))
	before := w.seen()
	d.offer(someWorkers(1, 2, 2, 3))
	w.until(func() bool {
		n := len(w.lists)
		return len(w.failed) > before.failed || w.refused > before.refused ||
			equalWorkers(w.lists[n-1], d.expected(someWorkers(1, 2, 3)))
	}, func() string { return "a worker that is listed twice was neither reported nor taken once" })
	w.keeps(before, someWorkers(1, 2))
	d.put(someWorkers(1, 2, 4))
	w.want(someWorkers(1, 2, 4))
}

// testNameTakenTwice: two workers of one name are never taken for one of them in
// silence.
func testNameTakenTwice(d *discovery) {
	list := someWorkers(1, 2, 3)
	list[2].Name = list[1].Name
	// A source whose names are made of the addresses has two workers there.
	names := make(map[string]bool)
	for _, worker := range d.expected(list) {
		names[worker.Name] = true
	}
	if len(names) == len(list) {
		d.Skip("the source has no names of its own that could be taken twice")
	}
	w := d.follow(someWorkers(1, 2))
	before := w.seen()
	d.offer(list)
	w.wantReport(before, "that a name is taken twice")
	w.keeps(before, someWorkers(1, 2))
	d.put(someWorkers(1, 4))
	w.want(someWorkers(1, 4))
}

// testInvalidWorker: one bad entry removes nobody, is reported or left out, and
// its correction is taken.
func testInvalidWorker(d *discovery) {
	kinds := map[string]func(*fleet.Worker){
		"no name":     func(w *fleet.Worker) { w.Name = "" },
		"no address":  func(w *fleet.Worker) { w.URL = "" },
		"bad address": func(w *fleet.Worker) { w.URL = "ftp://10.0.0.9:8000" },
		"bad port":    func(w *fleet.Worker) { w.URL = "http://10.0.0.9:0" },
		"bad name":    func(w *fleet.Worker) { w.Name = "worker\x019" },
	}
	d.changing(nil) // or else the test would pass, with every kind skipped
	for name, spoil := range kinds {
		d.Run(name, func(t *testing.T) {
			list := someWorkers(1, 2, 9)
			spoil(&list[2])
			d.sub(t).invalid(list)
		})
	}
}

// invalid offers a list whose third worker is invalid.
func (d *discovery) invalid(list []fleet.Worker) {
	d.Helper()
	w := d.follow(list[:2])
	before := w.seen()
	d.offer(list)
	good := d.expected(list[:2])
	w.until(func() bool {
		n := len(w.lists)
		return len(w.failed) > before.failed || w.refused > before.refused ||
			n > before.lists && equalWorkers(w.lists[n-1], good)
	}, func() string { return "an invalid worker was neither reported nor left out" })
	d.quiet()
	w.keeps(before, list[:2])
	d.put(someWorkers(1, 2, 8))
	w.want(someWorkers(1, 2, 8))
}

// keeps fails if a list since then lacks one of workers.
func (w *watch) keeps(before seen, workers []fleet.Worker) {
	w.d.Helper()
	want := w.d.expected(workers)
	for _, list := range w.since(before) {
		names := make(map[string]bool, len(list))
		for i := range list {
			names[list[i].Name] = true
		}
		for i := range want {
			if !names[want[i].Name] {
				w.d.Errorf("worker %q was removed, though the source lists it", want[i].Name)
			}
		}
	}
}

// testNothingShared: what set was given does not change afterwards.
func testNothingShared(d *discovery) {
	list := append(someWorkers(1, 2), fullWorker())
	w := d.follow(list)
	for n := range 4 {
		list[2].Labels["region"] = []string{"eu", "us"}[n%2]
		list[2].Models = []string{"model-c", "model-d"}[n%2:]
		list[n%2].URL = workerURL(20 + n)
		list = append(list, someWorkers(30+n)...)
		d.put(list)
		w.want(list)
	}
	w.stop() // so that whatever wrote to them has done so
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, given := range w.given {
		if !equalWorkers(byName(cloneWorkers(given)), w.lists[i]) {
			d.Errorf("list number %d was changed after set had taken it: %s", i+1,
				difference(byName(cloneWorkers(given)), w.lists[i]))
		}
	}
}

// testNothingKept: whoever takes a list may do with it as it likes.
func testNothingKept(d *discovery) {
	scribble := func(list []fleet.Worker) {
		for i := range list {
			w := &list[i]
			w.Name, w.URL = "scribbled", "http://scribbled:1"
			for k := range w.Labels {
				w.Labels[k] = "scribbled"
			}
			for j := range w.Models {
				w.Models[j] = "scribbled"
			}
			for j := range w.Events {
				w.Events[j].Events = "tcp://scribbled:1"
			}
		}
	}
	list := append(someWorkers(1, 2), fullWorker())
	d.open(list)
	w := d.start(scribble)
	w.want(list)
	if d.source.Set != nil {
		list = append(list, someWorkers(3)...)
		d.put(list)
		w.want(list)
	}
	w.stop()
	d.start(nil).want(list)
}
