package quota_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// What changes loses no more than Update says: rates, requests under way and budgets go
// on, each by its new limit.
func TestUpdateKeepsState(t *testing.T) {
	t.Parallel()
	day := quota.Budget{Money: 100, Period: quota.Day}
	rules := []quota.Rule{
		{Name: "same", Requests: quota.Rate{Amount: 100}},
		{Name: "rate", Level: "rate", Scope: quota.PerTenant, Tokens: quota.Rate{Amount: 60}},
		{Name: "running", Level: "running", Concurrency: 2},
		{Name: "money", Level: "money", Scope: quota.PerTenant, Budget: day},
		{Name: "gone", Level: "gone", Scope: quota.PerKey, Requests: quota.Rate{Amount: 5}},
	}
	l, clock := newLimiter(t, quota.Options{Rules: rules})
	var a, b, c quota.Reservation
	require.NoError(t, l.Reserve(&quota.Demand{Tenant: "t", Input: 30, Cost: 40}, &a))
	require.NoError(t, l.Reserve(&quota.Demand{Tenant: "t", Cost: 20}, &b))
	require.True(t, b.Settle(quota.Used{Cost: 20}))

	_, err := l.Update([]quota.Rule{{Name: "x"}}, quota.Weights{})
	require.Error(t, err, "nothing changes")
	changes, err := l.Update(rules, quota.Weights{})
	require.NoError(t, err)
	require.Empty(t, changes)

	next := append([]quota.Rule{}, rules[:4]...)
	next[1].Tokens = quota.Rate{Amount: 120, Burst: 60}
	next[2].Concurrency = 1
	next[3].Budget.Money = 65
	next = append(next, quota.Rule{Name: "new", Level: "new", Requests: quota.Rate{Amount: 1}})
	changes, err = l.Update(next, quota.Weights{})
	require.NoError(t, err)
	require.Equal(t, []quota.Change{
		{Rule: "rate", What: "changed"},
		{Rule: "running", What: "changed"},
		{Rule: "money", What: "changed"},
		{Rule: "new", What: "new"},
		{Rule: "gone", What: "removed", Lost: "all buckets and budgets"},
	}, changes)
	no := refusal(t, l.Reserve(&quota.Demand{Tenant: "t"}, &c))
	require.Equal(t, "running", no.Rule)
	no = refusal(t, l.Reserve(&quota.Demand{Tenant: "t", Cost: 10}, &c))
	require.Equal(t, quota.Error{
		Rule: "money", Scope: quota.PerTenant, Who: "t", Meter: quota.Money, Limit: 65, Asked: 10, Left: 5, Spent: 60,
		RetryAfter: no.RetryAfter, Reset: no.Reset, // not exact: too many are under way as well
	}, *no)
	require.ErrorContains(t, no, `quota: rule "money" for tenant "t": the budget of 65 millionths of money is spent or reserved (60 are, 10 more needed); it resets at `)
	require.Equal(t, no.Reset, clock.now().Add(no.RetryAfter))
	require.True(t, a.Refund(), "by the rules of now")
	// 30 of 60 at one a second were missing: 30 s, at twice the pace 60; what was taken
	// before is not given back.
	require.NoError(t, l.Reserve(&quota.Demand{Tenant: "t", Cost: 45}, &c))
	s, ok := c.Standing(quota.Tokens)
	require.True(t, ok)
	require.Equal(t, quota.Standing{Rule: "rate", Limit: 60, Left: 0, Full: 30 * time.Second}, s)
	require.True(t, c.Refund())

	next[3].Budget = quota.Budget{Money: 65, Window: 24 * time.Hour}
	next[1].PerModel = true
	changes, err = l.Update(next, quota.Weights{})
	require.NoError(t, err)
	require.Equal(t, []quota.Change{
		{Rule: "rate", What: "changed", Lost: "all buckets and budgets: requests are counted by something else now"},
		{Rule: "money", What: "changed", Lost: "what was spent of the budget: its period, zone or window has changed"},
	}, changes)
	clock.add(time.Minute)
	require.NoError(t, l.Reserve(&quota.Demand{Tenant: "t", Input: 60, Cost: 65}, &c))
	require.True(t, c.Refund())
}

