package replicatest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica"
)

func cases() []testCase {
	return []testCase{
		{"Arrives", testArrives},
		{"Subscribed", testSubscribed},
		{"Bounds", testBounds},
		{"Concurrent", testConcurrent},
		{"Context", testContext},
		{"EndedBefore", testEndedBefore},
		{"NobodyListens", testNobodyListens},
		{"Slow", testSlow},
		{"Stops", testStops},
		{"Break", testBreak},
	}
}

// testArrives: what is published arrives as it was, in both directions.
func testArrives(s *suite) {
	la, lb := s.listen(s.a, false), s.listen(s.b, false)
	for epoch, way := range map[uint64]struct {
		from replica.Exchange
		to   *listener
	}{1: {s.a, lb}, ^uint64(0): {s.b, la}} {
		want := samples(epoch)
		for _, m := range want {
			s.publish(way.from, m)
		}
		way.to.expect(want...)
	}
}

// testSubscribed: what is published once subscribed was called is heard.
func testSubscribed(s *suite) {
	const rounds = 10
	for i := range uint64(rounds) {
		l := s.listen(s.b, false)
		m := plain(1, i+1)
		s.publish(s.a, m)
		l.expect(m)
		l.cancel()
		s.await("Receive returns at its context's end", l.over)
	}
}

// testBounds: the biggest messages pass; what is beyond the bounds is refused by the
// sender, and does no harm to others.
func testBounds(s *suite) {
	l := s.listen(s.b, false)
	seq := uint64(0)
	for _, m := range biggest() {
		seq++
		m.Epoch, m.Seq = 1, seq
		s.publish(s.a, m)
		l.expect(m)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.patience)
	defer cancel()
	for what, m := range beyond() {
		if err := s.a.Publish(ctx, m); err == nil {
			s.Errorf("Publish took a message with %s", what)
		}
	}
	last := plain(1, seq+1)
	s.publish(s.a, last)
	l.expect(last)
	if got := l.heard(forbidden); len(got) > 0 {
		s.Errorf("a message that is beyond the bounds was delivered: %s", describe(got[1]))
	}
}

// testConcurrent: an end is used from many goroutines at once, and delivers one at a time.
func testConcurrent(s *suite) {
	const publishers, each = 4, 25
	s.linger = time.Millisecond
	la, lb := s.listen(s.a, false), s.listen(s.b, false)
	var all sync.WaitGroup
	for i := range uint64(publishers) {
		for n, from := range []replica.Exchange{s.a, s.b} {
			all.Go(func() {
				for seq := range uint64(each) {
					s.publish(from, plain(1+2*i+uint64(n), seq+1))
				}
			})
		}
	}
	all.Wait()
	for i := range uint64(publishers) {
		for seq := range uint64(each) {
			lb.expect(plain(1+2*i, seq+1))
			la.expect(plain(2+2*i, seq+1))
		}
	}
}

// testContext: Receive ends when its context does, with its error, and can be called again.
func testContext(s *suite) {
	l := s.listen(s.b, false)
	l.cancel()
	s.await("Receive returns at its context's end", l.over)
	if !errors.Is(l.err, context.Canceled) {
		s.Errorf("Receive returned %v when its context was cancelled, want the context's error", l.err)
	}
	const short = 50 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), short)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.b.Receive(ctx, func() {}, func(*replica.Message) {}) }()
	select {
	case err := <-done:
		if !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Receive returned %v at its context's deadline, want the context's error", err)
		}
	case <-time.After(s.patience):
		s.Fatalf("Receive did not return at its context's deadline")
	}
	l = s.listen(s.b, false)
	m := plain(1, 1)
	s.publish(s.a, m)
	l.expect(m)
}

// testEndedBefore: with a context that has ended nothing is done.
func testEndedBefore(s *suite) {
	l := s.listen(s.b, false)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.a.Publish(ended, plain(1, 1)); !errors.Is(err, context.Canceled) {
		s.Errorf("Publish with an ended context returned %v, want its error", err)
	}
	done := make(chan error, 1)
	go func() {
		done <- s.a.Receive(ended, func() { s.Error("Receive with an ended context called subscribed") }, func(*replica.Message) {})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			s.Errorf("Receive with an ended context returned %v, want its error", err)
		}
	case <-time.After(s.patience):
		s.Fatalf("Receive with an ended context did not return")
	}
	m := plain(1, 2)
	s.publish(s.a, m)
	l.expect(m)
	if l.heard(1)[1] != nil {
		s.Error("Publish with an ended context sent the message")
	}
}

