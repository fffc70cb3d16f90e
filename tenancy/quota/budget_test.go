package quota_test

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// at is a clock that stands.
type at struct{ t atomic.Pointer[time.Time] }

func (a *at) set(t time.Time) { a.t.Store(&t) }

func budgeted(t *testing.T, b quota.Budget, soft func(*quota.Notice)) (*quota.Limiter, *at) {
	t.Helper()
	clock := &at{}
	clock.set(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	l, err := quota.New(quota.Options{
		Now: func() time.Time { return *clock.t.Load() }, OnSoft: soft, MaxAge: 10000 * time.Hour,
		Rules: []quota.Rule{{Name: "b", Scope: quota.PerTeam, Budget: b}},
	})
	require.NoError(t, err)
	return l, clock
}

func spend(t *testing.T, l *quota.Limiter, money int64) error {
	t.Helper()
	var r quota.Reservation
	if err := l.Reserve(&quota.Demand{Team: "t", Cost: money}, &r); err != nil {
		return err
	}
	require.True(t, r.Settle(quota.Used{Cost: money}))
	return nil
}

// Periods are the calendar's in the budget's zone, whatever the length of its days.
func TestCalendar(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, c := range []struct {
		period      quota.Period
		zone        *time.Location
		spent, next time.Time
	}{
		{quota.Day, nil, time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 6, 0, 0, 0, 0, time.UTC)},
		{quota.Day, berlin, time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC)},      // 23 hours
		{quota.Day, berlin, time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 23, 0, 0, 0, time.UTC)}, // 25 hours
		{quota.Week, nil, time.Date(2026, 3, 8, 23, 0, 0, 0, time.UTC), time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)},        // Sunday
		{quota.Week, nil, time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 16, 0, 0, 0, 0, time.UTC)},
		{quota.Month, nil, time.Date(2028, 2, 29, 12, 0, 0, 0, time.UTC), time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)},
		{quota.Month, berlin, time.Date(2026, 12, 31, 22, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC)},
		{quota.Year, nil, time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		l, clock := budgeted(t, quota.Budget{Money: 100, Period: c.period, Zone: c.zone}, nil)
		clock.set(c.spent)
		require.NoError(t, spend(t, l, 70))
		clock.set(c.next.Add(-time.Nanosecond))
		no := refusal(t, spend(t, l, 31))
		require.Equal(t, quota.Error{
			Rule: "b", Scope: quota.PerTeam, Who: "t", Meter: quota.Money, Limit: 100, Asked: 31, Left: 30, RetryAfter: 1, Exact: true,
			Spent: 70, Reset: no.Reset,
		}, *no, "%v %v", c.period, c.spent)
		require.True(t, no.Reset.Equal(c.next), no.Reset)
		require.NoError(t, spend(t, l, 30))
		clock.set(c.next)
		require.NoError(t, spend(t, l, 100))
	}
}

