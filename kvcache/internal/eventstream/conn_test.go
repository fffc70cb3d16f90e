package eventstream

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

func TestMain(m *testing.M) { leak.Main(m) }

var endpoint = follow.Endpoint{Events: "tcp://engine:5557", Replay: "tcp://engine:5558", Topic: "kv"}

func dial(t *testing.T, ep follow.Endpoint, buffer int64, source Source) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), ep, buffer, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// TestLastWords: what arrived before a loss is delivered, then the loss is
// reported again and again, and its cause doesn't show through as an error of
// its own.
func TestLastWords(t *testing.T) {
	c := dial(t, endpoint, 0, func(ctx context.Context, _ Job, s *Sink) error {
		s.Connected()
		for range 3 {
			if err := s.Take(ctx, parts("kv", seven, "p")); err != nil {
				return err
			}
		}
		return io.EOF
	})
	for range 3 {
		m, err := c.Recv(t.Context())
		require.NoError(t, err)
		require.Equal(t, uint64(7), m.Seq)
	}
	for range 3 {
		_, err := c.Recv(t.Context())
		require.ErrorIs(t, err, follow.ErrDisconnected)
		require.NotErrorIs(t, err, io.EOF)
		require.ErrorContains(t, err, "EOF")
	}
}

// TestJobs: the source is told what it is for, and other topics are kept away.
func TestJobs(t *testing.T) {
	jobs := make(chan Job, 2)
	c := dial(t, endpoint, 0, func(ctx context.Context, job Job, s *Sink) error {
		jobs <- job
		if job.Replay {
			return s.Take(ctx, parts("", end, ""))
		}
		if err := errors.Join(s.Take(ctx, parts("other", seven, "p")), s.Take(ctx, parts("kv@", seven, "q"))); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	m, err := c.Recv(t.Context())
	require.NoError(t, err)
	require.Equal(t, "kv@", m.Topic)
	require.NoError(t, c.Replay(t.Context(), 9, func(follow.Message) error { return nil }))
	require.Equal(t, Job{Address: Address{"tcp", "engine:5557", "tcp://engine:5557"}, Topic: "kv"}, <-jobs)
	require.Equal(t, Job{Address: Address{"tcp", "engine:5558", "tcp://engine:5558"}, Replay: true, From: 9}, <-jobs)
	require.Zero(t, c.Malformed())
}

// TestWhyNot: who gives up before there was a connection is told what was wrong
// with it.
func TestWhyNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, endpoint, 0, func(ctx context.Context, _ Job, s *Sink) error {
			s.Failed(errors.New("connection refused"))
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Recv(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "context deadline exceeded: not connected to tcp://engine:5557: connection refused")
		c.live.Connected()
		_, err = c.Recv(ctx)
		require.EqualError(t, err, "context deadline exceeded")
	})
}

// TestBounded: a source waits when the buffer is full, and goes on when there is
// room again; a message larger than the buffer is taken alone.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		taken := 0
		big := string(make([]byte, 5000))
		c := dial(t, endpoint, 2000, func(ctx context.Context, _ Job, s *Sink) error {
			for i := range n {
				taken = i
				payload := "p"
				if taken == n/2 {
					payload = big
				}
				if err := s.Take(ctx, parts("kv", seven, payload)); err != nil {
					return err
				}
			}
			taken = n
			return ErrComplete
		})
		synctest.Wait()
		held := taken
		require.Equal(t, 2000/(perMessage+len("kv")+len("p")), held)
		for i := range n {
			_, err := c.Recv(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			require.LessOrEqual(t, taken-i-1, held)
			require.LessOrEqual(t, cap(c.live.queue), 4*held+256, "the queue's own memory is bounded too")
		}
	})
}

// TestCloseFromCallback: a replay's callback may close the connection.
func TestCloseFromCallback(t *testing.T) {
	c := dial(t, endpoint, 0, func(ctx context.Context, job Job, s *Sink) error {
		for job.Replay {
			if err := s.Take(ctx, parts("", seven, "p")); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	})
	calls := 0
	err := c.Replay(t.Context(), 0, func(follow.Message) error {
		calls++
		return c.Close()
	})
	require.ErrorIs(t, err, follow.ErrClosed)
	require.Equal(t, 1, calls)
	require.ErrorIs(t, c.Replay(t.Context(), 0, nil), follow.ErrClosed)
}

// TestReplayWaits: when Replay returns, however it does, its connection is gone.
func TestReplayWaits(t *testing.T) {
	released := false
	c := dial(t, endpoint, 0, func(ctx context.Context, job Job, s *Sink) error {
		if job.Replay {
			defer func() {
				time.Sleep(10 * time.Millisecond) // what if releasing takes a while?
				released = true
			}()
			if err := s.Take(ctx, parts("", seven, "p")); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return ctx.Err()
	})
	stop := errors.New("enough")
	require.ErrorIs(t, c.Replay(t.Context(), 0, func(follow.Message) error { return stop }), stop)
	require.True(t, released)
	released = false
	require.Panics(t, func() {
		_ = c.Replay(t.Context(), 0, func(follow.Message) error { panic("callback") })
	})
	require.True(t, released)
}

// TestSinkLetsGo: a message that was taken is not kept alive by the buffer.
func TestSinkLetsGo(t *testing.T) {
	s := newSink(Job{}, DefaultBuffer, nil)
	for range 3 {
		require.NoError(t, s.push(t.Context(), follow.Message{Payload: []byte("p")}))
	}
	_, ok, _, _ := s.take() //nolint:dogsled // the rest is tested elsewhere
	require.True(t, ok)
	require.Nil(t, s.queue[0].Payload)
	require.NotNil(t, s.queue[1].Payload)
}

func TestBackoffBounds(t *testing.T) {
	for _, c := range []struct {
		b    Backoff
		want []int
	}{
		{Backoff{}, []int{100, 200, 400, 800, 1600, 2000, 2000}},
		{Backoff{Min: 5 * time.Millisecond, Max: 10 * time.Millisecond}, []int{5, 10, 10}},
		{Backoff{Min: 9 * time.Second}, []int{9000, 9000}},
	} {
		for _, milliseconds := range c.want {
			want := time.Duration(milliseconds) * time.Millisecond
			got := c.b.Next()
			require.LessOrEqual(t, got, want)
			require.GreaterOrEqual(t, got, want-want/4)
		}
	}
}
