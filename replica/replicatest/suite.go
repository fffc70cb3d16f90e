package replicatest

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/replica"
)

// Join makes what [Run] tests: two ends of one exchange that hear each other and nobody
// else. breakIt breaks the connection that the second end receives by, as a network does,
// or a restart of what is in between, and lets it be made again; it may break the first
// one's as well. What must be closed is closed by t.Cleanup.
type Join func(t *testing.T) (a, b replica.Exchange, breakIt func())

// Run checks that a carrier keeps the contract of [replica.Exchange]. Each rule is a
// subtest, with ends of its own. On a network that loses nothing it expects that nothing
// is lost. It counts goroutines: tests that start some must not run in parallel with it.
func Run(t *testing.T, join Join) {
	t.Helper()
	run(t, join, patience)
}

// patience bounds each wait for something that must happen, on a busy machine.
const patience = 30 * time.Second

func run(t *testing.T, join Join, patience time.Duration) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			leak.Check(t)
			s := &suite{T: t, patience: patience}
			s.a, s.b, s.breakIt = join(t)
			c.run(s)
		})
	}
}

type testCase struct {
	name string
	run  func(*suite)
}

// suite is one subtest with its helpers.
type suite struct {
	*testing.T
	patience time.Duration
	linger   time.Duration // how long each deliver takes
	a, b     replica.Exchange
	breakIt  func()
}

// publish hands m to e, which must work in time and leave m as it is.
func (s *suite) publish(e replica.Exchange, m *replica.Message) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	before := clone(m)
	if err := e.Publish(ctx, m); err != nil {
		s.Errorf("Publish: %v", err)
	}
	if !equal(before, m) {
		s.Errorf("Publish changed the message, from %s to %s", describe(before), describe(m))
	}
}

// listener is a Receive that runs.
type listener struct {
	s      *suite
	cancel context.CancelFunc
	done   chan struct{} // Receive has returned

	mu         sync.Mutex
	subscribed int
	delivering int
	got        []*replica.Message
	err        error
	gate       chan struct{} // deliver waits until it is closed
}

// listen begins to receive, and waits until messages come. If Receive fails it tries
// again, if it may.
func (s *suite) listen(e replica.Exchange, again bool) *listener {
	s.Helper()
	deadline := time.Now().Add(s.patience)
	for {
		l := s.receive(e, nil)
		s.await("Receive calls subscribed, or fails", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.subscribed > 0 || l.over()
		})
		if !l.over() {
			return l
		}
		l.cancel()
		if !again || time.Now().After(deadline) {
			s.Fatalf("Receive: %v", l.err)
		}
		pause(time.Millisecond)
	}
}

// receive begins to receive. Each deliver waits for gate, if there is one.
func (s *suite) receive(e replica.Exchange, gate chan struct{}) *listener {
	s.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &listener{s: s, cancel: cancel, done: make(chan struct{}), gate: gate}
	go func() {
		defer close(l.done)
		err := e.Receive(ctx, l.begun, l.deliver)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.err = err
	}()
	s.Cleanup(func() {
		cancel()
		s.await("Receive returns at its context's end", l.over)
	})
	return l
}

func (l *listener) begun() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subscribed++; l.subscribed > 1 {
		l.s.Error("Receive called subscribed more than once")
	}
}

func (l *listener) deliver(m *replica.Message) {
	l.mu.Lock()
	l.delivering++
	switch {
	case l.delivering > 1:
		l.s.Error("Receive called deliver while an earlier call was running")
	case l.subscribed == 0:
		l.s.Error("Receive called deliver before subscribed")
	case l.over():
		l.s.Error("deliver was called after Receive had returned")
	}
	l.mu.Unlock()
	if l.gate != nil {
		<-l.gate
	}
	if l.s.linger > 0 {
		pause(l.s.linger)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivering--
	l.got = append(l.got, m)
}

// over reports whether Receive has returned.
func (l *listener) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// heard returns how often each sequence number of an epoch has come.
func (l *listener) heard(epoch uint64) map[uint64]*replica.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := make(map[uint64]*replica.Message)
	for _, m := range l.got {
		if m.Epoch == epoch {
			got[m.Seq] = m
		}
	}
	return got
}

// expect waits until all of these have come, as they were sent.
func (l *listener) expect(want ...*replica.Message) {
	l.s.Helper()
	for _, m := range want {
		var got *replica.Message
		l.s.await(fmt.Sprintf("message %d of epoch %d arrives", m.Seq, m.Epoch), func() bool {
			got = l.heard(m.Epoch)[m.Seq]
			return got != nil
		})
		if !equal(m, got) {
			l.s.Errorf("sent %s, got %s", describe(m), describe(got))
		}
	}
}

// await waits until something holds, and fails if it doesn't come to that.
func (s *suite) await(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(s.patience); !holds(); pause(time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("waited %v in vain until %s", s.patience, what)
		}
	}
}

func pause(d time.Duration) { <-time.After(d) }

// equal compares messages; no slice equals an empty one.
func equal(a, b *replica.Message) bool {
	return reflect.DeepEqual(normal(a), normal(b))
}

func normal(m *replica.Message) *replica.Message {
	m = clone(m)
	if len(m.Loads) == 0 {
		m.Loads = nil
	}
	if len(m.Bookings) == 0 {
		m.Bookings = nil
	}
	for i := range m.Bookings {
		if len(m.Bookings[i].Keys) == 0 {
			m.Bookings[i].Keys = nil
		}
	}
	return m
}

// describe is m for an error text, not too long.
func describe(m *replica.Message) string {
	const most = 400
	s := fmt.Sprintf("%+v", *m)
	if len(s) > most {
		s = fmt.Sprintf("%s... (%d loads, %d bookings)", s[:most], len(m.Loads), len(m.Bookings))
	}
	return s
}
