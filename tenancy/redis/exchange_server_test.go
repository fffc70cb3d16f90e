//go:build unix

package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/pb"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

// exchange is one replica's on s.
func (s *server) exchange(t testing.TB, o ExchangeOptions) *Exchange {
	t.Helper()
	return newExchange(t, s.client(t), o)
}

func newExchange(t testing.TB, c *goredis.Client, o ExchangeOptions) *Exchange {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	if o.Deadline == 0 {
		o.Deadline = longEnough
	}
	if o.Silence == 0 {
		o.Silence = longEnough // the machine may be busy
	}
	e, err := NewExchange(c, o)
	require.NoError(t, err)
	return e
}

// killSubscribers cuts off all who listen.
func (s *server) killSubscribers(t testing.TB) {
	t.Helper()
	c := s.client(t)
	defer c.Close()
	require.NoError(t, c.ClientKillByFilter(context.Background(), "TYPE", "pubsub").Err())
}

// subscribers is how many listen.
func (s *server) subscribers(t testing.TB) int {
	t.Helper()
	c := s.client(t)
	defer c.Close()
	list, err := c.Do(context.Background(), "client", "list", "type", "pubsub").Text()
	require.NoError(t, err)
	return strings.Count(list, "id=")
}

func TestExchangeConformance(t *testing.T) {
	for name, o := range map[string]ExchangeOptions{"pubsub": {}, "sharded": {Sharded: true}} {
		for broken, by := range map[string]func(*testing.T, *server){
			"killed":    func(t *testing.T, s *server) { t.Helper(); s.killSubscribers(t) },
			"restarted": func(_ *testing.T, s *server) { s.kill(); s.start() },
		} {
			t.Run(name+" "+broken, func(t *testing.T) {
				replicatest.Run(t, func(t *testing.T) (a, b replica.Exchange, breakIt func()) {
					t.Helper()
					s := newServer(t)
					return s.exchange(t, o), s.exchange(t, o), func() { by(t, s) }
				})
			})
		}
	}
}

// router receives again and again, as a router does, and publishes numbers.
type router struct {
	*Exchange
	epoch uint64
	seq   atomic.Uint64

	mu     sync.Mutex
	latest map[uint64]uint64 // by epoch
	errs   []error
}

func (r *router) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		for ctx.Err() == nil {
			err := r.Receive(ctx, nil, func(m *replica.Message) {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.latest[m.Epoch] = m.Seq
			})
			r.mu.Lock()
			r.errs = append(r.errs, err)
			r.mu.Unlock()
			wait(ctx, 10*time.Millisecond)
		}
	})
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		_ = r.Publish(bounded, message(r.epoch, r.seq.Add(1)))
		cancel()
		wait(ctx, 5*time.Millisecond)
	}
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// hears waits until something of epoch comes that is newer than now.
func (r *router) hears(t *testing.T, other *router) {
	t.Helper()
	now := other.seq.Load()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.latest[other.epoch] > now
	}, longEnough, time.Millisecond)
}

// Two replicas go on hearing each other after whatever happens to Redis, and each knows
// that it has missed something.
func TestExchangeSurvives(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(context.Background())
	routers := make([]*router, 2)
	var all sync.WaitGroup
	for i := range routers {
		routers[i] = &router{Exchange: s.exchange(t, ExchangeOptions{}), epoch: uint64(i + 1), latest: make(map[uint64]uint64)}
		all.Go(func() { routers[i].run(ctx) })
	}
	defer all.Wait()
	defer cancel()
	both := func() {
		routers[0].hears(t, routers[1])
		routers[1].hears(t, routers[0])
	}
	both()
	for i := range 3 {
		before := [...]uint64{routers[0].Stats().Lost, routers[1].Stats().Lost}
		if i == 1 {
			s.killSubscribers(t)
		} else {
			s.kill()
			s.start()
		}
		for j, r := range routers {
			require.Eventually(t, func() bool { return r.Stats().Lost > before[j] }, longEnough, time.Millisecond)
		}
		both()
	}
	cancel()
	all.Wait()
	for _, r := range routers {
		require.ErrorIs(t, r.errs[len(r.errs)-1], context.Canceled)
		for _, err := range r.errs[:len(r.errs)-1] {
			require.ErrorContains(t, err, "replica/redis: receive: ")
		}
		st := r.Stats()
		require.Positive(t, st.Published)
		require.Positive(t, st.Received)
		require.Greater(t, st.SentBytes, st.Published*4000)
		require.Greater(t, st.ReceivedBytes, st.Received*4000)
		require.Zero(t, st.Malformed+st.OtherVersion)
	}
	require.Eventually(t, func() bool { return s.subscribers(t) == 0 }, longEnough, 10*time.Millisecond)
}

