//go:build unix

package redis

import (
	"context"
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

var (
	operations = flag.Int("redis.ops", 9_000, "operations of TestAsInMemory")
	atOnce     = flag.Int("redis.parallel", 1, "how many times each set of rules of TestAsInMemory is tried at once, by operations of its own")
)

// Every decision, and all that is said with it, is that of a quota.Limiter on the same
// clock, whose buckets are never forgotten; here Redis forgets each as soon as it may.
func TestAsInMemory(t *testing.T) {
	s := newServer(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	sets := map[string][]quota.Rule{
		"levels": {
			{Name: "all", Tokens: quota.Rate{Amount: 999_983, Burst: 400_000}, Concurrency: 12},
			{Name: "org", Scope: quota.PerOrg, Requests: quota.Rate{Amount: 700, Burst: 40}, Input: quota.Rate{Amount: 7_919_000, Per: time.Hour, Burst: 90_000}},
			{Name: "team", Scope: quota.PerTeam, PerClass: true, Output: quota.Rate{Amount: 1_000_003, Per: 24 * time.Hour, Burst: 5000}},
			{Name: "tenant", Scope: quota.PerTenant, PerModel: true, Tokens: quota.Rate{Amount: 60_000, Per: 7 * time.Minute}, Concurrency: 3},
		},
		"awkward": {
			{Name: "fast", Tokens: quota.Rate{Amount: 1<<32 - 1}, Requests: quota.Rate{Amount: 4_294_967_291, Per: 7 * time.Minute, Burst: 1<<32 - 1}},
			{Name: "slow", Scope: quota.PerTenant, Requests: quota.Rate{Amount: 50, Burst: 21}},
			{Name: "few", Scope: quota.PerKey, Requests: quota.Rate{Amount: 1, Per: 7 * time.Second, Burst: 2}, Input: quota.Rate{Amount: 7_000_003, Per: time.Hour, Burst: 15_000}},
		},
		"budgets": {
			{Name: "day", Scope: quota.PerOrg, Budget: quota.Budget{Money: 90_000, Tokens: 40_000_000, Period: quota.Day, Zone: berlin}},
			{Name: "week", Scope: quota.PerTeam, Budget: quota.Budget{Money: 200_000, Period: quota.Week, Soft: true, SoftAt: 50}},
			{Name: "window", Scope: quota.PerTenant, Budget: quota.Budget{Money: 9_000, Window: time.Hour, SoftAt: 70}, Requests: quota.Rate{Amount: 30}},
			{Name: "key", Scope: quota.PerKey, Budget: quota.Budget{Tokens: 300_000_000, Period: quota.Month}, Concurrency: 4},
		},
	}
	var wg sync.WaitGroup
	for name, rules := range sets {
		for seed := range *atOnce {
			wg.Go(func() { compare(t, s, name+strconv.Itoa(seed), uint64(seed), rules, *operations/len(sets) / *atOnce) })
		}
	}
	wg.Wait()
}

func compare(t *testing.T, s *server, name string, seed uint64, rules []quota.Rule, ops int) {
	t.Helper()
	var clock atomic.Int64
	clock.Store(time.Now().Add(365 * 24 * time.Hour).UnixMicro()) // so that Redis itself forgets nothing
	var told, toldModel []quota.Notice
	weights := quota.Weights{Cached: quota.Hundredths(25), Reasoning: quota.Hundredths(130)}
	options := quota.Options{Rules: rules, Weights: weights, MaxAge: 30_000 * time.Hour}
	options.OnSoft = func(n *quota.Notice) { told = append(told, *n) }
	l := s.limiter(t, Options{
		Rules: options, Prefix: name, Lease: 10 * 365 * 24 * time.Hour, now: clock.Load,
	})
	options.OnSoft = func(n *quota.Notice) { toldModel = append(toldModel, *n) }
	options.Now = func() time.Time { return time.UnixMicro(clock.Load()) }
	model, err := quota.New(options)
	require.NoError(t, err)

	type pair struct{ redis, model quota.Hold }
	var running []pair
	ctx, rng := context.Background(), rand.New(rand.NewPCG(2026, seed))
	admitted, refused, forgotten := 0, 0, 0
	try := func(d *quota.Demand) (no *quota.Error) {
		held, err := l.Admit(ctx, d)
		other, want := model.Admit(ctx, d)
		if want != nil {
			refused++
			require.Equal(t, want, err, "%s: %+v", name, d)
			require.ErrorAs(t, want, &no)
			return no
		}
		require.NoError(t, err, "%s: %+v", name, d)
		admitted++
		running = append(running, pair{held, other})
		for m := range quota.Meter(quota.NumRates) {
			a, ok := held.Standing(m)
			b, also := other.Standing(m)
			require.Equal(t, also, ok)
			require.Equal(t, b, a)
		}
		require.Equal(t, other.Soft(), held.Soft())
		return nil
	}
	pick := func(n int) string { return strconv.Itoa(rng.IntN(n)) }
	for op := range ops {
		switch k := rng.IntN(1000); {
		case k < 2:
			clock.Add(rng.Int64N(int64(30 * time.Hour / time.Microsecond)))
		case k < 20:
			clock.Add(rng.Int64N(int64(5 * time.Minute / time.Microsecond)))
		case k < 500:
			clock.Add(rng.Int64N(int64(400 * time.Millisecond / time.Microsecond)))
		}
		if op%200 == 0 {
			forgotten += s.forget(t, l.prefix, clock.Load())
		}
		if len(running) < 1 || len(running) < 30 && rng.IntN(100) < 55 {
			d := quota.Demand{
				Org: pick(2), Team: pick(3), Tenant: pick(5), Key: pick(9), Model: pick(2), Class: pick(2),
				Input: rng.Int64N(4000), Cached: rng.Int64N(1000), Output: rng.Int64N(1500), Cost: rng.Int64N(900),
			}
			switch rng.IntN(60) {
			case 0:
				d.Input, d.Cost = rng.Int64N(1<<33), rng.Int64N(1<<33)
			case 1: // a guess, of which no more is reserved than there can be
				d.Output, d.Cost = rng.Int64N(1<<33), rng.Int64N(1<<33)
			}
			if no := try(&d); no != nil && no.Exact && no.RetryAfter < time.Minute && rng.IntN(3) == 0 {
				// The last moment at which it is refused, and the first at which it isn't.
				clock.Add(int64((no.RetryAfter - 1) / time.Microsecond))
				require.NotNil(t, try(&d))
				clock.Add(1)
				require.Nil(t, try(&d))
			}
			continue
		}
		at := rng.IntN(len(running))
		p := running[at]
		running[at] = running[len(running)-1]
		running = running[:len(running)-1]
		if rng.IntN(4) == 0 {
			require.True(t, p.redis.Refund())
			require.True(t, p.model.Refund())
		} else {
			u := quota.Used{
				Uncached: rng.Int64N(4000), CacheRead: rng.Int64N(2000), CacheWrite: rng.Int64N(50),
				Output: rng.Int64N(2500), Reasoning: rng.Int64N(500), Cost: rng.Int64N(1000),
			}
			if rng.IntN(200) == 0 {
				u.Output = rng.Int64N(1 << 22)
			}
			require.True(t, p.redis.Settle(u))
			require.True(t, p.model.Settle(u))
		}
		for l.Stats().Waiting > 0 {
			wait(ctx, 10*time.Microsecond)
		}
		require.Equal(t, toldModel, told)
	}
	stats := l.Stats()
	require.Zero(t, stats.Expired+stats.Dropped+stats.Failed+stats.Without, stats)
	t.Logf("%s: %d operations, %d let through, %d refused, %d buckets forgotten, %d soft limits told, %d under way", name, ops, admitted, refused, forgotten, len(told), len(running))
	require.Greater(t, admitted, ops/10)
	require.Greater(t, refused, ops/50)
}

// forget does what Redis would, had the time passed: keys that have expired go.
func (s *server) forget(t *testing.T, prefix string, now int64) int {
	t.Helper()
	c := s.client(t)
	defer c.Close()
	n, err := c.Eval(context.Background(), `
		local n = 0
		for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
			local at = redis.call('PEXPIRETIME', key)
			assert(at > 0, 'it never expires')
			if at * 1000 <= tonumber(ARGV[2]) then n = n + redis.call('DEL', key) end;
		end
		return n`, nil, prefix+"q:*", now).Int()
	require.NoError(t, err)
	return n
}
