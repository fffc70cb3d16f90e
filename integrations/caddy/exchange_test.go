package kvsteercaddy

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/replica"
)

// carrier keeps what is published, and delivers what it is told to.
type carrier struct {
	failure error
	sent    []*replica.Message
	arrives []*replica.Message
}

func (c *carrier) Publish(_ context.Context, m *replica.Message) error {
	if c.failure == nil {
		c.sent = append(c.sent, m)
	}
	return c.failure
}

func (c *carrier) Receive(_ context.Context, subscribed func(), deliver func(*replica.Message)) error {
	subscribed()
	for _, m := range c.arrives {
		deliver(m)
	}
	return errors.New("over")
}

// take returns what was published since it was last asked.
func (c *carrier) take() []*replica.Message {
	sent := c.sent
	c.sent = nil
	return sent
}

func full() *replica.Message {
	return &replica.Message{Version: replica.Version, Router: "a", Epoch: 1, Seq: 7, Full: true, Loads: []replica.Load{{Instance: "w", DecodeRequests: 1}}}
}

func sit(t *testing.T, x *exchange) (s *seat, leave func()) {
	t.Helper()
	_, leave = x.join()
	return x.seats[len(x.seats)-1], leave
}

// Routers of one fleet count the same requests: only the latest tells of them, under an
// epoch that is new to the others, and those before it are told to be over.
func TestOneRouterSpeaks(t *testing.T) {
	ctx, c := t.Context(), &carrier{}
	x := newExchange(c, "a")
	old, oldLeaves := sit(t, x)
	require.NoError(t, old.Publish(ctx, full()))
	require.NoError(t, old.Publish(ctx, full()))
	sent := c.take()
	require.Len(t, sent, 2)
	first := sent[0].Epoch
	require.NotZero(t, first)
	require.Equal(t, []uint64{first, first}, []uint64{sent[0].Epoch, sent[1].Epoch})
	require.Equal(t, []uint64{1, 2}, []uint64{sent[0].Seq, sent[1].Seq})

	latest, latestLeaves := sit(t, x)
	require.NoError(t, old.Publish(ctx, full()), "another speaks for it")
	require.Empty(t, c.take())
	booked := full()
	booked.Bookings = []replica.Booking{{Instance: "w"}}
	require.NoError(t, old.Publish(ctx, booked))
	require.True(t, booked.Full, "it is the caller's")
	sent = c.take()
	require.Len(t, sent, 1, "nobody else knows of these")
	require.Equal(t, replica.Message{Version: replica.Version, Router: "a", Epoch: first, Seq: 3, Bookings: booked.Bookings}, *sent[0])

	require.NoError(t, latest.Publish(ctx, full()))
	sent = c.take()
	require.Len(t, sent, 2)
	second := sent[0].Epoch
	require.NotEqual(t, first, second)
	require.True(t, sent[0].Full)
	require.Equal(t, replica.Message{Version: replica.Version, Router: "a", Epoch: first, Seq: 4, Bye: true}, *sent[1], "twice for a moment, rather than not at all")

	// The latest ends, as one that was only looked at: the one before it goes on.
	require.NoError(t, latest.Publish(ctx, &replica.Message{Version: replica.Version, Bye: true}))
	latestLeaves()
	require.Empty(t, c.take())
	require.NoError(t, old.Publish(ctx, full()))
	sent = c.take()
	require.Len(t, sent, 1)
	require.Equal(t, second, sent[0].Epoch, "it tells the same")
	require.EqualValues(t, 2, sent[0].Seq)

	require.NoError(t, old.Publish(ctx, &replica.Message{Version: replica.Version, Bye: true}))
	oldLeaves()
	sent = c.take()
	require.Len(t, sent, 1)
	require.Equal(t, replica.Message{Version: replica.Version, Router: "a", Epoch: second, Seq: 3, Bye: true}, *sent[0])

	// Others know none of them from another process; here they are ours.
	var heard []uint64
	c.arrives = []*replica.Message{{Epoch: first}, {Epoch: second}, {Epoch: second + 1}, {Version: 9}}
	require.Error(t, old.Receive(ctx, func() {}, func(m *replica.Message) { heard = append(heard, m.Epoch) }))
	require.Equal(t, []uint64{second + 1, 0}, heard)
}

// What could not be told is told with the next message, and every router knows of it.
func TestTellingFails(t *testing.T) {
	ctx, c := t.Context(), &carrier{}
	x := newExchange(c, "a")
	old, _ := sit(t, x)
	require.NoError(t, old.Publish(ctx, full()))
	first := c.take()[0].Epoch
	latest, _ := sit(t, x)
	c.failure = errors.New("no Redis")
	require.ErrorIs(t, latest.Publish(ctx, full()), c.failure)
	require.ErrorIs(t, old.Publish(ctx, full()), c.failure, "though it says nothing itself")
	c.failure = nil
	require.NoError(t, latest.Publish(ctx, full()))
	sent := c.take()
	require.Len(t, sent, 2)
	require.True(t, sent[1].Bye)
	require.Equal(t, first, sent[1].Epoch)
	require.NoError(t, old.Publish(ctx, full()))

	x.turn <- struct{}{} // somebody publishes, and does not come to an end
	over, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, latest.Publish(over, full()), context.Canceled)
}

// A router whose New fails was never heard of.
func TestARouterThatNeverWas(t *testing.T) {
	c := &carrier{}
	x := newExchange(c, "a")
	_, leave := sit(t, x)
	leave()
	require.Empty(t, x.seats)
	require.Empty(t, c.take())
	opts, leave := (*exchange)(nil).join()
	require.Empty(t, opts)
	leave()
	require.NoError(t, (*exchange)(nil).Close())
}

func TestWrongRedis(t *testing.T) {
	for _, c := range []struct {
		redis Redis
		want  string
	}{
		{Redis{}, "redis: url: it is empty"},
		{Redis{URL: "redis", Name: strings.Repeat("x", 257)}, "redis: name: it has 257 bytes; 256 are allowed"},
		{Redis{URL: "http://:hunter2@redis"}, "redis: url: "},
	} {
		err := c.redis.check()
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "hunter2")
	}
	require.NoError(t, (&Redis{URL: "{env.REDIS}"}).check())
	_, err := openExchange(&Redis{URL: "http://redis"}, nil)
	require.ErrorContains(t, err, "redis: url: ")
}
