//go:build cgo

package zmq_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmq"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

func TestPublisherNumbers(t *testing.T) {
	p, err := zmq.NewPublisher(zmq.PublisherConfig{Events: "tcp://*:0", Replay: "tcp://*:0", ReplayTopic: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	require.Regexp(t, `^tcp://127\.0\.0\.1:\d+$`, p.Endpoint().Events)
	for want := range uint64(3) {
		seq, err := p.Publish("kv", []byte{byte(want)})
		require.NoError(t, err)
		require.Equal(t, want, seq)
	}
	require.NoError(t, p.Record(follow.Message{Topic: "kv", Seq: 9, Payload: []byte{9}}))
	seq, err := p.Publish("kv", []byte{10})
	require.NoError(t, err)
	require.Equal(t, uint64(10), seq)

	var transport zmtp.Transport
	c, err := transport.Dial(t.Context(), p.Endpoint())
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	var got []follow.Message
	require.NoError(t, c.Replay(t.Context(), 2, func(m follow.Message) error {
		got = append(got, m)
		return nil
	}))
	require.Equal(t, []follow.Message{
		{Topic: "kv", Seq: 2, Payload: []byte{2}},
		{Topic: "kv", Seq: 9, Payload: []byte{9}},
		{Topic: "kv", Seq: 10, Payload: []byte{10}},
	}, got)
}

func TestPublisherClosed(t *testing.T) {
	p, err := zmq.NewPublisher(zmq.PublisherConfig{})
	require.NoError(t, err)
	require.Empty(t, p.Endpoint().Replay)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	_, err = p.Publish("kv", nil)
	require.ErrorIs(t, err, zmq.ErrPublisherClosed)
	require.ErrorIs(t, p.Send(follow.Message{}), zmq.ErrPublisherClosed)
	require.ErrorIs(t, p.Record(follow.Message{}), zmq.ErrPublisherClosed)
	require.ErrorIs(t, p.SendFrames(nil), zmq.ErrPublisherClosed)
	require.Error(t, p.SendFrames())
}

func TestPublisherAddresses(t *testing.T) {
	var bad *zmq.AddressError
	_, err := zmq.NewPublisher(zmq.PublisherConfig{Events: "5557"})
	require.ErrorAs(t, err, &bad)
	p, err := zmq.NewPublisher(zmq.PublisherConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	_, err = zmq.NewPublisher(zmq.PublisherConfig{Replay: p.Endpoint().Events})
	require.ErrorContains(t, err, "zmq: publisher: ", "the address is taken")
}

// TestIPC: libzmq and the pure Go client agree on what ipc:// means.
func TestIPC(t *testing.T) {
	dir := t.TempDir()
	p, err := zmq.NewPublisher(zmq.PublisherConfig{
		Events: "ipc://" + filepath.Join(dir, "e"), Replay: "ipc://" + filepath.Join(dir, "r"),
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	require.NoError(t, p.Record(follow.Message{Seq: 0, Payload: []byte("x")}))
	for _, transport := range []follow.Transport{&zmq.Transport{}, &zmtp.Transport{}} {
		c, err := transport.Dial(t.Context(), p.Endpoint())
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			require.NoError(t, p.SendFrames([]byte("kv"), make([]byte, 8), []byte("y")))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			m, err := c.Recv(ctx)
			return err == nil && string(m.Payload) == "y"
		}, patience, time.Millisecond)
		n := 0
		require.NoError(t, c.Replay(t.Context(), 0, func(follow.Message) error { n++; return nil }))
		require.Equal(t, 1, n)
		require.NoError(t, c.Close())
	}
}

// TestMaxMessage: a larger frame ends the connection.
func TestMaxMessage(t *testing.T) {
	p, err := zmq.NewPublisher(zmq.PublisherConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	for _, transport := range []follow.Transport{&zmq.Transport{MaxMessage: 1000}, &zmtp.Transport{MaxMessage: 1000}} {
		c, err := transport.Dial(t.Context(), p.Endpoint())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for size := 900; err == nil; {
			require.NoError(t, p.SendFrames([]byte("kv"), make([]byte, 8), make([]byte, size)))
			short, stop := context.WithTimeout(ctx, 10*time.Millisecond)
			_, err = c.Recv(short)
			stop()
			switch {
			case err == nil: // it arrives; now for a larger one
				size = 1001
			case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
				err = nil
			default:
			}
		}
		require.ErrorIs(t, err, follow.ErrDisconnected)
		cancel()
		require.NoError(t, c.Close())
	}
}

// TestManyConns: libzmq's default number of sockets is no bound on ours.
func TestManyConns(t *testing.T) {
	const conns = 300 // of five sockets each
	p, err := zmq.NewPublisher(zmq.PublisherConfig{})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	var transport zmq.Transport
	var all []follow.Conn
	for range conns {
		c, err := transport.Dial(t.Context(), p.Endpoint())
		require.NoError(t, err)
		all = append(all, c)
	}
	for _, c := range all {
		require.Eventually(t, func() bool {
			require.NoError(t, p.SendFrames([]byte("kv"), make([]byte, 8), []byte("y")))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := c.Recv(ctx)
			return err == nil
		}, patience, time.Millisecond)
	}
	for _, c := range all {
		require.NoError(t, c.Close())
	}
}

func ExampleTransport_Dial() {
	engine, err := zmq.NewPublisher(zmq.PublisherConfig{Replay: "tcp://127.0.0.1:0", ReplayTopic: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	_, _ = engine.Publish("kv@pod@model", []byte("published before anybody listened"))

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var transport zmq.Transport
	conn, err := transport.Dial(ctx, engine.Endpoint())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	err = conn.Replay(ctx, 0, func(m follow.Message) error {
		fmt.Printf("%d %s: %s\n", m.Seq, m.Topic, m.Payload)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 0 kv@pod@model: published before anybody listened
	// <nil>
}

func ExampleNewPublisher() {
	p, err := zmq.NewPublisher(zmq.PublisherConfig{Events: "tcp://127.0.0.1:0"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()
	first, _ := p.Publish("kv-events", []byte("batch"))
	second, _ := p.Publish("kv-events", []byte("batch"))
	fmt.Println(first, second)
	// Output: 0 1
}

func ExampleAddressError() {
	var transport zmq.Transport
	_, err := transport.Dial(context.Background(), follow.Endpoint{Events: "tcp://10.0.0.7"})
	var bad *zmq.AddressError
	fmt.Println(errors.As(err, &bad), bad.Address)
	// Output: true tcp://10.0.0.7
}
