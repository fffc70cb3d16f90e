//go:build unix

package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// hourly are limits that a test doesn't see refill.
func hourly(amount int64) quota.Options {
	return quota.Options{Rules: []quota.Rule{{Name: "hourly", Requests: quota.Rate{Amount: amount, Per: 31 * 24 * time.Hour}}}}
}

func running(n int) quota.Options {
	return quota.Options{Rules: []quota.Rule{{Name: "running", Scope: quota.PerTenant, Concurrency: n}}}
}

// take admits until it is refused for want of anything, at most so often.
func take(t *testing.T, l *Limiter, most int) (n int, holds []quota.Hold, refused error) {
	t.Helper()
	for n < most {
		h, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"})
		if err != nil {
			return n, holds, err
		}
		n, holds = n+1, append(holds, h)
	}
	return n, holds, nil
}

// back waits until l asks Redis again.
func (l *Limiter) back(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return l.Stats().Down == nil }, longEnough, time.Millisecond)
}

// Redis is killed and comes back, empty: each failure mode does what it says, and no more
// passes than is stated.
func TestKilled(t *testing.T) {
	const limit, routers = 100, 2
	for _, c := range []struct {
		failure Failure
		share   float64
		without int // let through by each router while Redis is away, of 200 requests
	}{{Deny, 0, 0}, {LocalShare, 1.0 / routers, limit / routers}, {Allow, 0, 200}} {
		t.Run(c.failure.String(), func(t *testing.T) {
			s := newServer(t)
			o := Options{Rules: hourly(limit), Failure: c.failure, Share: c.share, Retry: time.Millisecond}
			ls := []*Limiter{s.limiter(t, o), s.limiter(t, o)}
			total := 0
			for _, l := range ls {
				n, _, err := take(t, l, limit/routers)
				require.NoError(t, err)
				total += n
			}
			_, _, err := take(t, ls[0], 1)
			require.Equal(t, "hourly", refusal(t, err).Rule)
			s.kill()
			for _, l := range ls {
				n, holds, err := take(t, l, 200)
				require.Equal(t, c.without, n)
				total += n
				for _, h := range holds {
					require.Equal(t, map[Failure]string{
						LocalShare: "redis: unavailable: local share", Allow: "redis: unavailable: allowed",
					}[c.failure], h.Degraded())
					require.True(t, h.Settle(quota.Used{}))
					require.False(t, h.Refund())
					_, ok := h.Standing(quota.Requests)
					require.False(t, ok)
					require.Empty(t, h.Soft())
				}
				switch c.failure {
				case Deny:
					var no *UnavailableError
					require.ErrorAs(t, err, &no)
					require.ErrorContains(t, err, "Redis can't be asked")
				case LocalShare:
					require.ErrorContains(t, err, "redis: unavailable: local share: quota: rule")
					require.NotNil(t, refusal(t, err))
					require.LessOrEqual(t, total, int((1+routers*c.share)*limit))
				default:
					require.NoError(t, err)
				}
				require.Positive(t, l.Stats().Without)
			}
			s.start() // it has forgotten everything: the limit begins anew
			for _, l := range ls {
				l.back(t)
			}
			total = 0
			for _, l := range ls {
				// The client's pool still says for a second that it can't connect.
				require.Eventually(t, func() bool {
					_, holds, err := take(t, l, limit*2)
					for _, h := range holds {
						if h.Degraded() == "" {
							total++
						}
					}
					var no *quota.Error
					return errors.As(err, &no) && !strings.Contains(err.Error(), "unavailable")
				}, longEnough, time.Millisecond)
			}
			require.Equal(t, limit, total)
		})
	}
}

// counting counts calls of the script that admits.
type counting struct {
	sha   string
	calls atomic.Int64
}

func (c *counting) DialHook(next goredis.DialHook) goredis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counting) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if a := cmd.Args(); len(a) > 1 && a[1] == c.sha {
			c.calls.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return next
}

