package zmtp

import (
	"context"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

const patience = 40 * time.Second

func publish(t *testing.T, cfg PublisherConfig) *Publisher {
	t.Helper()
	p, err := NewPublisher(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func subscribe(t *testing.T, p *Publisher, topic string) follow.Conn {
	t.Helper()
	ep := p.Endpoint()
	ep.Topic = topic
	before := p.Subscribers()
	c, err := (&Transport{}).Dial(t.Context(), ep)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	require.Eventually(t, func() bool { return p.Subscribers() > before }, patience, time.Millisecond)
	return c
}

func recv(t *testing.T, c follow.Conn) follow.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := c.Recv(ctx)
	require.NoError(t, err)
	return m
}

func TestPublisherNumbers(t *testing.T) {
	p := publish(t, PublisherConfig{Replay: "tcp://127.0.0.1:0", ReplayTopic: true})
	c := subscribe(t, p, "")
	for want := range uint64(3) {
		seq, err := p.Publish("kv", []byte{byte(want)})
		require.NoError(t, err)
		require.Equal(t, want, seq)
		require.Equal(t, follow.Message{Topic: "kv", Seq: want, Payload: []byte{byte(want)}}, recv(t, c))
	}
	require.NoError(t, p.Record(follow.Message{Topic: "kv", Seq: 3, Payload: []byte{3}}))
	seq, err := p.Publish("kv", []byte{4})
	require.NoError(t, err)
	require.Equal(t, uint64(4), seq)
	require.Equal(t, uint64(4), recv(t, c).Seq, "a recorded message is not sent")

	var got []uint64
	require.NoError(t, c.Replay(t.Context(), 2, func(m follow.Message) error {
		require.Equal(t, "kv", m.Topic)
		require.Equal(t, []byte{byte(m.Seq)}, m.Payload)
		got = append(got, m.Seq)
		return nil
	}))
	require.Equal(t, []uint64{2, 3, 4}, got, "but it is replayed")
}

func TestPublisherClosed(t *testing.T) {
	p := publish(t, PublisherConfig{})
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	_, err := p.Publish("kv", nil)
	require.ErrorIs(t, err, ErrPublisherClosed)
	require.ErrorIs(t, p.Send(follow.Message{}), ErrPublisherClosed)
	require.ErrorIs(t, p.Record(follow.Message{}), ErrPublisherClosed)
	require.ErrorIs(t, p.SendFrames(nil), ErrPublisherClosed)
	require.Error(t, p.SendFrames())
}

func TestPublisherAddresses(t *testing.T) {
	p := publish(t, PublisherConfig{Events: "tcp://*:0", Replay: "tcp://0.0.0.0:0"})
	require.Regexp(t, `^tcp://127\.0\.0\.1:\d+$`, p.Endpoint().Events)
	require.Regexp(t, `^tcp://127\.0\.0\.1:\d+$`, p.Endpoint().Replay)

	var bad *AddressError
	_, err := NewPublisher(PublisherConfig{Events: "5557"})
	require.ErrorAs(t, err, &bad)
	_, err = NewPublisher(PublisherConfig{Replay: "tcp://127.0.0.1"})
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "tcp://127.0.0.1", bad.Address)

	_, err = NewPublisher(PublisherConfig{Replay: p.Endpoint().Events})
	require.ErrorContains(t, err, "zmtp: publisher: ", "the address is taken")
}

// TestIPC: both sockets over unix domain ones, and again after a publisher died
// without removing its socket.
func TestIPC(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of sockets differ")
	}
	dir := t.TempDir()
	events, replay := filepath.Join(dir, "e"), filepath.Join(dir, "r")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: events, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())

	p := publish(t, PublisherConfig{Events: "ipc://" + events, Replay: "ipc://" + replay})
	require.Equal(t, follow.Endpoint{Events: "ipc://" + events, Replay: "ipc://" + replay}, p.Endpoint())
	c := subscribe(t, p, "kv")
	_, err = p.Publish("kv", []byte("x"))
	require.NoError(t, err)
	require.Equal(t, "x", string(recv(t, c).Payload))
	n := 0
	require.NoError(t, c.Replay(t.Context(), 0, func(follow.Message) error { n++; return nil }))
	require.Equal(t, 1, n)
}

// TestMalformedCounted: skipped messages can be counted by whoever asks.
func TestMalformedCounted(t *testing.T) {
	p := publish(t, PublisherConfig{})
	c := subscribe(t, p, "")
	require.NoError(t, p.SendFrames([]byte("kv")))
	require.NoError(t, p.SendFrames([]byte("kv"), []byte("seven b"), []byte("payload")))
	_, err := p.Publish("kv", nil)
	require.NoError(t, err)
	recv(t, c)
	counter, ok := c.(interface{ Malformed() int64 })
	require.True(t, ok)
	require.Equal(t, int64(2), counter.Malformed())
}

// TestSubscriptionsCounted: a prefix subscribed to twice needs two cancels, and
// their number is bounded.
func TestSubscriptionsCounted(t *testing.T) {
	s := &subscriber{topics: map[string]int{}, wake: make(chan struct{}, 1)}
	s.subscribe("kv", 1)
	s.subscribe("kv", 1)
	s.subscribe("kv", -1)
	require.True(t, s.wants("kv@a"))
	s.subscribe("kv", -1)
	s.subscribe("kv", -1)
	require.False(t, s.wants("kv@a"))
	for i := range 2 * maxTopics {
		s.subscribe(string(rune(i)), 1)
	}
	require.Len(t, s.topics, maxTopics)
}

// TestHighWaterMark: what a subscriber doesn't take is dropped for it, the
// newest first.
func TestHighWaterMark(t *testing.T) {
	s := &subscriber{topics: map[string]int{"": 1}, wake: make(chan struct{}, 1)}
	for i := range 5 {
		s.offer("kv", []byte{byte(i)}, 3)
	}
	for i := range 3 {
		require.Equal(t, []byte{byte(i)}, s.pop())
	}
	require.Nil(t, s.pop())
	s.offer("kv", make([]byte, maxQueued), 3)
	s.offer("kv", []byte{1}, 3)
	require.Len(t, s.pop(), maxQueued)
	require.Nil(t, s.pop())
}