// testNobodyListens: a router that is alone is no error.
func testNobodyListens(s *suite) {
	for i := range uint64(3) {
		s.publish(s.a, plain(1, i+1))
	}
}

// testSlow: one that doesn't take its messages holds up no publisher, and ends when it is
// told to, or when its carrier has had enough.
func testSlow(s *suite) {
	const messages = 300
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	slow := s.receive(s.b, gate)
	s.Cleanup(open)
	s.await("Receive calls subscribed", func() bool {
		slow.mu.Lock()
		defer slow.mu.Unlock()
		return slow.subscribed > 0
	})
	for i := range uint64(messages) {
		ctx, cancel := context.WithTimeout(context.Background(), s.patience)
		_ = s.a.Publish(ctx, plain(1, i+1)) // it may say that one is slow
		if ctx.Err() != nil {
			s.Errorf("Publish took more than %v because a receiver is slow", s.patience)
		}
		cancel()
		if s.Failed() {
			return
		}
	}
	open()
	s.await("the slow one has all, or is told that it hasn't", func() bool { return slow.over() || len(slow.heard(1)) == messages })
}

// testStops: Receive does not return while deliver runs, and calls it no more then.
func testStops(s *suite) {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	l := s.receive(s.b, gate)
	s.Cleanup(open)
	delivering := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.delivering > 0
	}
	seq := uint64(0)
	s.await("a message arrives", func() bool {
		seq++
		s.publish(s.a, plain(1, seq))
		return delivering()
	})
	l.cancel()
	const aMoment = 100 * time.Millisecond
	pause(aMoment)
	if l.over() {
		s.Error("Receive returned while deliver was running")
	}
	open()
	s.await("Receive returns at its context's end", l.over)
	s.publish(s.a, plain(1, seq+1))
	pause(aMoment) // deliver notices that it is called too late
}

// testBreak: a lost connection is reported, once it is noticed, for messages may have been
// lost with it; after it all goes on.
func testBreak(s *suite) {
	const rounds = 3
	for i := range uint64(rounds) {
		lb := s.listen(s.b, i > 0)
		first := plain(1+i, 1)
		s.eventually(s.a, first, lb)
		s.breakIt()
		s.await("Receive returns because the connection is lost", lb.over)
		if lb.err == nil || errors.Is(lb.err, context.Canceled) {
			s.Errorf("Receive returned %v when the connection was lost, want an error that says so", lb.err)
		}
	}
	la, lb := s.listen(s.a, true), s.listen(s.b, true)
	s.eventually(s.a, plain(100, 1), lb)
	s.eventually(s.b, plain(101, 1), la)
	s.await("both go on", func() bool { return !la.over() && !lb.over() })
}