// A Redis that hangs holds up few requests: then nobody waits for it. What it was asked
// for and does late is given back, and ends that were told meanwhile arrive.
func TestHangs(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	defer c.Close()
	count := &counting{sha: newScripts().admit.Hash()}
	c.AddHook(count)
	l := s.limiter(t, Options{Client: c, Rules: running(3), Deadline: 500 * time.Millisecond, Retry: 10 * time.Millisecond})
	var holds []quota.Hold
	require.Eventually(t, func() bool { // the deadline is short for a busy machine
		if h, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"}); err == nil {
			holds = append(holds, h)
		}
		return len(holds) == 2
	}, longEnough, time.Millisecond)
	l.settled(t)
	l.back(t)
	before := count.calls.Load()
	s.signal(syscall.SIGSTOP)
	for range 100 {
		_, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"})
		var no *UnavailableError
		require.ErrorAs(t, err, &no)
	}
	require.LessOrEqual(t, count.calls.Load()-before, int64(3))
	for _, h := range holds {
		require.True(t, h.Settle(quota.Used{}))
	}
	require.Positive(t, l.Stats().Waiting)
	s.signal(syscall.SIGCONT)
	l.back(t)
	l.settled(t)
	l.allFree(t, 3)
	require.Zero(t, l.Stats().Failed+l.Stats().Dropped)
}

// allFree waits until all of a Concurrency is free, by taking it.
func (l *Limiter) allFree(t *testing.T, limit int) {
	t.Helper()
	require.Eventually(t, func() bool {
		n, holds, _ := take(t, l, limit+1)
		for _, h := range holds {
			assert.True(t, h.Refund())
		}
		l.settled(t)
		return n == limit
	}, longEnough, 10*time.Millisecond, "%+v", l.Stats())
}

// Answers that come after the deadline are taken for failures, and what they took is
// given back, whichever arrives first.
func TestSlow(t *testing.T) {
	s := newServer(t)
	p := newSlow(t, s)
	c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: p.listener.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer c.Close()
	l := s.limiter(t, Options{Client: c, Rules: running(5), Failure: Allow, Deadline: 200 * time.Millisecond, Retry: 20 * time.Millisecond})
	require.Eventually(t, func() bool { // the deadline is short for a busy machine
		h, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"})
		require.NoError(t, err)
		require.True(t, h.Refund())
		return h.Degraded() == ""
	}, longEnough, time.Millisecond)
	p.delay.Store(int64(500 * time.Millisecond)) // both ways: ends, which have four times as long, come too late, too
	for range 5 {
		h, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"})
		require.NoError(t, err)
		require.Equal(t, "redis: unavailable: allowed", h.Degraded())
		require.True(t, h.Settle(quota.Used{}))
	}
	require.Error(t, l.Stats().Down)
	p.delay.Store(0)
	l.back(t)
	l.settled(t)
	fresh := s.limiter(t, Options{Rules: running(5)})
	defer func() {
		if t.Failed() {
			t.Logf("%+v", l.Stats())
			s.dump(t)
		}
	}()
	fresh.allFree(t, 5)
}

func TestFlushed(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	defer c.Close()
	l := s.limiter(t, Options{Rules: hourly(10)})
	n, holds, _ := take(t, l, 100)
	require.Equal(t, 10, n)
	require.NoError(t, c.FlushAll(context.Background()).Err())
	n, more, err := take(t, l, 100)
	require.Equal(t, 10, n, "a Burst more, and one only")
	require.NotNil(t, refusal(t, err))
	for _, h := range append(holds, more...) {
		require.True(t, h.Refund())
	}
	l.settled(t)
	require.EqualValues(t, 10, l.Stats().Expired, "those of before can't be given back")
	n, _, _ = take(t, l, 100)
	require.Equal(t, 10, n)

	require.NoError(t, c.ScriptFlush(context.Background()).Err())
	_, err = l.Admit(context.Background(), &quota.Demand{})
	require.NotNil(t, refusal(t, err))
	require.Zero(t, l.Stats().Without)
}