// Rules change all the time while requests come and go: nothing is left under way, and the
// sums hold.
func TestUpdateWhileInUse(t *testing.T) {
	t.Parallel()
	sets := [][]quota.Rule{
		{{Name: "a", Scope: quota.PerTenant, Tokens: quota.Rate{Amount: 1 << 30}, Concurrency: 50}},
		{{Name: "a", Scope: quota.PerTenant, Tokens: quota.Rate{Amount: 7919}, Concurrency: 40, Budget: quota.Budget{Money: 1 << 40, Period: quota.Day}}},
		{{Name: "a", Scope: quota.PerTenant, Budget: quota.Budget{Money: 1 << 40, Window: time.Hour}}, {Name: "b", Requests: quota.Rate{Amount: 1 << 20}}},
		{},
	}
	l, clock := newLimiter(t, quota.Options{Rules: sets[0]})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(g)))
			for i := range 3000 {
				var r quota.Reservation
				if l.Reserve(&quota.Demand{Tenant: strconv.Itoa(rng.IntN(20)), Input: rng.Int64N(100), Cost: 5}, &r) == nil {
					r.Standing(quota.Tokens)
					r.Soft()
					if i%2 == 0 {
						assert.True(t, r.Settle(quota.Used{Uncached: 3, Cost: 5}))
					} else {
						assert.True(t, r.Refund())
					}
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 300 {
			_, err := l.Update(sets[i%len(sets)], quota.Weights{})
			assert.NoError(t, err)
		}
	})
	wg.Wait()
	_, err := l.Update(sets[1], quota.Weights{})
	require.NoError(t, err)
	totals := l.Totals()
	require.Zero(t, totals.Running)
	require.Equal(t, totals.Reserved, sum(totals.Settled, totals.Refunded))
	clock.add(49 * time.Hour)
	l.Sweep()
	require.Zero(t, l.Totals().Buckets, "nothing is under way in any of them")
}

// A Hold tells of budgets at their soft limit, requests under way included.
func TestHoldTellsOfSoftBudgets(t *testing.T) {
	t.Parallel()
	l, _ := budgeted(t, quota.Budget{Money: 100, Period: quota.Month, SoftAt: 50, Soft: true}, nil)
	ctx := context.Background()
	d := &quota.Demand{Team: "t", Cost: 30}
	a, err := l.Admit(ctx, d)
	require.NoError(t, err)
	require.Empty(t, a.Soft())
	b, err := l.Admit(ctx, d)
	require.NoError(t, err)
	require.Equal(t, []quota.Notice{{
		Rule: "b", Scope: quota.PerTeam, Who: "t", Money: 60, MoneyLimit: 100, Reset: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC),
	}}, b.Soft())
	require.True(t, a.Refund())
	require.Empty(t, b.Soft())
	require.True(t, b.Settle(quota.Used{Cost: 300}))
	require.Empty(t, b.Soft(), "it is ended")
	c, err := l.Admit(ctx, d)
	require.NoError(t, err)
	require.EqualValues(t, 330, c.Soft()[0].Money)
}

