package quota_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// Two levels of limits: a tenant's tokens, and a team's money.
func ExampleLimiter_Admit() {
	limiter, err := quota.New(quota.Options{Rules: []quota.Rule{
		{Name: "tokens", Scope: quota.PerTenant, Tokens: quota.Rate{Amount: 1000}},
		{Name: "money", Scope: quota.PerTeam, Budget: quota.Budget{Money: 5_000_000, Period: quota.Month}},
	}, Now: func() time.Time { return time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC) }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	hold, err := limiter.Admit(ctx, &quota.Demand{Team: "search", Tenant: "web", Input: 700, Output: 100, Cost: 3_000_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	hold.Settle(quota.Used{Uncached: 700, Output: 50, Cost: 4_900_000})

	for _, d := range []quota.Demand{
		{Team: "search", Tenant: "web", Input: 500},
		{Team: "search", Tenant: "batch", Input: 500, Cost: 200_000},
		{Team: "search", Tenant: "batch", Input: 5000},
	} {
		_, err := limiter.Admit(ctx, &d)
		var no *quota.Error
		if errors.As(err, &no) {
			fmt.Println(no)
		}
	}
	// Output:
	// quota: rule "tokens" for tenant "web": the limit of 1000 tokens is reached (250 left, 500 needed); again in 15s
	// quota: rule "money" for team "search": the budget of 5000000 millionths of money is spent (4900000 are, 200000 more needed); it resets at 2026-04-01T00:00:00Z, in 48h0m0s
	// quota: rule "tokens" for tenant "batch": the request needs 5000 tokens, and 1000 is the most that it lets through at once
}

// Other rules, while requests are under way.
func ExampleLimiter_Update() {
	rule := quota.Rule{Name: "tokens", Scope: quota.PerTenant, Tokens: quota.Rate{Amount: 1000}}
	limiter, err := quota.New(quota.Options{Rules: []quota.Rule{rule}})
	if err != nil {
		fmt.Println(err)
		return
	}
	rule.PerModel = true
	changes, err := limiter.Update([]quota.Rule{rule}, quota.Weights{})
	fmt.Printf("%+v %v\n", changes, err)
	// Output: [{Rule:tokens What:changed Lost:all buckets and budgets: requests are counted by something else now}] <nil>
}

// What a store of one's own is made of.
func ExamplePlan() {
	plan, err := quota.NewPlan(quota.Options{Rules: []quota.Rule{
		{Name: "running", Scope: quota.PerTenant, Concurrency: 2},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := &quota.Demand{Tenant: "web"}
	buckets, keys, _ := plan.Find(d)
	fmt.Printf("%q\n", keys)
	states := []quota.State{{Running: 2}} // what the store has under the key
	fmt.Println(plan.Refusal(d, buckets, states, time.Now()))
	// Output:
	// ["3--\arunning\x03web"]
	// quota: rule "running" for tenant "web": the limit of 2 requests at a time is reached (0 left, 1 needed); again in 1s
}

// What to reserve for an answer.
func ExampleOutputs() {
	var outputs quota.Outputs
	fmt.Println(outputs.Estimate("web", "llama", 0, 1))
	for range 20 {
		outputs.Learn("web", "llama", 90)
	}
	fmt.Println(outputs.Estimate("web", "llama", 4000, 1), outputs.Estimate("web", "llama", 50, 2))
	// Output:
	// 512
	// 90 100
}
