package fleettest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
)

// watch runs a Discoverer as a Fleet does, and keeps what it is told.
type watch struct {
	d      *discovery
	cancel context.CancelFunc
	done   chan struct{} // closed when Discover has returned for good
	onSet  func([]fleet.Worker)

	mu       sync.Mutex
	lists    [][]fleet.Worker // accepted, copied, by name
	given    [][]fleet.Worker // the same as they were given
	refused  int              // lists
	failed   []error          // returned by Discover before its context ended
	problems []string         // rules that were broken
	setting  bool
	changed  chan struct{} // closed and replaced when one of these changes
}

// start calls Discover until the subtest ends. onSet, if any, is given every list
// after it was copied.
func (d *discovery) start(onSet func([]fleet.Worker)) *watch {
	d.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{d: d, cancel: cancel, done: make(chan struct{}), onSet: onSet, changed: make(chan struct{})}
	go w.run(ctx, d.source.Discoverer)
	d.Cleanup(func() { w.stop() })
	return w
}

// stop ends the context, waits for Discover to return and reports the rules that
// it has broken so far.
func (w *watch) stop() {
	w.d.Helper()
	w.cancel()
	timer := time.NewTimer(w.d.Timeout)
	defer timer.Stop()
	select {
	case <-w.done:
	case <-timer.C:
		w.d.Fatalf("Discover did not return within %v of the end of its context", w.d.Timeout)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.problems {
		w.d.Error(p)
	}
	w.problems = nil
}

func (w *watch) run(ctx context.Context, discoverer fleet.Discoverer) {
	defer close(w.done)
	for ctx.Err() == nil {
		call := &call{w: w}
		err := discoverer.Discover(ctx, call.set)
		w.note(func() {
			call.over = true
			if ctx.Err() != nil {
				return
			}
			if err == nil {
				w.problems = append(w.problems, "Discover returned nil before its context ended; it must go on to watch")
				err = errors.New("it returned nil")
			}
			w.failed = append(w.failed, err)
		})
		timer := time.NewTimer(discovererPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// note changes what the watch keeps and wakes those who wait for it.
func (w *watch) note(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// call is one call of Discover.
type call struct {
	w    *watch
	over bool // guarded by w.mu
}

func (c *call) set(list []fleet.Worker) error {
	w := c.w
	w.note(func() {
		if c.over {
			w.problems = append(w.problems, "set was called after Discover had returned")
		}
		if w.setting {
			w.problems = append(w.problems, "set was called while another call of it was running; nobody knows which list is newer")
		}
		w.setting = true
	})
	defer w.note(func() { w.setting = false })
	// Long enough for a second call to meet this one.
	<-time.After(time.Millisecond)
	mine := cloneWorkers(list)
	err := fleet.Validate(mine)
	w.note(func() {
		switch {
		case err != nil:
			w.refused++
		case c.over:
		default:
			w.lists = append(w.lists, byName(mine))
			w.given = append(w.given, list)
		}
	})
	if w.onSet != nil {
		w.onSet(list)
	}
	return err
}

// seen is how far a watch was at one time.
type seen struct{ lists, refused, failed int }

func (w *watch) seen() seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	return seen{len(w.lists), w.refused, len(w.failed)}
}

// since returns the lists that were accepted after a time.
func (w *watch) since(s seen) [][]fleet.Worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lists[s.lists:]
}

// until waits for a condition, which is looked at with mu held. describe is, too.
func (w *watch) until(holds func() bool, describe func() string) {
	w.d.Helper()
	deadline := time.NewTimer(w.d.Timeout)
	defer deadline.Stop()
	for {
		w.mu.Lock()
		ok, changed := holds(), w.changed
		w.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			w.mu.Lock()
			text := describe() + w.historyLocked()
			w.mu.Unlock()
			w.d.Fatalf("within %v: %s", w.d.Timeout, text)
		}
	}
}

func (w *watch) historyLocked() string {
	text := fmt.Sprintf("\n%d lists were set, %d refused; Discover returned %d times", len(w.lists), w.refused, len(w.failed))
	if n := len(w.failed); n > 0 {
		text += fmt.Sprintf(", the last time with: %v", w.failed[n-1])
	}
	return text
}

// want waits until the list in force is what the Discoverer is to make of
// workers, and stays that for a moment. A list from before, or one in between, may
// come late and is followed by the right one; the right one is not followed.
func (w *watch) want(workers []fleet.Worker) {
	w.d.Helper()
	want := w.d.expected(workers)
	inForce := func() bool {
		n := len(w.lists)
		return n > 0 && equalWorkers(w.lists[n-1], want)
	}
	for deadline := time.Now().Add(w.d.Timeout); ; {
		w.until(inForce, func() string {
			n := len(w.lists)
			if n == 0 {
				return "no list was set"
			}
			return "the list in force is not the one of the source: " + difference(w.lists[n-1], want)
		})
		<-time.After(discovererMoment)
		w.mu.Lock()
		stays, text := inForce(), w.historyLocked()
		w.mu.Unlock()
		if stays {
			return
		}
		if time.Now().After(deadline) {
			w.d.Fatalf("within %v: the list of the source does not stay in force, though the source does not change%s", w.d.Timeout, text)
		}
	}
}

// wantReport waits until something was said since then: Discover returned an
// error, or offered a list that was refused, which a Fleet reports.
func (w *watch) wantReport(s seen, what string) {
	w.d.Helper()
	w.until(func() bool { return len(w.failed) > s.failed || w.refused > s.refused },
		func() string { return "Discover did not report " + what + "; return an error, for Fleet.Err to show" })
}