// receiving is a Receive that runs.
type receiving struct {
	cancel context.CancelFunc
	err    chan error
}

// start returns once the subscription stands.
func (e *Exchange) start(t *testing.T, deliver func(*replica.Message)) *receiving {
	t.Helper()
	r, err := e.tryStart(t, deliver)
	require.NoError(t, err)
	return r
}

// tryStart returns once the subscription stands, or why it doesn't.
func (e *Exchange) tryStart(t *testing.T, deliver func(*replica.Message)) (*receiving, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &receiving{cancel: cancel, err: make(chan error, 1)}
	begun, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		r.err <- e.Receive(ctx, func() { close(begun) }, deliver)
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	select {
	case <-begun:
		return r, nil
	case err := <-r.err:
		return nil, err
	case <-time.After(longEnough):
		return nil, errors.New("no subscription")
	}
}

func (r *receiving) ends(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.err:
		return err
	case <-time.After(longEnough):
		require.Fail(t, "Receive doesn't end")
		return nil
	}
}

// Redis cuts off one that doesn't take what it is sent; Receive reports that.
func TestExchangeOverflow(t *testing.T) {
	s := newServer(t, "--client-output-buffer-limit", "pubsub 256kb 128kb 60")
	a, b := s.exchange(t, ExchangeOptions{}), s.exchange(t, ExchangeOptions{})
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	var delivered atomic.Int64
	r := b.start(t, func(*replica.Message) { <-gate; delivered.Add(1) })
	defer open()
	const most = 10_000
	var sent int64
	for s.subscribers(t) > 0 {
		require.Less(t, sent, int64(most), "Redis doesn't mind")
		for range 20 {
			sent++
			require.NoError(t, a.Publish(context.Background(), message(1, uint64(sent))))
		}
	}
	open()
	err := r.ends(t)
	require.ErrorContains(t, err, "replica/redis: receive: ")
	require.Less(t, delivered.Load(), sent)
	require.EqualValues(t, 1, b.Stats().Lost)
	// The next one hears what comes from now on.
	got := make(chan uint64, 1)
	b.start(t, func(m *replica.Message) { got <- m.Seq })
	require.NoError(t, a.Publish(context.Background(), message(1, 99_999)))
	require.EqualValues(t, 99_999, <-got)
}

// A Redis that hangs is noticed within the Silence, and Publish is bounded.
func TestExchangeSilence(t *testing.T) {
	s := newServer(t)
	// Its connection gives up after the Silence, which says so then.
	e := newExchange(t, s.clientThatReads(t, 10*time.Second), ExchangeOptions{Silence: 2 * time.Second, Deadline: 100 * time.Millisecond})
	var r *receiving
	require.Eventually(t, func() bool { // both times are short for a busy machine
		var err error
		r, err = e.tryStart(t, func(*replica.Message) {})
		return err == nil && e.Publish(context.Background(), message(1, 1)) == nil
	}, longEnough, time.Millisecond)
	s.signal(syscall.SIGSTOP)
	require.ErrorIs(t, r.ends(t), errSilent)
	require.ErrorContains(t, e.Publish(context.Background(), message(1, 2)), "no answer within the Deadline of 100ms")
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	require.Equal(t, context.DeadlineExceeded, e.Publish(ctx, message(1, 3)))
	// Nor does it take longer to find that there is nobody to subscribe at.
	require.ErrorIs(t, e.Receive(context.Background(), func() { t.Error("subscribed") }, nil), errSilent)
	s.signal(syscall.SIGCONT)
	require.Eventually(t, func() bool {
		_, err := e.tryStart(t, func(*replica.Message) {})
		return err == nil
	}, longEnough, time.Millisecond)
}

