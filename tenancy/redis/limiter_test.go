//go:build unix

package redis

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// noon is a time zone in which no day begins soon.
func noon() *time.Location {
	const day = 24 * time.Hour
	return time.FixedZone("noon", int((day/2 - time.Now().UTC().Sub(time.Now().UTC().Truncate(day))).Seconds()))
}

// Routers whose clocks are hours off count in the same day.
func TestClocksOfRouters(t *testing.T) {
	s := newServer(t)
	o := Options{Rules: quota.Options{Rules: []quota.Rule{
		{Name: "day", Budget: quota.Budget{Money: 100, Period: quota.Day, Zone: noon()}},
		{Name: "window", Level: "window", Budget: quota.Budget{Money: 1000, Window: time.Minute}, Requests: quota.Rate{Amount: 100, Per: time.Hour}},
	}}}
	spent := int64(0)
	for _, off := range []time.Duration{0, -30 * time.Hour, 30 * time.Hour, -400 * 24 * time.Hour, 5 * time.Hour} {
		l := s.limiter(t, o)
		l.time.offset.Add(off.Microseconds())
		h, err := l.Admit(context.Background(), &quota.Demand{Cost: 15})
		require.NoError(t, err, off)
		require.True(t, h.Settle(quota.Used{Cost: 15}))
		l.settled(t)
		spent += 15
		l.time.offset.Add(off.Microseconds())
		_, err = l.Admit(context.Background(), &quota.Demand{Cost: 100})
		if no := refusal(t, err); spent < 80 {
			require.Equal(t, spent, no.Spent, off)
			require.Less(t, time.Until(no.Reset), 25*time.Hour)
		}
	}
}

// Redis's clock set back gives nothing away and takes nothing.
func TestClockOfRedisSetBack(t *testing.T) {
	s := newServer(t)
	var clock atomic.Int64
	start := time.Now().Add(24 * time.Hour).UnixMicro()
	clock.Store(start)
	l := s.limiter(t, Options{now: clock.Load, Lease: 48 * time.Hour, Rules: quota.Options{Rules: []quota.Rule{
		{Name: "r", Tokens: quota.Rate{Amount: 60}, Concurrency: 100},
	}}})
	left := func() int64 {
		h, err := l.Admit(context.Background(), &quota.Demand{})
		require.NoError(t, err)
		st, ok := h.Standing(quota.Tokens)
		require.True(t, ok)
		return st.Left
	}
	_, err := l.Admit(context.Background(), &quota.Demand{Input: 60})
	require.NoError(t, err)
	clock.Add(10_000_000)
	require.EqualValues(t, 10, left())
	clock.Add(-3600_000_000)
	require.EqualValues(t, 10, left())
	clock.Add(10_000_000)
	require.EqualValues(t, 20, left())
	clock.Store(start + 10_000_000)
	require.EqualValues(t, 60, left(), "forward, it refills")
}

// A clock of Redis's that runs away from a request's budget is no reason not to ask it for
// others.
func TestClockRunsAway(t *testing.T) {
	s := newServer(t)
	var clock atomic.Int64
	l := s.limiter(t, Options{now: func() int64 { return clock.Add(48 * int64(time.Hour/time.Microsecond)) }, Rules: quota.Options{Rules: []quota.Rule{
		{Name: "day", Classes: []string{"paid"}, Budget: quota.Budget{Money: 100, Period: quota.Day}},
	}}})
	for range 2 * patience {
		_, err := l.Admit(context.Background(), &quota.Demand{Class: "paid", Cost: 1})
		require.ErrorIs(t, err, errClock)
	}
	require.NoError(t, l.Stats().Down)
}