// Ends find the scripts gone as well.
func TestScriptFlushBeforeTheEnd(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	defer c.Close()
	l := s.limiter(t, Options{Rules: hourly(10)})
	_, holds, err := take(t, l, 10)
	require.NoError(t, err)
	for _, h := range holds {
		require.NoError(t, c.ScriptFlush(context.Background()).Err())
		require.True(t, h.Refund())
		l.settled(t)
	}
	n, _, _ := take(t, l, 100)
	require.Equal(t, 10, n)
	require.Zero(t, l.Stats().Failed+l.Stats().Without+l.Stats().Expired)
}

// A key that holds something else stops its own bucket's requests, says which it is, and
// is left alone.
func TestKeysOfOthers(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	defer c.Close()
	ctx := context.Background()
	l := s.limiter(t, Options{Rules: running(1), Retry: time.Millisecond})
	h, err := l.Admit(ctx, &quota.Demand{Tenant: "a"})
	require.NoError(t, err)
	keys, err := c.Keys(ctx, "{kvsteer}q:*").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	for _, spoil := range []func() error{
		func() error { return c.Set(ctx, keys[0], "hello", 0).Err() },
		func() error { return c.Set(ctx, keys[0], "\x91\x01", 0).Err() },
		func() error { return c.Set(ctx, keys[0], "\xc1\xff", 0).Err() },
		func() error { return errors.Join(c.Del(ctx, keys[0]).Err(), c.LPush(ctx, keys[0], "x").Err()) },
	} {
		require.NoError(t, spoil())
		for range 5 {
			_, err = l.Admit(ctx, &quota.Demand{Tenant: "a"})
			var state *StateError
			require.ErrorAs(t, err, &state)
			require.Equal(t, keys[0], state.Key)
		}
		other, err := l.Admit(ctx, &quota.Demand{Tenant: "b"})
		require.NoError(t, err, "another bucket, and Redis is not taken for down")
		require.True(t, other.Refund())
		l.settled(t)
	}
	require.True(t, h.Refund())
	l.settled(t)
	require.EqualValues(t, 1, l.Stats().Failed)
	require.NoError(t, c.Del(ctx, "{kvsteer}live").Err())
	require.NoError(t, c.Set(ctx, "{kvsteer}live", "x", 0).Err())
	_, err = l.Admit(ctx, &quota.Demand{Tenant: "b"})
	require.ErrorContains(t, err, `the key "{kvsteer}live" holds something else than limits; delete it, or choose another Prefix`)
}

// What can't be told is kept within a bound; what found no room is given up by the
// session's end, and nothing stays under way for good.
func TestBacklog(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Rules: running(100), Backlog: 10, Lease: time.Second, Retry: time.Millisecond})
	_, holds, err := take(t, l, 100) // more than the Backlog and what may be on its way
	require.NoError(t, err)
	s.signal(syscall.SIGSTOP)
	l.health.cause.Store(new(error))
	*l.health.cause.Load() = errors.New("stopped")
	for _, h := range holds {
		require.True(t, h.Settle(quota.Used{}))
	}
	require.LessOrEqual(t, l.Stats().Waiting, 10+batch)
	require.Positive(t, l.Stats().Dropped)
	s.signal(syscall.SIGCONT)
	l.back(t)
	l.settled(t)
	// By another router: what l gives back at once may find no room again.
	s.limiter(t, Options{Rules: running(100)}).allFree(t, 100)
}

func TestCallerGoesAway(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Rules: running(1), Retry: time.Millisecond})
	_, holds, err := take(t, l, 1)
	require.NoError(t, err)
	require.True(t, holds[0].Refund())
	l.settled(t)
	s.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = l.Admit(ctx, &quota.Demand{Tenant: "t"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, l.Stats().Down, "that says nothing about Redis")
	s.signal(syscall.SIGCONT)
	l.allFree(t, 1)
}

