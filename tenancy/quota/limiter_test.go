package quota_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// hand is a clock that is moved by hand.
type hand struct{ ns atomic.Int64 }

func (h *hand) now() time.Time      { return time.Unix(1_700_000_000, h.ns.Load()).UTC() }
func (h *hand) add(d time.Duration) { h.ns.Add(int64(d)) }

func newLimiter(t testing.TB, o quota.Options) (*quota.Limiter, *hand) {
	t.Helper()
	h := &hand{}
	o.Now = h.now
	l, err := quota.New(o)
	require.NoError(t, err)
	return l, h
}

func refusal(t *testing.T, err error) *quota.Error {
	t.Helper()
	var r *quota.Error
	require.ErrorAs(t, err, &r)
	return r
}

// Twenty requests of 500 tokens under a thousand a minute: two are served, the others
// are told when, exactly.
func TestTwoOfTwenty(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(t, quota.Options{Rules: []quota.Rule{
		{Name: "tokens", Scope: quota.PerTenant, Tokens: quota.Rate{Amount: 1000}},
	}})
	var wg sync.WaitGroup
	var admitted atomic.Int32
	for range 20 {
		wg.Go(func() {
			err := l.Reserve(&quota.Demand{Tenant: "a", Input: 400, Output: 100}, &quota.Reservation{})
			if err == nil {
				admitted.Add(1)
				return
			}
			r := &quota.Error{}
			if !errors.As(err, &r) {
				t.Errorf("not an Error: %v", err)
				return
			}
			assert.Equal(t, 30*time.Second, r.RetryAfter)
			assert.True(t, r.Exact)
			assert.Equal(t, "tokens", r.Rule)
			assert.Equal(t, "a", r.Who)
		})
	}
	wg.Wait()
	require.EqualValues(t, 2, admitted.Load())
	require.NoError(t, l.Reserve(&quota.Demand{Tenant: "b", Input: 1000}, &quota.Reservation{}), "another tenant")
	clock.add(30*time.Second - 1)
	require.Equal(t, time.Nanosecond, refusal(t, l.Reserve(&quota.Demand{Tenant: "a", Input: 500}, &quota.Reservation{})).RetryAfter)
	clock.add(1)
	require.NoError(t, l.Reserve(&quota.Demand{Tenant: "a", Input: 500}, &quota.Reservation{}))
}

// What could never fit is not told to come again.
func TestPermanent(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, quota.Options{Rules: []quota.Rule{
		{Name: "tokens", Tokens: quota.Rate{Amount: 1000, Burst: 300}},
		{Name: "closed", Level: "closed", Classes: []string{"batch"}, Deny: true},
		{Name: "money", Level: "money", Budget: quota.Budget{Money: 50, Period: quota.Day}},
	}})
	r := refusal(t, l.Reserve(&quota.Demand{Input: 301}, &quota.Reservation{}))
	require.True(t, r.Permanent)
	require.Zero(t, r.RetryAfter)
	require.Equal(t, int64(300), r.Limit)
	require.True(t, refusal(t, l.Reserve(&quota.Demand{Class: "batch"}, &quota.Reservation{})).Denied)
	require.NoError(t, l.Reserve(&quota.Demand{Input: 300, Cost: 50}, &quota.Reservation{}), "nothing was taken by those that were refused")
}