// eventually publishes m until it arrives: the first may fail just after a break.
func (s *suite) eventually(from replica.Exchange, m *replica.Message, to *listener) {
	s.Helper()
	s.await("a message arrives", func() bool {
		if to.over() {
			s.Fatalf("Receive: %v", to.err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.patience)
		defer cancel()
		if err := from.Publish(ctx, m); err != nil {
			return false
		}
		for range 100 {
			if got := to.heard(m.Epoch)[m.Seq]; got != nil {
				return true
			}
			pause(time.Millisecond)
		}
		return false
	})
}

func plain(epoch, seq uint64) *replica.Message {
	return &replica.Message{
		Version: replica.Version, Router: "router", Epoch: epoch, Seq: seq,
		Loads: []replica.Load{{Instance: "worker@1", Rank: int(seq % 8), PrefillRequests: int(epoch % 1000), PrefillTokens: int(seq)}},
		Bookings: []replica.Booking{{
			Instance: "worker@1", Rank: int(seq % 8), TTL: time.Minute,
			Keys: []kvcache.Key{kvcache.Key(seq), kvcache.Key(epoch)},
		}},
	}
}

// samples are messages of each kind.
func samples(epoch uint64) []*replica.Message {
	ms := []*replica.Message{
		{},
		{Bye: true},
		{Full: true},
		{Router: "Ωμέγα 路由器 \x00\n"},
		{Full: true, Loads: []replica.Load{
			{Instance: "a@1"},
			{Instance: "a@1", Rank: replica.MaxRank},
			{Instance: "b@1", PrefillRequests: 1},
			{Instance: "b@1", Rank: 1, PrefillTokens: 2},
			{Instance: "c@1", PrefillPairs: 3},
			{Instance: "d@1", PrefillFor: 4 * time.Nanosecond},
			{Instance: "a@1", DecodeRequests: 5},
			{Instance: "e@1", OutputTokens: 6},
			{Instance: "f@1", ContextTokens: 7},
			{
				Instance: "g@1", Rank: 3, PrefillRequests: 1, PrefillTokens: 12_000, PrefillPairs: 72_000_000,
				PrefillFor: time.Second, DecodeRequests: 9, OutputTokens: 800, ContextTokens: 90_000,
			},
		}},
		{Bookings: []replica.Booking{
			{Instance: "a@1"},
			{Instance: "z@1", Rank: 1, Keys: []kvcache.Key{0, 1, 1 << 63, ^kvcache.Key(0)}, TTL: time.Minute},
			{Instance: "a@1", Rank: 2, Keys: []kvcache.Key{5}, TTL: time.Nanosecond},
		}},
	}
	for i, m := range ms {
		m.Version, m.Epoch, m.Seq = replica.Version, epoch, uint64(i)+1
	}
	ms[len(ms)-1].Seq = ^uint64(0)
	return ms
}

// biggest are messages at the bounds, all instances' names different.
func biggest() []*replica.Message {
	name := func(i int) string {
		s := strings.Repeat("n", replica.MaxName-8)
		for range 8 {
			s, i = s+string(rune('a'+i%16)), i/16
		}
		return s
	}
	loads := &replica.Message{Version: replica.Version, Router: strings.Repeat("r", replica.MaxName), Full: true}
	for i := range replica.MaxLoads {
		loads.Loads = append(loads.Loads, replica.Load{
			Instance: name(i), Rank: replica.MaxRank, PrefillRequests: replica.MaxAmount, PrefillTokens: replica.MaxAmount,
			PrefillPairs: replica.MaxPairs, PrefillFor: replica.MaxTime, DecodeRequests: replica.MaxAmount,
			OutputTokens: replica.MaxAmount, ContextTokens: replica.MaxAmount,
		})
	}
	bookings := &replica.Message{Version: replica.Version}
	for i := range replica.MaxBookings {
		b := replica.Booking{Instance: name(replica.MaxLoads + i), Rank: replica.MaxRank, TTL: replica.MaxTime}
		for j := range replica.MaxKeys / replica.MaxBookings {
			b.Keys = append(b.Keys, ^kvcache.Key(i*replica.MaxBookings+j))
		}
		bookings.Bookings = append(bookings.Bookings, b)
	}
	both := clone(loads)
	both.Bookings = clone(bookings).Bookings
	one := &replica.Message{Version: replica.Version}
	one.Bookings = []replica.Booking{{Instance: "a@1", Keys: make([]kvcache.Key, replica.MaxKeys)}}
	return []*replica.Message{loads, bookings, both, one}
}

// forbidden is the epoch of messages that nobody may send.
const forbidden = 1 << 40

// beyond are messages just beyond the bounds.
func beyond() map[string]*replica.Message {
	most := make([]kvcache.Key, replica.MaxKeys)
	all := map[string]*replica.Message{
		"too many loads":              {Loads: make([]replica.Load, replica.MaxLoads+1)},
		"too many bookings":           {Bookings: make([]replica.Booking, replica.MaxBookings+1)},
		"too many keys":               {Bookings: []replica.Booking{{Instance: "a", Keys: most}, {Instance: "b", Keys: most[:1]}}},
		"a router's name too long":    {Router: strings.Repeat("r", replica.MaxName+1)},
		"an instance's name too long": {Loads: []replica.Load{{Instance: strings.Repeat("i", replica.MaxName+1)}}},
		"no instance":                 {Bookings: []replica.Booking{{}}},
		"a rank below 0":              {Loads: []replica.Load{{Instance: "a", Rank: -1}}},
		"a rank too high":             {Bookings: []replica.Booking{{Instance: "a", Rank: replica.MaxRank + 1}}},
		"an amount below 0":           {Loads: []replica.Load{{Instance: "a", OutputTokens: -1}}},
		"a time below 0":              {Loads: []replica.Load{{Instance: "a", PrefillFor: -1}}},
	}
	for _, m := range all {
		m.Version, m.Epoch, m.Seq = replica.Version, forbidden, 1
		for i := range m.Loads {
			if len(m.Loads) > replica.MaxLoads {
				m.Loads[i].Instance = "a"
			}
		}
		for i := range m.Bookings {
			if len(m.Bookings) > replica.MaxBookings {
				m.Bookings[i].Instance = "a"
			}
		}
	}
	return all
}
