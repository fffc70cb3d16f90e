package kvsteer_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/providers"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/price"
	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// cheapHere prices the test's model at a worker: a hundredth of what bedrock takes.
func cheapHere(t *testing.T) kvsteer.Prices {
	t.Helper()
	prices, err := price.New([]price.Entry{{Model: testModel, Prices: price.Prices{Input: 30_000, Output: 150_000}}}, nil)
	require.NoError(t, err)
	return prices
}

// thousand wants an answer of 1000 tokens: 15,000 millionths at bedrock, and some for the prompt.
func thousand(id *tenancy.Identity) *kvsteer.Request {
	return &kvsteer.Request{
		API: kvsteer.ChatCompletions, Identity: id, Body: []byte(strings.Replace(chatBody("hi", false), "{", `{"max_tokens":1000,`, 1)),
	}
}

// Requests that burst at a time don't pass a budget of money together.
func TestBurstsKeepToABudget(t *testing.T) {
	t.Parallel()
	o := newOutsiders(t)
	limits, err := quota.New(quota.Options{Rules: []quota.Rule{
		{Name: "money", Tenants: []string{"alice"}, Scope: quota.PerTenant, Budget: quota.Budget{Money: 40_000, Period: quota.Month}},
	}})
	require.NoError(t, err)
	r := burstRig(t, o, kvsteer.WithTenancy(kvsteer.TenancyOptions{
		Limits: limits, Prices: cheapHere(t), Outputs: &quota.Outputs{Unknown: 1000},
	}))
	free := r.busy(3)
	defer free()
	alice := &tenancy.Identity{Tenant: "alice", By: "test"}
	var held []*kvsteer.Selection
	for range 2 {
		sel, err := r.router.Select(t.Context(), thousand(alice))
		require.NoError(t, err)
		require.Equal(t, "bedrock", sel.Target().Provider)
		held = append(held, sel)
	}
	_, err = r.router.Select(t.Context(), thousand(alice))
	require.Equal(t, kvsteer.CodeLimited, kvsteer.CodeOf(err), "a third is more than 40,000: %v", err)
	for _, sel := range held {
		sel.Done(kvsteer.Usage{Known: true, Uncached: 5, Output: 100}) // 1515 each
	}
	sel, err := r.router.Select(t.Context(), thousand(alice))
	require.NoError(t, err, "what was not used is given back")
	sel.Abort(nil)
	require.Zero(t, limits.Totals().Running-3)
}

// reserving is Limits that keep what was asked of them.
type reserving struct{ costs []int64 }

func (a *reserving) Admit(_ context.Context, d *quota.Demand) (quota.Hold, error) {
	a.costs = append(a.costs, d.Cost)
	return nil, nil //nolint:nilnil // nothing limits it
}

// current is a Source of one policy.
type current struct{ policy.Policy }

func (c current) Current() policy.Policy { return c.Policy }

// What is reserved is the price of the dearest place that the request may go to.
func TestWhatBurstsReserve(t *testing.T) {
	t.Parallel()
	const here, bedrock = 150, 15_000 // and a little for the prompt
	burst := load(t, burstPolicy)
	for name, c := range map[string]struct {
		policy policy.Policy
		change func(q *kvsteer.Request)
		want   int64
		says   string
	}{
		"it may burst":                  {burst, nil, bedrock, `at the provider "databricks", so it counts as free there`},
		"so does a file's policy":       {current{burst}, nil, bedrock, ""},
		"the default stays here":        {policy.Default{}, nil, here, ""},
		"a file's too":                  {current{policy.Default{}}, nil, here, ""},
		"the tenant may not":            {burst, func(q *kvsteer.Request) { q.Identity.Providers = []string{} }, here, ""},
		"it may not use the dear one":   {burst, func(q *kvsteer.Request) { q.Identity.Providers = []string{"databricks"} }, here, ""},
		"whoever sends it can't":        {burst, func(q *kvsteer.Request) { q.WorkersOnly = true }, here, ""},
		"an alias of two":               {&scoped{models: []string{"only-outside", testModel}}, nil, bedrock, ""},
		"a model that only others have": {burst, func(q *kvsteer.Request) { q.Model = "only-outside" }, 0, `at the provider "databricks"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := &reserving{}
			r := burstRig(t, newOutsiders(t), kvsteer.WithPolicy(c.policy), kvsteer.WithTenancy(kvsteer.TenancyOptions{
				Limits: limits, Prices: cheapHere(t), Outputs: &quota.Outputs{Unknown: 1000},
			}))
			q := thousand(&tenancy.Identity{Tenant: "alice", By: "test"})
			if c.change != nil {
				c.change(q)
			}
			sel, err := r.router.Select(t.Context(), q)
			require.NoError(t, err)
			defer sel.Abort(nil)
			require.Len(t, limits.costs, 1)
			assert.InDelta(t, c.want, limits.costs[0], float64(c.want)/100)
			assert.Contains(t, strings.Join(sel.Decision().Degradations, "\n"), c.says)
		})
	}
}

// A provider's own prices go first; then the tenants' list has them by its names.
func TestPricesAtProviders(t *testing.T) {
	t.Parallel()
	at := func(name, model string, input int64) price.Entry {
		return price.Entry{Provider: name, Model: model, Prices: price.Prices{Input: input * 1_000_000, Output: 0}}
	}
	prices, err := price.New([]price.Entry{
		at(price.Fleet, testModel, 1), at("bedrock", "up-b", 2), at("databricks", "up-d", 4), at("databricks", testModel, 5), at("databricks", "by name", 6),
	}, nil)
	require.NoError(t, err)
	o := newOutsiders(t, func(p []providers.Provider) {
		p[1].Models = append(p[1].Models, providers.Model{Name: "by name", Upstream: "unheard of"})
	})
	r := burstRig(t, o, kvsteer.WithTenancy(kvsteer.TenancyOptions{Prices: prices}))
	for _, c := range []struct {
		model, among string
		want         int64
	}{
		{testModel, "s0", 1000}, {testModel, "bedrock", 3000}, {testModel, "databricks", 4000}, {"by name", "databricks", 6000},
	} {
		sel, err := r.router.Select(t.Context(), &kvsteer.Request{
			API: kvsteer.ChatCompletions, Model: c.model, Body: []byte(chatBody("hi", false)), Among: []string{c.among},
		})
		require.NoError(t, err)
		require.Equal(t, c.among, sel.Target().Worker)
		n := r.observed.outcomeCount()
		sel.Done(kvsteer.Usage{Known: true, Uncached: 1000})
		require.Equal(t, c.want, r.observed.nextOutcome(t, n).Cost, c)
	}
}