// A request under way for longer than MaxAge counts as estimated.
func TestMaxAge(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	defer c.Close()
	o := running(1)
	o.MaxAge = 50 * time.Hour
	l := s.limiter(t, Options{Rules: o, Retry: time.Millisecond})
	ages := func(meanwhile func()) {
		before := time.Now()
		h, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"})
		require.NoError(t, err)
		held, ok := h.(*hold)
		require.True(t, ok)
		meanwhile()
		l.mu.Lock()
		require.False(t, held.expires.Before(before.Add(o.MaxAge)))
		require.False(t, held.expires.After(time.Now().Add(o.MaxAge)))
		held.expires = before // as if all that time had passed
		counted := l.counts.expired.Load()
		l.mu.Unlock()
		require.Eventually(t, func() bool { return l.Stats().Expired > counted }, longEnough, time.Millisecond)
		require.False(t, h.Settle(quota.Used{}))
		l.settled(t)
		require.Equal(t, counted+1, l.Stats().Expired, "once")
	}
	ages(func() {})
	l2 := s.limiter(t, Options{Rules: running(1)})
	l2.allFree(t, 1)
	// Redis doesn't know the session any more when it is told.
	ages(func() { require.NoError(t, c.Del(context.Background(), "{kvsteer}live").Err()) })
}

// Leases are renewed for as long as requests run.
func TestLeasesAreRenewed(t *testing.T) {
	growing(t, 2*time.Second, func(lease time.Duration) bool {
		s := newServer(t)
		c := s.client(t)
		defer c.Close()
		l := s.limiter(t, Options{Rules: running(2), Lease: lease})
		other := s.limiter(t, Options{Rules: running(2), Lease: lease})
		h, err := l.Admit(context.Background(), &quota.Demand{Tenant: "t"})
		require.NoError(t, err)
		session := l.session.Load()
		till := func() float64 { return c.ZScore(context.Background(), "{kvsteer}live", session.id).Val() }
		first := till()
		require.Eventually(t, func() bool { // past the first one's end, or too late
			return till() > first+1.2*float64(lease.Microseconds()) || l.session.Load() != session
		}, 2*longEnough, 10*time.Millisecond)
		_, holds, err := take(t, other, 2)
		if len(holds) != 1 {
			return false
		}
		require.Equal(t, quota.Concurrency, refusal(t, err).Meter)
		require.True(t, h.Refund())
		l.settled(t)
		return l.Stats().Expired == 0
	})
}

// Keys go by themselves when they say nothing any more, and all of them at the end.
func TestKeysExpire(t *testing.T) {
	s := newServer(t)
	c := s.client(t)
	defer c.Close()
	ctx := context.Background()
	l := s.limiter(t, Options{Rules: quota.Options{Rules: []quota.Rule{
		{Name: "r", Scope: quota.PerTenant, Requests: quota.Rate{Amount: 100, Per: time.Second}, Concurrency: 3},
		{Name: "day", Level: "day", Scope: quota.PerTenant, Tenants: []string{"day"}, Budget: quota.Budget{Money: 10, Period: quota.Day, Zone: noon()}},
	}}})
	for _, tenant := range []string{"a", strings.Repeat("long", 100_000), "\xff\x00{}", "day"} {
		h, err := l.Admit(ctx, &quota.Demand{Tenant: tenant, Cost: 1})
		require.NoError(t, err)
		require.True(t, h.Settle(quota.Used{Cost: 1}))
	}
	l.settled(t)
	h, err := l.Admit(ctx, &quota.Demand{Tenant: "late"})
	require.NoError(t, err)
	require.Len(t, c.Keys(ctx, "*s:*").Val(), 1)
	for _, k := range c.Keys(ctx, "*").Val() {
		require.Less(t, len(k), 300)
		require.True(t, strings.HasPrefix(k, "{kvsteer}"), k)
		// -1 is of a key that stays, -2 of one that has gone meanwhile.
		ttl := c.PTTL(ctx, k).Val()
		require.NotEqual(t, time.Duration(-1), ttl, k)
		require.LessOrEqual(t, ttl, 25*time.Hour, k)
	}
	require.True(t, h.Refund())
	require.Eventually(t, func() bool { return len(c.Keys(ctx, "*q:*").Val()) == 1 }, longEnough, 10*time.Millisecond, "all but what is spent of the day")
	require.NoError(t, l.Close(ctx))
	require.Len(t, c.Keys(ctx, "*").Val(), 1)
}