// What is only a guess refuses nobody for good: an answer's length, what it costs, and how
// much of the prompt is cached. It takes all that there is, and the rest at the end.
func TestGuessesAreNotPermanent(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(t, quota.Options{
		Weights: quota.Weights{Cached: quota.Hundredths(10)},
		Rules: []quota.Rule{{
			Name: "r", Tokens: quota.Rate{Amount: 1000, Burst: 300}, Input: quota.Rate{Amount: 400}, Output: quota.Rate{Amount: 200},
			Budget: quota.Budget{Money: 50, Tokens: 5000, Period: quota.Day},
		}},
	})
	var r quota.Reservation
	for name, d := range map[string]quota.Demand{
		"output": {Input: 10, Output: 12_000}, "cost": {Cost: 51}, "a prompt that may be cached": {Input: 3000},
	} {
		require.NoError(t, l.Reserve(&d, &r), name)
		require.True(t, r.Refund())
	}
	no := refusal(t, l.Reserve(&quota.Demand{Input: 3001}, &r))
	require.True(t, no.Permanent)
	require.EqualValues(t, 301, no.Asked)
	no = refusal(t, l.Reserve(&quota.Demand{Input: 50_001}, &r))
	require.True(t, no.Permanent)

	big := &quota.Demand{Input: 100, Output: 12_000, Cost: 1000}
	require.NoError(t, l.Reserve(big, &r))
	no = refusal(t, l.Reserve(&quota.Demand{Output: 1}, &quota.Reservation{}))
	require.False(t, no.Permanent)
	require.True(t, r.Settle(quota.Used{Uncached: 100, Output: 500, Cost: 20}))
	// 600 of 300 were used: as much more is missing as was reserved too little.
	no = refusal(t, l.Reserve(&quota.Demand{Output: 1}, &r))
	require.EqualValues(t, -300, no.Left)
	clock.add(time.Hour)
	no = refusal(t, l.Reserve(big, &r))
	require.Equal(t, quota.Money, no.Meter)
	require.EqualValues(t, 20, no.Spent)
	require.EqualValues(t, 50, no.Asked)
	require.True(t, no.Exact)
	clock.add(no.RetryAfter)
	require.NoError(t, l.Reserve(big, &r))
	require.True(t, r.Refund())
	require.NoError(t, l.Reserve(big, &r), "all was given back")
}

// All or nothing: what the second rule refuses takes nothing from the first.
func TestAllOrNothing(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, quota.Options{Rules: []quota.Rule{
		{Name: "org", Scope: quota.PerOrg, Requests: quota.Rate{Amount: 3}},
		{Name: "key", Scope: quota.PerKey, Requests: quota.Rate{Amount: 1}},
	}})
	for _, key := range []string{"x", "x", "x", "y", "z"} {
		err := l.Reserve(&quota.Demand{Org: "o", Key: key}, &quota.Reservation{})
		if err != nil {
			require.Equal(t, "key", refusal(t, err).Rule)
		}
	}
	require.Equal(t, "org", refusal(t, l.Reserve(&quota.Demand{Org: "o", Key: "w"}, &quota.Reservation{})).Rule)
}

// Of one level the first rule that matches holds: exceptions, and limits by model.
func TestLevels(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, quota.Options{Rules: []quota.Rule{
		{Name: "free", Level: "tenant", Scope: quota.PerTenant, Tenants: []string{"staff"}},
		{Name: "gold", Level: "tenant", Scope: quota.PerTenant, Tenants: []string{"gold"}, Requests: quota.Rate{Amount: 2}},
		{Name: "rest", Level: "tenant", Scope: quota.PerTenant, PerModel: true, Requests: quota.Rate{Amount: 1}},
	}})
	count := func(tenant, model string) (n int) {
		for n < 10 && l.Reserve(&quota.Demand{Tenant: tenant, Model: model}, &quota.Reservation{}) == nil {
			n++
		}
		return n
	}
	require.Equal(t, 10, count("staff", "m"))
	require.Equal(t, 2, count("gold", "m"))
	require.Equal(t, 0, count("gold", "n"), "one bucket for all models")
	require.Equal(t, 1, count("x", "m"))
	require.Equal(t, 1, count("x", "n"), "a bucket for each model")
	require.Equal(t, 1, count("y", "m"))
}

