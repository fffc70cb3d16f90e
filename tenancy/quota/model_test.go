package quota_test

import (
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

var operations = flag.Int("quota.ops", 200_000, "operations of TestReservedIsSettledRefundedInFlight")

// Reserved = settled + refunded + in flight, for every meter, under random concurrent
// admits, settles, aborts, expiries, sweeps and clock steps; and what the limiter says
// became of each request is what its callers saw.
func TestReservedIsSettledRefundedInFlight(t *testing.T) {
	t.Parallel()
	const goroutines, own, tenants = 8, 32, 50
	l, clock := newLimiter(t, quota.Options{
		MaxAge: 2 * time.Second,
		Rules: []quota.Rule{
			{Name: "all", Tokens: quota.Rate{Amount: 40_000_000}, Concurrency: goroutines * own * 3 / 4},
			{Name: "org", Scope: quota.PerOrg, Requests: quota.Rate{Amount: 500_000}, Input: quota.Rate{Amount: 30_000_000}},
			{Name: "tenant", Scope: quota.PerTenant, Output: quota.Rate{Amount: 2_000_000, Burst: 5_000_000}, Concurrency: 20},
			{Name: "money", Level: "money", Scope: quota.PerTenant, Budget: quota.Budget{Money: 1 << 40, Window: time.Hour}},
		},
	})
	type seen struct{ reserved, settled, refunded, more int64 }
	var each [goroutines]seen
	left := make([][]*quota.Reservation, goroutines)
	sizes := make([]map[*quota.Reservation]int64, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(2026, uint64(g)))
			var running []*quota.Reservation
			size := map[*quota.Reservation]int64{}
			s := &each[g]
			mine := *operations / goroutines
			for i := range mine {
				if g == 0 && i%(mine/4) == mine/8 {
					clock.add(time.Minute) // more than it is set back by then: what runs expires
				}
				switch k := rng.IntN(100); {
				case k == 0:
					clock.add(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
				case k == 1 && rng.IntN(50) == 0:
					clock.add(-time.Duration(rng.Int64N(int64(time.Second)))) // somebody set it back
				case k == 2 && rng.IntN(500) == 0:
					clock.add(30 * time.Second)
				case k == 3 && rng.IntN(100) == 0:
					l.Sweep()
				case len(running) == 0 || k < 55 && len(running) < own:
					r := &quota.Reservation{}
					d := quota.Demand{
						Org: string(rune('a' + rng.IntN(3))), Tenant: string(rune('A' + rng.IntN(tenants))),
						Input: rng.Int64N(5000), Output: rng.Int64N(3000), Cost: rng.Int64N(1000),
					}
					if l.Reserve(&d, r) == nil {
						running = append(running, r)
						size[r] = d.Input + d.Output
						s.reserved += size[r]
					}
				default:
					at := rng.IntN(len(running))
					r := running[at]
					running[at] = running[len(running)-1]
					running = running[:len(running)-1]
					was := size[r]
					delete(size, r)
					if k%4 == 0 {
						if r.Refund() {
							s.refunded += was
						} else {
							s.settled += was // it had expired
						}
						continue
					}
					u := quota.Used{Uncached: rng.Int64N(5000), CacheRead: rng.Int64N(100), Output: rng.Int64N(5000), Cost: rng.Int64N(1000)}
					if used := u.Uncached + u.CacheRead + u.Output; r.Settle(u) {
						s.settled += used
						s.more += max(used-was, 0)
						s.refunded += max(was-used, 0)
					} else {
						s.settled += was
					}
				}
			}
			left[g], sizes[g] = running, size
		})
	}
	wg.Wait()
	var all seen
	flying := int64(0)
	for g := range each {
		all.reserved += each[g].reserved + each[g].more
		all.settled += each[g].settled
		all.refunded += each[g].refunded
		for _, n := range sizes[g] {
			flying += n
		}
	}
	totals := l.Totals()
	inFlight := totals.Reserved[quota.Tokens] - totals.Settled[quota.Tokens] - totals.Refunded[quota.Tokens]
	require.Equal(t, all.reserved, totals.Reserved[quota.Tokens])
	require.Equal(t, all.refunded, totals.Refunded[quota.Tokens])
	// Of those left some have expired, which nobody was told yet.
	for g := range left {
		for _, r := range left[g] {
			if !r.Refund() {
				flying -= sizes[g][r]
				all.settled += sizes[g][r]
			}
		}
	}
	require.Equal(t, all.settled, totals.Settled[quota.Tokens])
	require.Equal(t, flying, inFlight)
	require.Positive(t, totals.Expired)
	totals = l.Totals()
	require.Zero(t, totals.Running)
	require.Equal(t, totals.Reserved, sum(totals.Settled, totals.Refunded))
	clock.add(2 * time.Hour)
	l.Sweep()
	require.Zero(t, l.Totals().Buckets, "everything is as new, and forgotten")
}

// A bucket that was forgotten is as one that was not: two limiters, of which one sweeps
// all the time, decide alike.
func TestForgettingChangesNothing(t *testing.T) {
	t.Parallel()
	rules := []quota.Rule{
		{Name: "org", Scope: quota.PerOrg, Tokens: quota.Rate{Amount: 90_000}},
		{Name: "key", Scope: quota.PerKey, Requests: quota.Rate{Amount: 50, Burst: 5}, Concurrency: 3},
		{Name: "day", Level: "day", Scope: quota.PerKey, Budget: quota.Budget{Tokens: 30_000, Period: quota.Day}},
	}
	a, clockA := newLimiter(t, quota.Options{Rules: rules, MaxAge: 100 * time.Hour})
	b, clockB := newLimiter(t, quota.Options{Rules: rules, MaxAge: 100 * time.Hour})
	rng := rand.New(rand.NewPCG(7, 7))
	type pair struct{ a, b *quota.Reservation }
	var running []pair
	refused := 0
	for range 30_000 {
		step := time.Duration(rng.Int64N(int64(2 * time.Second)))
		clockA.add(step)
		clockB.add(step)
		b.Sweep()
		d := quota.Demand{Org: string(rune('a' + rng.IntN(4))), Key: string(rune('a' + rng.IntN(30))), Input: rng.Int64N(4000), Output: rng.Int64N(200)}
		p := pair{&quota.Reservation{}, &quota.Reservation{}}
		errA, errB := a.Reserve(&d, p.a), b.Reserve(&d, p.b)
		require.Equal(t, errA, errB)
		if errA == nil {
			running = append(running, p)
		} else {
			refused++
		}
		if len(running) > 20 {
			at := rng.IntN(len(running))
			p := running[at]
			running = append(running[:at], running[at+1:]...)
			u := quota.Used{Uncached: rng.Int64N(5000)}
			require.True(t, p.a.Settle(u))
			require.True(t, p.b.Settle(u))
		}
	}
	require.Greater(t, refused, 1000)
}