func TestClose(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Rules: running(2), Retry: time.Millisecond})
	_, holds, err := take(t, l, 2)
	require.NoError(t, err)
	require.True(t, holds[0].Refund())
	require.NoError(t, l.Close(context.Background()))
	require.NoError(t, l.Close(context.Background()))
	require.False(t, holds[1].Refund(), "it counts as estimated already")
	_, err = l.Admit(context.Background(), &quota.Demand{Tenant: "t"})
	require.ErrorIs(t, err, ErrClosed)
	c := s.clientThatReads(t, time.Second) // Close waits for one that has begun
	defer c.Close()
	l = s.limiter(t, Options{Client: c, Rules: running(2)})
	_, holds, err = take(t, l, 2)
	require.NoError(t, err)
	s.signal(syscall.SIGSTOP)
	require.True(t, holds[0].Refund())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, l.Close(ctx), "1 ends of requests were not told to Redis")
	s.signal(syscall.SIGCONT)
}

// Limits of a Redis Cluster are in one slot.
func TestCluster(t *testing.T) {
	s, address := newClusterServer(t)
	c := clusterClient(address)
	defer c.Close()
	ctx := context.Background()
	l := s.limiter(t, Options{Client: c, Rules: quota.Options{Rules: []quota.Rule{
		{Name: "org", Scope: quota.PerOrg, Requests: quota.Rate{Amount: 10, Per: time.Hour}},
		{Name: "key", Scope: quota.PerKey, Concurrency: 5},
	}}})
	n, holds := 0, []quota.Hold{}
	for range 4 {
		h, err := l.Admit(ctx, &quota.Demand{Org: "o", Key: "k{x}"})
		require.NoError(t, err)
		require.Empty(t, h.Degraded())
		n, holds = n+1, append(holds, h)
	}
	for _, h := range holds {
		require.True(t, h.Refund())
	}
	l.settled(t)
	require.Zero(t, l.Stats().Failed)
	h, err := l.Admit(ctx, &quota.Demand{Org: "o", Key: "k{x}"})
	require.NoError(t, err)
	st, _ := h.Standing(quota.Requests)
	require.EqualValues(t, 9, st.Left)
}

// Other rules leave what was used where it was.
func TestUpdate(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Rules: hourly(10)})
	_, holds, err := take(t, l, 6)
	require.NoError(t, err)
	changes, err := l.Update([]quota.Rule{{Name: "hourly", Requests: quota.Rate{Amount: 10, Per: 31 * 24 * time.Hour, Burst: 20}}}, quota.Weights{})
	require.NoError(t, err)
	require.Equal(t, []quota.Change{{Rule: "hourly", What: "changed"}}, changes)
	n, _, err := take(t, l, 100)
	require.Equal(t, 14, n, "the six are still counted")
	require.NotNil(t, refusal(t, err))
	for _, h := range holds {
		require.True(t, h.Refund())
	}
	l.settled(t)
	n, _, _ = take(t, l, 100)
	require.Equal(t, 6, n)
	_, err = l.Update([]quota.Rule{{Name: "x"}}, quota.Weights{})
	require.ErrorContains(t, err, "it limits nothing")
	_, err = l.Update(nil, quota.Weights{})
	require.NoError(t, err)
	h, err := l.Admit(context.Background(), &quota.Demand{})
	require.NoError(t, err)
	_, ok := h.Standing(quota.Requests)
	require.False(t, ok)
	require.Empty(t, h.Soft())
	require.True(t, h.Settle(quota.Used{}))
	require.False(t, h.Refund())
}

// Rules that deny, and requests that never fit, need no Redis.
func TestWithoutAsking(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Failure: Allow, Rules: quota.Options{Rules: []quota.Rule{
		{Name: "closed", Classes: []string{"batch"}, Deny: true},
		{Name: "r", Level: "r", Tokens: quota.Rate{Amount: 10}},
	}}})
	s.kill()
	_, err := l.Admit(context.Background(), &quota.Demand{Class: "batch"})
	require.True(t, refusal(t, err).Denied)
	_, err = l.Admit(context.Background(), &quota.Demand{Input: 11})
	require.True(t, refusal(t, err).Permanent)
	require.Zero(t, l.Stats().Without)
}

// What is more than a share, but not more than the limit, may come again.
func TestMoreThanAShare(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Failure: LocalShare, Share: 0.25, Rules: quota.Options{Rules: []quota.Rule{
		{Name: "r", Tokens: quota.Rate{Amount: 100}},
	}}})
	s.kill()
	_, err := l.Admit(context.Background(), &quota.Demand{Input: 50})
	no := refusal(t, err)
	require.False(t, no.Permanent)
	require.Positive(t, no.RetryAfter)
	_, err = l.Admit(context.Background(), &quota.Demand{Input: 10, Output: 500}) // it is only a guess
	require.NoError(t, err)
}