// Days, weeks, months and years follow each other without a gap and go on, whatever
// becomes of midnight.
func TestCalendarWithoutMidnight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		zone       string
		day        time.Time // some time before, in UTC
		start, end string    // of the day that is unusual
	}{
		{"America/Santiago", time.Date(2026, 9, 3, 0, 0, 0, 0, time.UTC), "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"}, // begins at 1:00
		{"America/Santiago", time.Date(2026, 4, 2, 0, 0, 0, 0, time.UTC), "2026-04-04T03:00:00Z", "2026-04-05T04:00:00Z"}, // 23:00 comes twice
		{"America/Havana", time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC), "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"America/Havana", time.Date(2026, 10, 29, 0, 0, 0, 0, time.UTC), "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"}, // 0:00 comes twice
		{"Africa/Cairo", time.Date(2026, 4, 20, 0, 0, 0, 0, time.UTC), "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"},
		{"Asia/Beirut", time.Date(2026, 3, 26, 0, 0, 0, 0, time.UTC), "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},
		{"America/St_Johns", time.Date(2010, 11, 4, 0, 0, 0, 0, time.UTC), "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"}, // 0:01 is 23:01 again
		{"Pacific/Apia", time.Date(2011, 12, 27, 0, 0, 0, 0, time.UTC), "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"},    // no 30th
		{"Asia/Kathmandu", time.Date(2026, 4, 20, 0, 0, 0, 0, time.UTC), "2026-04-21T18:15:00Z", "2026-04-22T18:15:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		require.NoError(t, err)
		for _, period := range []quota.Period{quota.Day, quota.Week, quota.Month, quota.Year} {
			plan, err := quota.NewPlan(quota.Options{Rules: []quota.Rule{{Name: "b", Budget: quota.Budget{Money: 1, Period: period, Zone: zone}}}})
			require.NoError(t, err)
			buckets, _, _ := plan.Find(&quota.Demand{})
			step := buckets[0]
			_, last, lastEnd := step.Step(c.day)
			seen := false
			for now := c.day; now.Before(c.day.AddDate(0, 0, 14)); now = now.Add(10 * time.Minute) {
				oldest, start, end := step.Step(now)
				require.Equal(t, start, oldest)
				require.False(t, start.After(now), "%v %v: %v", zone, period, now)
				require.True(t, end.After(now), "%v %v: %v to %v", zone, period, now, end.In(zone))
				if !start.Equal(last) {
					require.True(t, start.Equal(lastEnd), "%v %v: %v is not %v", zone, period, start.In(zone), lastEnd.In(zone))
				}
				last, lastEnd = start, end
				seen = seen || start.UTC().Format(time.RFC3339) == c.start && end.UTC().Format(time.RFC3339) == c.end
				if period == quota.Week {
					require.Equal(t, time.Monday, start.In(zone).Weekday())
				}
			}
			require.True(t, seen || period != quota.Day, "%v", zone)
		}
	}
}

// A window counts what is not older than it, in steps; against all payments in a list.
func TestWindow(t *testing.T) {
	t.Parallel()
	const window, limit = time.Hour, 1000
	l, clock := budgeted(t, quota.Budget{Money: limit, Window: window}, nil)
	type payment struct {
		at    time.Time
		money int64
	}
	var paid []payment
	rng := rand.New(rand.NewPCG(3, 5))
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	sum := func(since time.Time) (n int64) {
		for _, p := range paid {
			if !p.at.Before(since) {
				n += p.money
			}
		}
		return n
	}
	refused := 0
	for range 20_000 {
		now = now.Add(time.Duration(rng.Int64N(int64(3 * time.Minute))))
		clock.set(now)
		money := rng.Int64N(200)
		err := spend(t, l, money)
		if err == nil {
			require.LessOrEqual(t, sum(now.Add(-window))+money, int64(limit))
			paid = append(paid, payment{now, money})
			continue
		}
		refused++
		require.Greater(t, sum(now.Add(-window-window/60-window/60))+money, int64(limit), "it counts for too long")
		no := refusal(t, err)
		paid = slices.DeleteFunc(paid, func(p payment) bool { return p.at.Before(now.Add(-2 * window)) })
		if rng.IntN(10) > 0 {
			continue
		}
		now = now.Add(no.RetryAfter)
		clock.set(now.Add(-1))
		require.Error(t, spend(t, l, money), "it says to come sooner than it must")
		clock.set(now)
		require.NoError(t, spend(t, l, money), "RetryAfter is when it fits")
		paid = append(paid, payment{now, money})
	}
	require.Greater(t, refused, 1000)
}

// What requests under way may cost is counted; what they did not is not.
func TestBudgetReserves(t *testing.T) {
	t.Parallel()
	l, _ := budgeted(t, quota.Budget{Money: 100, Tokens: 1000, Period: quota.Month}, nil)
	var a, b quota.Reservation
	require.NoError(t, l.Reserve(&quota.Demand{Team: "t", Cost: 60}, &a))
	require.Equal(t, int64(40), refusal(t, l.Reserve(&quota.Demand{Team: "t", Cost: 60}, &b)).Left)
	require.True(t, a.Settle(quota.Used{Cost: 10, Uncached: 990}))
	require.NoError(t, l.Reserve(&quota.Demand{Team: "t", Cost: 90}, &b))
	require.True(t, b.Refund())
	require.Equal(t, quota.BudgetTokens, refusal(t, l.Reserve(&quota.Demand{Team: "t", Input: 11}, &b)).Meter)
	require.NoError(t, l.Reserve(&quota.Demand{Team: "u", Input: 1000}, &b), "another team")
}

// When a budget is taken by requests under way, nobody knows when there is room: that is
// said, and a time that isn't now.
func TestBudgetTakenByRequestsUnderWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		budget        quota.Budget
		demand, spend int64
		retry, reset  time.Duration
		exact         bool
	}{
		{budget: quota.Budget{Money: 100, Window: time.Hour}, demand: 50, retry: time.Second, reset: time.Second},
		{budget: quota.Budget{Money: 100, Window: time.Hour}, demand: 50, spend: 15, retry: time.Second, reset: time.Second},
		{budget: quota.Budget{Money: 100, Window: time.Hour}, demand: 90, spend: 15, retry: 61 * time.Minute, reset: 61 * time.Minute},
		{budget: quota.Budget{Money: 100, Window: time.Hour}, demand: 15, spend: 15, retry: 61 * time.Minute, reset: 61 * time.Minute, exact: true},
		{budget: quota.Budget{Money: 100, Period: quota.Day}, demand: 50, retry: time.Second, reset: 24 * time.Hour},
		{budget: quota.Budget{Money: 100, Period: quota.Day}, demand: 90, spend: 15, retry: 24 * time.Hour, reset: 24 * time.Hour},
		{budget: quota.Budget{Money: 100, Period: quota.Day}, demand: 15, spend: 15, retry: 24 * time.Hour, reset: 24 * time.Hour, exact: true},
	} {
		l, clock := budgeted(t, c.budget, nil)
		now := *clock.t.Load()
		require.NoError(t, spend(t, l, c.spend))
		var running quota.Reservation
		require.NoError(t, l.Reserve(&quota.Demand{Team: "t", Cost: 80}, &running))
		no := refusal(t, spend(t, l, c.demand))
		require.Equal(t, c.retry, no.RetryAfter, "%+v", c)
		require.Equal(t, c.reset, no.Reset.Sub(now), "%+v", c)
		require.Equal(t, c.exact, no.Exact, "%+v", c)
		require.NotContains(t, no.Error(), "in 1ns")
		if c.exact {
			clock.set(now.Add(no.RetryAfter))
			require.NoError(t, spend(t, l, c.demand))
		}
	}
}