// An end that is told twice, as after an answer that was lost, takes effect once; so does
// a request that the client sends twice.
func TestToldTwice(t *testing.T) {
	s := newServer(t)
	o := hourly(100)
	o.Rules[0].Concurrency = 50
	o.Rules = append(o.Rules, quota.Rule{Name: "money", Level: "money", Budget: quota.Budget{Money: 1000, Period: quota.Year}})
	l := s.limiter(t, Options{Rules: o})
	ctx := context.Background()
	var first, second quota.Hold
	for _, h := range []*quota.Hold{&first, &second} {
		var err error
		*h, err = l.Admit(ctx, &quota.Demand{Cost: 10})
		require.NoError(t, err)
	}
	h, ok := first.(*hold)
	require.True(t, ok)
	r, err := l.admit(ctx, h)
	require.NoError(t, err)
	require.Equal(t, statusYes, r.status)
	require.Equal(t, 2, h.states[0].Running)
	st, _ := h.Standing(quota.Requests)
	require.EqualValues(t, 98, st.Left)
	require.True(t, first.Settle(quota.Used{Cost: 7}))
	l.settled(t)
	for range 3 {
		left, err := l.send(ctx, []*hold{h})
		require.NoError(t, err)
		require.Empty(t, left)
	}
	third, err := l.Admit(ctx, &quota.Demand{})
	require.NoError(t, err)
	now, ok := third.(*hold)
	require.True(t, ok)
	require.Equal(t, 2, now.states[0].Running)
	require.EqualValues(t, 10, now.states[1].Money)
	require.EqualValues(t, 7, now.states[1].Steps[0].Money)
	require.Zero(t, l.Stats().Failed+l.Stats().Expired)
}

// What was given up before Redis had it is not done when it arrives.
func TestCancelledBeforeItArrives(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Rules: running(1)})
	ctx := context.Background()
	h, err := l.Admit(ctx, &quota.Demand{Tenant: "t"})
	require.NoError(t, err)
	require.True(t, h.Refund())
	l.settled(t)
	held, ok := h.(*hold)
	require.True(t, ok)
	late := held.again()
	require.True(t, l.start(late))
	l.forget(late)
	l.settled(t)
	r, err := l.admit(ctx, late)
	require.NoError(t, err)
	require.Equal(t, statusGone, r.status)
	l.allFree(t, 1)
}

// What was given up after Redis had done it is not done again when another copy arrives.
func TestCancelledBetweenTwoCopies(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Rules: running(1)})
	ctx := context.Background()
	h, err := l.Admit(ctx, &quota.Demand{Tenant: "t"})
	require.NoError(t, err)
	held, ok := h.(*hold)
	require.True(t, ok)
	l.forget(held)
	l.settled(t)
	r, err := l.admit(ctx, held)
	require.NoError(t, err)
	require.Equal(t, statusGone, r.status)
	l.allFree(t, 1)
}

// feeding counts renewals, and lets a request begin and end while ends are told, so that
// there is always one more to tell.
type feeding struct {
	counting

	more func()
}

func (f *feeding) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // else it is of a new connection
			f.more()
		}
		return next(ctx, cmds)
	}
}

// Leases are renewed while there is always another end to tell.
func TestLeasesAreRenewedUnderLoad(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	t.Cleanup(func() { _ = c.Close() })
	f := &feeding{counting: counting{sha: newScripts().renew.Hash()}}
	var l *Limiter
	var stop atomic.Bool
	f.more = func() {
		if stop.Load() {
			return
		}
		if h, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"}); err == nil {
			h.Settle(quota.Used{})
		}
	}
	c.AddHook(f)
	l = s.limiter(t, Options{Client: c, Rules: running(1000), Lease: time.Second})
	defer stop.Store(true)
	h, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"})
	require.NoError(t, err)
	require.True(t, h.Settle(quota.Used{}))
	require.Eventually(t, func() bool { return f.calls.Load() > 3 }, longEnough, time.Millisecond)
}
