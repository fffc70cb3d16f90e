package fleettest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

func discovererLifeCases() []discovererCase {
	return []discovererCase{
		{"context ends", testContextEnds},
		{"context has ended", testContextHasEnded},
		{"context ends in set", testContextEndsInSet},
		{"silent after return", testSilentAfterReturn},
		{"called again", testCalledAgain},
		{"closed fleet", testClosedFleet},
		{"no goroutine left", testNoGoroutineLeft},
	}
}

func testContextEnds(d *discovery) {
	d.open(someWorkers(1, 2))
	w := d.start(nil)
	w.want(someWorkers(1, 2))
	d.quiet() // so that it waits for a change
	w.stop()
	if s := w.seen(); s.failed > 0 || s.refused > 0 {
		d.Errorf("a source in order was reported as failed: %v", w.failed)
	}
}

func testContextHasEnded(d *discovery) {
	d.open(someWorkers(1))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Whether it still sets the list, and what it returns, is its own affair.
		_ = d.source.Discoverer.Discover(ctx, func([]fleet.Worker) error { return nil })
	}()
	d.await(done, "Discover did not return, though its context had ended before the call")
}

// testContextEndsInSet: a set that takes long doesn't keep Discover from ending
// with it.
func testContextEndsInSet(d *discovery) {
	d.open(someWorkers(1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	entered, leave, done := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = d.source.Discoverer.Discover(ctx, func([]fleet.Worker) error {
			select {
			case entered <- struct{}{}:
			default:
			}
			<-leave
			return nil
		})
	}()
	d.await(entered, "set was not called")
	cancel()
	if d.source.Set != nil {
		d.put(someWorkers(1, 2))
	}
	close(leave)
	d.await(done, "Discover did not return after set, though its context had ended")
}

func testSilentAfterReturn(d *discovery) {
	w := d.follow(someWorkers(1))
	d.put(someWorkers(1, 2)) // so that it may be at work when the context ends
	w.stop()
	before := w.seen()
	d.put(someWorkers(3))
	d.quiet()
	if len(w.since(before)) > 0 {
		d.Error("a list was set after Discover had returned")
	}
	w.stop() // reports a call that came
}

// testCalledAgain: a Fleet calls again after an error, and its Err stays until a
// list is set. Whatever the Discoverer remembers, it sets one.
func testCalledAgain(d *discovery) {
	d.open(someWorkers(1, 2))
	for range 2 {
		w := d.start(nil)
		w.want(someWorkers(1, 2))
		w.stop()
	}
	if d.source.Set == nil {
		return
	}
	d.put(someWorkers(2, 3))
	w := d.start(nil)
	w.want(someWorkers(2, 3))
	if first := w.since(seen{})[0]; !equalWorkers(first, d.expected(someWorkers(2, 3))) {
		d.Errorf("a list from before was set first: %s", difference(first, d.expected(someWorkers(2, 3))))
	}
}

// testClosedFleet: a Fleet that is being closed refuses lists just before it ends
// the context.
func testClosedFleet(d *discovery) {
	d.open(someWorkers(1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	entered, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := d.source.Discoverer.Discover(ctx, func([]fleet.Worker) error {
				select {
				case entered <- struct{}{}:
				default:
				}
				return fleet.ErrClosed
			})
			if ctx.Err() == nil && err != nil && !errors.Is(err, fleet.ErrClosed) {
				d.Errorf("Discover returned %v, which does not wrap the error of set", err)
				return
			}
			<-time.After(discovererPause)
		}
	}()
	d.await(entered, "set was not called")
	cancel()
	d.await(done, "Discover did not return, though its context had ended")
}

// await waits for something that must happen.
func (d *discovery) await(happened <-chan struct{}, otherwise string) {
	d.Helper()
	timer := time.NewTimer(d.Timeout)
	defer timer.Stop()
	select {
	case <-happened:
	case <-timer.C:
		d.Fatalf("within %v: %s", d.Timeout, otherwise)
	}
}

// testNoGoroutineLeft runs the Discoverer several times, so that what ends late
// elsewhere does not hide what it leaves.
func testNoGoroutineLeft(d *discovery) {
	const times = 5
	d.open(someWorkers(1, 2))
	before := runtime.NumGoroutine()
	for n := range times {
		w := d.start(nil)
		w.want(someWorkers(1, 2))
		if d.source.Set != nil {
			d.put(someWorkers(1, 2, 3+n))
			w.want(someWorkers(1, 2, 3+n))
			d.put(someWorkers(1, 2))
			w.want(someWorkers(1, 2))
		}
		w.stop()
	}
	deadline := time.Now().Add(d.Timeout)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			d.Fatalf("%d goroutines before Discover, %d after it had returned %d times; end them, and close idle connections:\n%s",
				before, runtime.NumGoroutine(), times, stacks())
		}
		<-time.After(time.Millisecond)
	}
}

// stacks shows the goroutines there are.
func stacks() string {
	const most = 16 << 10
	buf := make([]byte, most)
	return string(bytes.TrimSpace(buf[:runtime.Stack(buf, true)]))
}
