package quota_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// How budgets stand is told by rule: the worst share, and how many are how far.
func TestBudgetsStand(t *testing.T) {
	t.Parallel()
	clock := &at{}
	clock.set(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
	l, err := quota.New(quota.Options{
		Now: func() time.Time { return *clock.t.Load() },
		Rules: []quota.Rule{
			{Name: "rate", Scope: quota.PerTenant, Requests: quota.Rate{Amount: 100}},
			{Name: "money", Scope: quota.PerTeam, Budget: quota.Budget{Money: 100, Period: quota.Day}},
			{Name: "tokens", Level: "budget", Scope: quota.PerTenant, Budget: quota.Budget{Tokens: 1000, Period: quota.Day, Soft: true}},
		},
	})
	require.NoError(t, err)
	require.Equal(t, []quota.BudgetUse{{Rule: "money"}, {Rule: "tokens"}}, l.Budgets())

	use := func(team string, money int64) {
		var r quota.Reservation
		require.NoError(t, l.Reserve(&quota.Demand{Team: team, Tenant: team, Input: 10, Cost: money}, &r))
		require.True(t, r.Settle(quota.Used{Uncached: 10, Cost: money}))
	}
	use("a", 10)
	use("b", 85)
	use("c", 100)
	var under quota.Reservation
	require.NoError(t, l.Reserve(&quota.Demand{Team: "d", Tenant: "d", Input: 10, Cost: 20}, &under))
	require.Equal(t, []quota.BudgetUse{
		{Rule: "money", Money: 1, Holders: 4, Soft: 2, Full: 1},
		{Rule: "tokens", Tokens: 0.01, Holders: 4},
	}, l.Budgets())

	require.True(t, under.Refund())
	clock.set(time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC))
	require.Equal(t, []quota.BudgetUse{{Rule: "money"}, {Rule: "tokens"}}, l.Budgets(), "a new day")
}

// A reader of metrics looks at all who have a budget.
func BenchmarkBudgets(b *testing.B) {
	l, err := quota.New(quota.Options{
		Rules: []quota.Rule{{Name: "b", Scope: quota.PerTenant, Budget: quota.Budget{Money: 1 << 40, Period: quota.Month}}},
	})
	require.NoError(b, err)
	const tenants = 10_000
	for i := range tenants {
		var r quota.Reservation
		require.NoError(b, l.Reserve(&quota.Demand{Tenant: strconv.Itoa(i), Cost: 1}, &r))
		require.True(b, r.Settle(quota.Used{Cost: 1}))
	}
	for b.Loop() {
		require.Equal(b, tenants, l.Budgets()[0].Holders)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/tenants, "ns/tenant")
}