// Where nothing happens, PINGs show that the connection lives.
func TestExchangeIdle(t *testing.T) {
	s := newServer(t)
	growing(t, 2*time.Second, func(silence time.Duration) bool {
		e := s.exchange(t, ExchangeOptions{Silence: silence})
		r, err := e.tryStart(t, func(*replica.Message) {})
		if err != nil {
			return false
		}
		wait(context.Background(), silence+silence/2)
		r.cancel()
		if err := r.ends(t); !errors.Is(err, context.Canceled) {
			t.Log(err)
			return false
		}
		require.Zero(t, e.Stats().Lost)
		return true
	})
}

// A deliver that takes longer than the Silence is not a dead connection.
func TestExchangeSlowDeliver(t *testing.T) {
	s := newServer(t)
	growing(t, time.Second, func(silence time.Duration) bool {
		e := s.exchange(t, ExchangeOptions{Silence: silence})
		both := make(chan struct{}, 2)
		r, err := e.tryStart(t, func(*replica.Message) {
			wait(context.Background(), silence+silence/2)
			both <- struct{}{}
		})
		if err != nil {
			return false
		}
		for i := range uint64(2) {
			require.NoError(t, e.Publish(context.Background(), message(1, i+1)))
		}
		for range 2 {
			select {
			case <-both:
			case err := <-r.err:
				t.Log(err)
				return false
			}
		}
		return true
	})
}

// What is no message of this version is counted, and does no harm to others.
func TestExchangeSkips(t *testing.T) {
	s := newServer(t)
	logged := &lines{}
	e := s.exchange(t, ExchangeOptions{Channel: "mine", Logger: logged.logger()})
	got := make(chan *replica.Message, 100)
	e.start(t, func(m *replica.Message) { got <- m })
	c := s.client(t)
	defer c.Close()
	later := message(1, 1)
	later.Version++
	newer, err := pb.Marshal(later)
	require.NoError(t, err)
	bad, err := pb.Marshal(message(1, 1))
	require.NoError(t, err)
	ctx := context.Background()
	for _, payload := range []any{"secret prompt", "", bad[:len(bad)-1], newer, newer, strings.Repeat("x", pb.MaxBytes+1)} {
		require.NoError(t, c.Publish(ctx, "mine", payload).Err())
	}
	require.NoError(t, e.Publish(ctx, message(1, 2)))
	for range 2 {
		require.Equal(t, &replica.Message{Version: 2}, <-got)
	}
	require.Equal(t, message(1, 2), <-got)
	require.Empty(t, got)
	st := e.Stats()
	require.EqualValues(t, 4, st.Malformed)
	require.EqualValues(t, 2, st.OtherVersion)
	require.EqualValues(t, 1, st.Received)
	require.Equal(t, 1, strings.Count(logged.String(), "speaks another version"), logged.String())
	require.Equal(t, 1, strings.Count(logged.String(), "a message of no replica"), logged.String())
	require.NotContains(t, logged.String(), "secret")

	require.ErrorIs(t, e.Publish(ctx, &replica.Message{Version: replica.Version}), replica.ErrBounds)
	require.EqualValues(t, 1, e.Stats().Failed)
}

// Gateways with other channels hear nothing of each other.
func TestExchangeChannels(t *testing.T) {
	s := newServer(t)
	one, other := s.exchange(t, ExchangeOptions{}), s.exchange(t, ExchangeOptions{Channel: "kvsteer:other"})
	got := make(chan uint64, 10)
	one.start(t, func(m *replica.Message) { got <- m.Epoch })
	require.NoError(t, other.Publish(context.Background(), message(1, 1)))
	require.NoError(t, one.Publish(context.Background(), message(2, 1)))
	require.EqualValues(t, 2, <-got)
	require.Empty(t, got)
}