// Two organisations may have teams of one name; and names that look like each other's
// when joined are not.
func TestNamesDoNotMeet(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter(t, quota.Options{Rules: []quota.Rule{
		{Name: "team", Scope: quota.PerTeam, PerModel: true, Requests: quota.Rate{Amount: 1}},
	}})
	for _, d := range []quota.Demand{
		{Org: "a", Team: "t"},
		{Org: "b", Team: "t"},
		{Org: "at"},
		{Team: "at"},
		{Team: "a", Model: "t"},
		{Org: "a", Model: "t"},
		{Org: "\x01a", Team: ""},
		{Org: "", Team: "\x01a"},
	} {
		require.NoError(t, l.Reserve(&d, &quota.Reservation{}), "%+v", d)
		require.Error(t, l.Reserve(&d, &quota.Reservation{}), "%+v", d)
	}
}

// Usage beyond the estimate is debt, which time pays; less is given back at once; and
// each is done once.
func TestSettle(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(t, quota.Options{
		Weights: quota.Weights{Cached: quota.Hundredths(10), Reasoning: quota.Hundredths(0)},
		Rules:   []quota.Rule{{Name: "tokens", Tokens: quota.Rate{Amount: 6000}}}, // 100 a second
	})
	var r quota.Reservation
	require.NoError(t, l.Reserve(&quota.Demand{Input: 5000, Output: 1000}, &r))
	require.ErrorIs(t, l.Reserve(&quota.Demand{}, &r), quota.ErrInUse)
	require.True(t, r.Settle(quota.Used{Uncached: 1000, CacheRead: 4000, Output: 7000, Reasoning: 1000}))
	require.False(t, r.Settle(quota.Used{}))
	require.False(t, r.Refund())
	// 1,000 + 400 + 6,000 of 6,000
	require.Equal(t, 14*time.Second+10*time.Millisecond, refusal(t, l.Reserve(&quota.Demand{Input: 1}, &r)).RetryAfter)
	clock.add(74 * time.Second)
	require.NoError(t, l.Reserve(&quota.Demand{Input: 6000}, &r))
	require.True(t, r.Settle(quota.Used{Uncached: 10, CacheRead: 1})) // 10.1 tokens
	s, ok := r.Standing(quota.Tokens)
	require.False(t, ok, s)
	require.NoError(t, l.Reserve(&quota.Demand{Input: 1}, &r))
	s, ok = r.Standing(quota.Tokens)
	require.True(t, ok)
	require.Equal(t, quota.Standing{Rule: "tokens", Limit: 6000, Left: 5988, Full: 120 * time.Millisecond}, s)
	require.True(t, r.Refund())
}

// A refund of what time has given back already gives nothing.
func TestRefundIsNotGivenTwice(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(t, quota.Options{Rules: []quota.Rule{{Name: "r", Tokens: quota.Rate{Amount: 60}}}})
	var early, late quota.Reservation
	require.NoError(t, l.Reserve(&quota.Demand{Input: 60}, &early))
	clock.add(2 * time.Minute)
	require.NoError(t, l.Reserve(&quota.Demand{Input: 60}, &late))
	require.True(t, early.Refund())
	require.Equal(t, time.Second, refusal(t, l.Reserve(&quota.Demand{Input: 1}, &early)).RetryAfter)
	require.True(t, late.Refund())
	require.NoError(t, l.Reserve(&quota.Demand{Input: 60}, &early))
}

// Requests that were let through one after the other, as the bucket refilled, and are all
// given back at one moment don't let as many through at that moment.
func TestManyRefundsAtOnce(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(t, quota.Options{Rules: []quota.Rule{{Name: "r", Tokens: quota.Rate{Amount: 1000}}}})
	var held [30]quota.Reservation
	for i := range held {
		if i > 0 {
			clock.add(time.Minute)
		}
		require.NoError(t, l.Reserve(&quota.Demand{Input: 1000}, &held[i]))
	}
	passed := 0
	for i := range held {
		require.True(t, held[i].Refund())
		for l.Reserve(&quota.Demand{Input: 250}, &quota.Reservation{}) == nil {
			passed++
		}
	}
	require.Equal(t, 4, passed)
}