// A Plan that is told the state says what the Limiter says that has it.
func TestPlanSaysWhatTheLimiterSays(t *testing.T) {
	t.Parallel()
	o := quota.Options{Rules: []quota.Rule{
		{Name: "rate", Scope: quota.PerTenant, PerModel: true, Tokens: quota.Rate{Amount: 600}},
		{Name: "running", Level: "running", Concurrency: 1},
		{Name: "money", Level: "money", Scope: quota.PerTeam, Budget: quota.Budget{Money: 100, Period: quota.Day}},
		{Name: "closed", Level: "closed", Classes: []string{"batch"}, Deny: true},
	}}
	l, clock := newLimiter(t, o)
	p, err := quota.NewPlan(o)
	require.NoError(t, err)
	d := &quota.Demand{Org: "o", Team: "t", Tenant: "x", Model: "m", Input: 500, Cost: 80}
	_, _, never := p.Find(&quota.Demand{Class: "batch"})
	require.True(t, never.Denied)
	_, _, never = p.Find(&quota.Demand{Input: 601})
	require.Equal(t, refusal(t, l.Reserve(&quota.Demand{Input: 601}, &quota.Reservation{})), never)

	buckets, keys, never := p.Find(d)
	require.Nil(t, never)
	require.Len(t, buckets, 3)
	require.Len(t, keys, 3)
	states := make([]quota.State, 3)
	require.Nil(t, p.Refusal(d, buckets, states, clock.now()))
	require.Empty(t, p.Soft(d, buckets, states, clock.now()))
	require.NoError(t, l.Reserve(d, &quota.Reservation{}))
	ns, frac := buckets[0].Span(quota.Tokens, p.Demanded(d).Rates[quota.Tokens])
	states[0].Rates[quota.Tokens] = quota.Fill{Ns: ns, Frac: frac}
	states[1].Running = 1
	states[2].Running, states[2].Money = 1, p.Demanded(d).Money
	require.Equal(t, refusal(t, l.Reserve(d, &quota.Reservation{})), p.Refusal(d, buckets, states, clock.now()))
	s, ok := p.Standing(quota.Tokens, buckets, states)
	require.True(t, ok)
	require.Equal(t, quota.Standing{Rule: "rate", Limit: 600, Left: 100, Full: 50 * time.Second}, s)
	_, ok = p.Standing(quota.Money, buckets, states)
	require.False(t, ok)
	require.EqualValues(t, 80, p.Soft(d, buckets, states, clock.now())[0].Money)
	r, num, den, ok := buckets[0].Rate(quota.Tokens)
	require.True(t, ok)
	require.Equal(t, quota.Rate{Amount: 600, Per: time.Minute, Burst: 600}, r)
	require.EqualValues(t, 100_000_000, num/den)
	_, budget := buckets[0].Budget()
	require.False(t, budget)
	oldest, start, next := buckets[2].Step(clock.now())
	require.Equal(t, oldest, start)
	require.Equal(t, 24*time.Hour, next.Sub(start))
	require.Equal(t, "money", buckets[2].Rule().Name)
	require.Equal(t, int64(3), p.Used(&quota.Used{Output: 3}).Tokens)
	seen := map[string]bool{}
	for _, other := range []quota.Demand{*d, {Tenant: "xm"}, {Tenant: "x", Model: "m2"}, {Org: "ot", Tenant: "x"}} {
		_, keys, _ := p.Find(&other)
		require.False(t, seen[keys[0]+keys[2]])
		seen[keys[0]+keys[2]] = true
	}
}

// Rules that change places under requests: no two of them wait for each other's buckets.
func TestUpdateSwapsLevels(t *testing.T) {
	t.Parallel()
	a := quota.Rule{Name: "a", Level: "a", Requests: quota.Rate{Amount: 1 << 31}}
	b := quota.Rule{Name: "b", Level: "b", Requests: quota.Rate{Amount: 1 << 31}}
	l, _ := newLimiter(t, quota.Options{Rules: []quota.Rule{a, b}})
	const goroutines = 8
	var wg sync.WaitGroup
	var left atomic.Int32
	left.Store(goroutines)
	for range goroutines {
		wg.Go(func() {
			defer left.Add(-1)
			var r quota.Reservation
			for range 20_000 {
				if err := l.Reserve(&quota.Demand{}, &r); err != nil || !r.Refund() {
					t.Errorf("%v", err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := 0; left.Load() > 0; i++ {
			rules := []quota.Rule{a, b}
			if i%2 == 0 {
				rules = []quota.Rule{b, a}
			}
			if _, err := l.Update(rules, quota.Weights{}); err != nil {
				t.Errorf("%v", err)
				return
			}
		}
	})
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		t.Fatal("requests wait for each other")
	}
}

// Another request may find that one has expired, and end it, while that one is asked how it
// stands.
func TestAskedWhileItExpires(t *testing.T) {
	t.Parallel()
	var l *quota.Limiter
	var meanwhile func()
	now := time.Unix(1_700_000_000, 0)
	budget := quota.Budget{Money: 100, Period: quota.Day, SoftAt: 1}
	l, err := quota.New(quota.Options{MaxAge: time.Second, Now: func() time.Time {
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
		}
		return now
	}, Rules: []quota.Rule{{Name: "a", Level: "a", Budget: budget}, {Name: "b", Level: "b", Requests: quota.Rate{Amount: 1}, Budget: budget}}})
	require.NoError(t, err)
	expire := func() {
		now = now.Add(time.Minute)
		l.Sweep()
	}
	var r quota.Reservation
	require.NoError(t, l.Reserve(&quota.Demand{Cost: 10}, &r))
	meanwhile = expire
	require.Len(t, r.Soft(), 2)
	require.Empty(t, r.Soft(), "it is ended")
	require.False(t, r.Refund())
	require.NoError(t, l.Reserve(&quota.Demand{Cost: 10}, &r))
	meanwhile = expire
	s, ok := r.Standing(quota.Requests)
	require.True(t, ok)
	require.Equal(t, "b", s.Rule)
	_, ok = r.Standing(quota.Requests)
	require.False(t, ok)
}
