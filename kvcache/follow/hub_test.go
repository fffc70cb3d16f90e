package follow_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func hubPipe(t *testing.T, opts follow.PipeOptions) (*follow.Hub, *follow.Pipe, follow.Conn) {
	t.Helper()
	hub := follow.NewHub()
	p, err := hub.Open("p", opts)
	require.NoError(t, err)
	c, err := hub.Dial(context.Background(), p.Endpoint(0))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return hub, p, c
}

func recv(t *testing.T, c follow.Conn) follow.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m, err := c.Recv(ctx)
	require.NoError(t, err)
	return m
}

func replayed(t *testing.T, c follow.Conn, from uint64) []uint64 {
	t.Helper()
	var seqs []uint64
	require.NoError(t, c.Replay(context.Background(), from, func(m follow.Message) error {
		seqs = append(seqs, m.Seq)
		return nil
	}))
	return seqs
}

func TestHubDelivers(t *testing.T) {
	t.Parallel()
	hub, p, c := hubPipe(t, follow.PipeOptions{ReplayBatches: 2})
	payload := []byte("a")
	assert.Equal(t, uint64(0), p.Publish(payload))
	payload[0] = 'x' // the caller's own again
	assert.Equal(t, uint64(1), p.PublishTopic("kv", []byte("b")))
	m := recv(t, c)
	assert.Equal(t, follow.Message{Payload: []byte("a")}, m)
	m.Payload[0] = 'y' // the receiver's own
	assert.Equal(t, follow.Message{Topic: "kv", Seq: 1, Payload: []byte("b")}, recv(t, c))
	require.NoError(t, c.Replay(context.Background(), 0, func(m follow.Message) error {
		if m.Seq == 0 {
			assert.Equal(t, "a", string(m.Payload))
		}
		return nil
	}))
	p.Publish(nil)
	assert.Equal(t, []uint64{1, 2}, replayed(t, c, 0), "the ring holds two")
	assert.Equal(t, []uint64{2}, replayed(t, c, 2))
	assert.Empty(t, replayed(t, c, 3))
	stop := context.Canceled
	require.ErrorIs(t, c.Replay(context.Background(), 0, func(follow.Message) error { return stop }), stop)

	byTopic, err := hub.Dial(context.Background(), follow.Endpoint{Events: p.Addr(), Topic: "kv"})
	require.NoError(t, err)
	p.PublishTopic("other", nil)
	p.PublishTopic("kv@x", nil)
	assert.Equal(t, "kv@x", recv(t, byTopic).Topic)
	require.ErrorIs(t, byTopic.Replay(context.Background(), 0, nil), follow.ErrNoReplay)
	assert.Equal(t, 2, p.Subscribers())
	require.NoError(t, byTopic.Close())
	require.NoError(t, byTopic.Close())
	assert.Equal(t, 1, p.Subscribers())
	_, err = byTopic.Recv(context.Background())
	require.ErrorIs(t, err, follow.ErrClosed)
}

func TestHubFaults(t *testing.T) {
	t.Parallel()
	_, p, c := hubPipe(t, follow.PipeOptions{QueueSize: 2})
	for range 3 {
		p.Publish(nil) // the third finds the queue full
	}
	recv(t, c)
	recv(t, c)
	p.Lose(1)
	p.Publish(nil)
	p.Burn()
	p.Publish(nil)
	assert.Equal(t, uint64(5), recv(t, c).Seq)
	assert.Equal(t, []uint64{0, 1, 2, 3, 5}, replayed(t, c, 0))
	p.Trim(2)
	assert.Equal(t, []uint64{3, 5}, replayed(t, c, 0))
	p.Trim(5)
	assert.Len(t, replayed(t, c, 0), 2)

	p.RestartUnseen()
	assert.Zero(t, p.Next())
	assert.Empty(t, replayed(t, c, 0))
	p.Publish(nil)
	p.Disconnect()
	p.Publish(nil) // too late for c
	assert.Zero(t, recv(t, c).Seq)
	_, err := c.Recv(context.Background())
	require.ErrorIs(t, err, follow.ErrDisconnected)
}

func TestHubNames(t *testing.T) {
	t.Parallel()
	hub := follow.NewHub()
	_, err := hub.Open("", follow.PipeOptions{})
	require.ErrorIs(t, err, follow.ErrAddress)
	for _, ep := range []follow.Endpoint{{}, {Events: "inproc://"}, {Events: "tcp://x"}, {Events: "inproc://x", Replay: "y"}} {
		_, err = hub.Dial(context.Background(), ep)
		require.ErrorIs(t, err, follow.ErrAddress, "%v", ep)
	}
	// Dialled before it is there.
	ep := follow.Endpoint{Events: "inproc://late", Replay: "inproc://late"}
	early, err := hub.Dial(context.Background(), ep)
	require.NoError(t, err)
	gone, err := hub.Dial(context.Background(), ep)
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	require.ErrorIs(t, early.Replay(context.Background(), 0, nil), follow.ErrDisconnected)
	p, err := hub.Open("late", follow.PipeOptions{})
	require.NoError(t, err)
	assert.Equal(t, 1, p.Subscribers())
	p.Publish([]byte("hello"))
	assert.Equal(t, "hello", string(recv(t, early).Payload))

	_, err = hub.Open("late", follow.PipeOptions{})
	require.ErrorIs(t, err, follow.ErrNameTaken)
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	assert.Equal(t, p.Next(), p.Publish(nil), "closed: nothing is published")
	_, err = early.Recv(context.Background())
	require.ErrorIs(t, err, follow.ErrDisconnected)
	require.NoError(t, early.Close())
	_, err = hub.Open("late", follow.PipeOptions{})
	require.NoError(t, err)
}

func TestHubWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, p, c := hubPipe(t, follow.PipeOptions{})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Recv(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		p.Mute(true)
		require.ErrorIs(t, c.Replay(ctx, 0, nil), context.DeadlineExceeded)
		errs := make(chan error, 2)
		go func() { _, err := c.Recv(context.Background()); errs <- err }()
		go func() { errs <- c.Replay(context.Background(), 0, nil) }()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.ErrorIs(t, <-errs, follow.ErrClosed)
		require.ErrorIs(t, <-errs, follow.ErrClosed)
		require.ErrorIs(t, c.Replay(context.Background(), 0, nil), follow.ErrClosed)
	})
}