func TestConcurrencyAndExpiry(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(t, quota.Options{
		MaxAge: time.Minute,
		Rules:  []quota.Rule{{Name: "running", Scope: quota.PerTenant, Concurrency: 2, Tokens: quota.Rate{Amount: 1000}}},
	})
	var a, b, c quota.Reservation
	d := &quota.Demand{Tenant: "t", Input: 100}
	require.NoError(t, l.Reserve(d, &a))
	clock.add(30 * time.Second)
	require.NoError(t, l.Reserve(d, &b))
	r := refusal(t, l.Reserve(d, &c))
	require.Equal(t, quota.Concurrency, r.Meter)
	require.False(t, r.Exact)
	require.Equal(t, time.Second, r.RetryAfter)
	clock.add(30 * time.Second)
	require.NoError(t, l.Reserve(d, &c), "the first has been under way for too long")
	require.False(t, a.Settle(quota.Used{Output: 1 << 50}), "it counts as settled")
	totals := l.Totals()
	require.Equal(t, 1, totals.Expired)
	require.Equal(t, 2, totals.Running)
	require.EqualValues(t, 100, totals.Settled[quota.Tokens])
	require.True(t, b.Refund())
	require.True(t, c.Refund())
}

// Where too many are under way as well, nobody knows when it fits.
func TestTwoReasonsAreNotExact(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"", "another"} {
		l, _ := newLimiter(t, quota.Options{Rules: []quota.Rule{
			{Name: "running", Concurrency: 1},
			{Name: "rate", Level: level, Scope: quota.PerTenant, Requests: quota.Rate{Amount: 1}},
		}})
		require.NoError(t, l.Reserve(&quota.Demand{}, &quota.Reservation{}))
		no := refusal(t, l.Reserve(&quota.Demand{}, &quota.Reservation{}))
		require.Equal(t, "rate", no.Rule)
		require.Equal(t, time.Minute, no.RetryAfter)
		require.False(t, no.Exact)
	}
}

// Demands and reports of any size do no harm.
func TestAbsurdNumbers(t *testing.T) {
	t.Parallel()
	l, clock := newLimiter(t, quota.Options{Rules: []quota.Rule{{
		Name: "r", Tokens: quota.Rate{Amount: 1000}, Budget: quota.Budget{Money: 1 << 50, Period: quota.Day},
	}}})
	var r quota.Reservation
	for _, n := range []int64{999_999_999, 1 << 62, -1 << 63, 1<<63 - 1} {
		err := l.Reserve(&quota.Demand{Input: n, Output: n, Cached: n, Cost: n}, &r)
		if n > 0 {
			require.True(t, refusal(t, err).Permanent, n)
			continue
		}
		require.NoError(t, err)
		require.True(t, r.Refund())
	}
	require.NoError(t, l.Reserve(&quota.Demand{Input: 1}, &r))
	require.True(t, r.Settle(quota.Used{Output: 1<<63 - 1, Reasoning: 1<<63 - 1, Uncached: 1<<63 - 1, Cost: 1<<63 - 1}))
	for range 3 {
		require.Positive(t, refusal(t, l.Reserve(&quota.Demand{Input: 1}, &r)).RetryAfter)
		clock.add(time.Hour)
	}
}