// as is a client that logs in under another name.
func (s *server) as(t *testing.T, user string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{
		Network: "unix", Addr: s.socket, ContextTimeoutEnabled: true, Username: user, Password: "secret",
		DialTimeout: longEnough, ReadTimeout: longEnough, WriteTimeout: longEnough, PoolTimeout: longEnough,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A user that may not use the channel is told so; what docs/replicas.md gives is enough.
func TestExchangeUsers(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	defer c.Close()
	ctx := context.Background()
	for _, rules := range []string{
		"gateway on >secret resetchannels &chat-gateway +publish +subscribe +ping +hello",
		"weak on >secret resetchannels ~* +@all",
	} {
		args := []any{"acl", "setuser"}
		for word := range strings.FieldsSeq(rules) {
			args = append(args, word)
		}
		require.NoError(t, c.Do(ctx, args...).Err())
	}
	o := ExchangeOptions{Channel: "chat-gateway", Deadline: longEnough, Silence: longEnough}
	weak, err := NewExchange(s.as(t, "weak"), o)
	require.NoError(t, err)
	require.ErrorContains(t, weak.Receive(ctx, func() { t.Error("subscribed") }, nil), "NOPERM")
	require.ErrorContains(t, weak.Publish(ctx, message(1, 1)), "NOPERM")
	require.Equal(t, ExchangeStats{Failed: 1, Lost: 1}, weak.Stats())

	strong, err := NewExchange(s.as(t, "gateway"), o)
	require.NoError(t, err)
	got := make(chan uint64, 1)
	strong.start(t, func(m *replica.Message) { got <- m.Seq })
	require.NoError(t, strong.Publish(ctx, message(1, 5)))
	require.EqualValues(t, 5, <-got)
}

// Nobody is there, and it takes no time to say so.
func TestExchangeAlone(t *testing.T) {
	s := newServer(t)
	e := s.exchange(t, ExchangeOptions{})
	s.kill()
	require.ErrorContains(t, e.Receive(context.Background(), nil, nil), "replica/redis: receive: ")
	require.ErrorContains(t, e.Publish(context.Background(), message(1, 1)), "replica/redis: publish: ")
}

// A real Redis Cluster, of one node: both kinds of pub/sub, and a slot that goes away.
func TestExchangeCluster(t *testing.T) {
	s, address := newClusterServer(t)
	admin := s.client(t)
	defer admin.Close()
	ctx := context.Background()
	cluster := func(t *testing.T) *goredis.ClusterClient {
		t.Helper()
		c := clusterClient(address)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for _, sharded := range []bool{false, true} {
		t.Run("sharded "+strconv.FormatBool(sharded), func(t *testing.T) {
			replicatest.Run(t, func(t *testing.T) (a, b replica.Exchange, breakIt func()) {
				t.Helper()
				o := ExchangeOptions{Sharded: sharded, Deadline: longEnough, Silence: longEnough}
				a, err := NewExchange(cluster(t), o)
				require.NoError(t, err)
				b, err = NewExchange(cluster(t), o)
				require.NoError(t, err)
				return a, b, func() { s.killSubscribers(t) }
			})
		})
	}
	e, err := NewExchange(cluster(t), ExchangeOptions{Sharded: true, Silence: longEnough})
	require.NoError(t, err)
	r := e.start(t, func(*replica.Message) {})
	require.NoError(t, admin.ClusterDelSlotsRange(ctx, 0, 16_383).Err())
	require.Error(t, r.ends(t))
}

func clusterClient(address string) *goredis.ClusterClient {
	return goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{address}, ContextTimeoutEnabled: true,
		DialTimeout: longEnough, ReadTimeout: longEnough, WriteTimeout: longEnough, PoolTimeout: longEnough,
	})
}