// Of a guess no more is reserved than there can be, and the rest is debt, if it is used.
func TestGuess(t *testing.T) {
	s := newServer(t)
	l := s.limiter(t, Options{Rules: quota.Options{Rules: []quota.Rule{
		{Name: "r", Tokens: quota.Rate{Amount: 1000, Per: 31 * 24 * time.Hour}, Budget: quota.Budget{Money: 50, Period: quota.Year}},
	}}})
	ctx := context.Background()
	d := &quota.Demand{Input: 10, Output: 12_000, Cost: 1 << 40}
	h, err := l.Admit(ctx, d)
	require.NoError(t, err)
	_, err = l.Admit(ctx, d)
	require.False(t, refusal(t, err).Permanent)
	require.True(t, h.Refund())
	l.settled(t)
	h, err = l.Admit(ctx, d)
	require.NoError(t, err, "all was given back")
	require.True(t, h.Settle(quota.Used{Uncached: 10, Output: 1990, Cost: 49}))
	l.settled(t)
	_, err = l.Admit(ctx, &quota.Demand{Input: 1})
	require.EqualValues(t, -1000, refusal(t, err).Left)
}

func TestOptionsThatCannotBe(t *testing.T) {
	c := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true})
	defer c.Close()
	late := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1"})
	defer late.Close()
	for want, o := range map[string]Options{
		"Options.Client is nil":       {},
		"set ContextTimeoutEnabled":   {Client: late},
		`the Prefix "{x}" has braces`: {Client: c, Prefix: "{x}"},
		"Failure(7) is no failure":    {Client: c, Failure: 7},
		"the Share is 0; LocalShare":  {Client: c, Failure: LocalShare},
		"the Share is 1.5":            {Client: c, Failure: LocalShare, Share: 1.5},
		"can't be negative":           {Client: c, Deadline: -1},
		"the Lease is 1ms":            {Client: c, Lease: time.Millisecond},
		`rule 0 "m": the budget is more than 2^53`: {Client: c, Rules: quota.Options{Rules: []quota.Rule{
			{Name: "m", Budget: quota.Budget{Money: 1 << 60, Period: quota.Day}},
		}}},
		`rule 0 "n": it limits nothing`: {Client: c, Rules: quota.Options{Rules: []quota.Rule{{Name: "n"}}}},
	} {
		_, err := New(o)
		require.ErrorContains(t, err, want)
	}
}

// needed are the commands that a user of Redis's must be allowed, on keys {Prefix}*.
const needed = "+eval +evalsha +time +get +set +del +exists +hset +hget +hexists +hdel +zscore +zadd +zrem +zremrangebyscore +pexpireat"

// The router's user needs no more of Redis than docs say.
func TestUserOfRedis(t *testing.T) {
	s := newServer(t)
	admin := s.client(t)
	defer admin.Close()
	ctx := context.Background()
	args := []any{"acl", "setuser", "router", "on", ">secret", "~{kvsteer}*", "-@all"}
	for command := range strings.FieldsSeq(needed) {
		args = append(args, command)
	}
	require.NoError(t, admin.Do(ctx, args...).Err())
	c := goredis.NewClient(&goredis.Options{
		Network: "unix", Addr: s.socket, Username: "router", Password: "secret", ContextTimeoutEnabled: true, DisableIdentity: true,
		DialTimeout: longEnough, ReadTimeout: longEnough, WriteTimeout: longEnough, PoolTimeout: longEnough,
	})
	defer c.Close()
	l := s.limiter(t, Options{Client: c, Rules: hourly(2), Lease: time.Second})
	n, holds, err := take(t, l, 5)
	require.Equal(t, 2, n)
	require.NotNil(t, refusal(t, err))
	for _, h := range holds {
		require.True(t, h.Refund())
	}
	l.settled(t)
	l.renewOne(ctx, l.session.Load())
	require.NoError(t, l.Close(ctx))
	require.Zero(t, l.Stats().Failed+l.Stats().Without)
}