// 20 goroutines x 1,000 requests on 100,000 tokens a minute, with answers of other
// lengths than estimated: what was really used stays below what the bucket holds and
// refills, plus one request's error of estimate for each under way.
func TestNeverAboveTheLimit(t *testing.T) {
	t.Parallel()
	const limit, goroutines, requests, estimate, worst = 100_000, 20, 1000, 150, 300
	l, clock := newLimiter(t, quota.Options{Rules: []quota.Rule{{Name: "r", Tokens: quota.Rate{Amount: limit}}}})
	var used atomic.Int64
	served := make([]int, goroutines)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			var r quota.Reservation
			for i := range requests {
				for {
					err := l.Reserve(&quota.Demand{Input: 100, Output: 50}, &r)
					if err == nil {
						break
					}
					var no *quota.Error
					if !errors.As(err, &no) {
						t.Errorf("not an Error: %v", err)
						return
					}
					clock.add(no.RetryAfter/2 + 1)
					runtime.Gosched()
				}
				took := int64(100 + (i*37+g)%(worst-100))
				total := used.Add(took)
				// In floating point: those who wait move the clock, while others are held up by days.
				most := limit + int64(limit*time.Duration(clock.ns.Load()).Minutes()) + 1 + goroutines*(worst-estimate)
				if !assert.LessOrEqual(t, total, most) || !assert.True(t, r.Settle(quota.Used{Uncached: 100, Output: took - 100})) {
					return
				}
				served[g]++
			}
		})
	}
	wg.Wait()
	for g := range served {
		require.Equal(t, requests, served[g], "goroutine %d starved", g)
	}
	totals := l.Totals()
	require.Equal(t, totals.Reserved, sum(totals.Settled, totals.Refunded))
	require.Equal(t, used.Load(), totals.Settled[quota.Tokens])
}

func sum[A ~[4]int64](a, b A) A {
	for i := range a {
		a[i] += b[i]
	}
	return a
}

func TestRulesThatCannotBe(t *testing.T) {
	t.Parallel()
	for want, rules := range map[string][]quota.Rule{
		`rule 0 "": it has no Name`:                      {{}},
		`rule 0 "a": it limits nothing`:                  {{Name: "a"}},
		`rule 1 "a": there is another rule of that name`: {{Name: "a", Concurrency: 1}, {Name: "a", Concurrency: 1}},
		`the rate of requests: the Amount -1`:            {{Name: "a", Requests: quota.Rate{Amount: -1}}},
		`a negative Concurrency`:                         {{Name: "a", Concurrency: -1}},
		`it has neither Money nor Tokens`:                {{Name: "a", Budget: quota.Budget{Period: quota.Day}}},
		`the Period "fortnight" is none of`:              {{Name: "a", Budget: quota.Budget{Money: 1, Period: "fortnight"}}},
		`it has both a Period and a Window`:              {{Name: "a", Budget: quota.Budget{Money: 1, Period: quota.Day, Window: time.Hour}}},
		`a Window of less than a minute is a rate`:       {{Name: "a", Budget: quota.Budget{Money: 1, Window: time.Second}}},
		`Scope(9) is no scope`:                           {{Name: "a", Scope: 9, Concurrency: 1}},
		`9 levels; a request passes at most 8`:           manyLevels(9),
	} {
		_, err := quota.New(quota.Options{Rules: rules})
		require.ErrorContains(t, err, want)
	}
	_, err := quota.New(quota.Options{Rules: manyLevels(8)})
	require.NoError(t, err)
}

func manyLevels(n int) (rules []quota.Rule) {
	for i := range n {
		rules = append(rules, quota.Rule{Name: fmt.Sprint(i), Level: fmt.Sprint(i), Concurrency: 1})
	}
	return rules
}

func TestRefusalSaysWhat(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]quota.Error{
		`quota: rule "r" for tenant "a": the limit of 1000 tokens is reached (-20 left, 500 needed); again in 31.2s`: {
			Rule: "r", Scope: quota.PerTenant, Who: "a", Meter: quota.Tokens, Limit: 1000, Left: -20, Asked: 500, RetryAfter: 31200 * time.Millisecond,
		},
		`quota: rule "r" for everybody, model "m", class "c": the request needs 9 input tokens, and 5 is the most that it lets through at once`: {
			Rule: "r", Model: "m", Class: "c", Meter: quota.Input, Limit: 5, Asked: 9, Permanent: true,
		},
		`quota: rule "r" lets nothing through for key "k"`: {Rule: "r", Scope: quota.PerKey, Who: "k", Denied: true, Permanent: true},
	} {
		require.EqualError(t, &r, want)
	}
}