// The soft limit is told once in a period; a soft budget refuses nothing.
func TestSoft(t *testing.T) {
	t.Parallel()
	var told []quota.Notice
	l, clock := budgeted(t, quota.Budget{Money: 100, Period: quota.Day, SoftAt: 50, Soft: true}, func(n *quota.Notice) {
		told = append(told, *n)
	})
	for day := 1; day < 4; day++ {
		clock.set(time.Date(2026, 3, day, 12, 0, 0, 0, time.UTC))
		for range 20 {
			require.NoError(t, spend(t, l, 10))
		}
	}
	for i := range told {
		want := quota.Notice{
			Rule: "b", Scope: quota.PerTeam, Who: "t", Money: 50, MoneyLimit: 100, Reset: time.Date(2026, 3, i+2, 0, 0, 0, 0, time.UTC),
		}
		require.Equal(t, want, told[i])
	}
	require.Len(t, told, 3)
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	var o quota.Outputs
	require.EqualValues(t, 512, o.Estimate("a", "m", 0, 1))
	require.EqualValues(t, 100, o.Estimate("a", "m", 100, 0))
	require.EqualValues(t, 800, o.Estimate("a", "m", 100, 8))
	require.EqualValues(t, 512*128, o.Estimate("a", "m", 999_999_999, 1<<30), "clamped")
	var all []int64
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		n := rng.Int64N(2000)
		o.Learn("a", "m", n)
		all = append(all, n)
		if i < 7 {
			continue
		}
		last := slices.Clone(all[max(0, len(all)-64):])
		slices.Sort(last)
		require.Equal(t, last[(len(last)-1)*95/100], o.Estimate("a", "m", 0, 1))
	}
	require.Equal(t, o.Estimate("a", "m", 0, 1), o.Estimate("new", "m", 0, 1), "a new tenant goes by the model's others")
	o.Learn("a", "m", -5)
	o.Learn("a", "m", 1<<62)
	for i := range 20_000 {
		o.Learn(string(rune(i)), "x", 1)
	}
	require.EqualValues(t, 512, o.Estimate("a", "other", 0, 1))
}
