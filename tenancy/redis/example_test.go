package redis_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer/tenancy/quota"
	"github.com/kvsteer/kvsteer/tenancy/redis"
)

// Four routers share a limit; while Redis is away, each goes by a quarter of it.
func ExampleNew() { //nolint:testableexamples // it needs a Redis at that address
	client := goredis.NewClient(&goredis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	limiter, err := redis.New(redis.Options{
		Client: client,
		Rules: quota.Options{Rules: []quota.Rule{
			{Name: "tokens", Scope: quota.PerTenant, Tokens: quota.Rate{Amount: 100_000}, Concurrency: 40},
		}},
		Failure: redis.LocalShare,
		Share:   0.25,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := limiter.Close(ctx); err != nil {
			fmt.Println(err)
		}
	}()

	hold, err := limiter.Admit(context.Background(), &quota.Demand{Tenant: "web", Input: 700, Output: 100})
	var no *quota.Error
	switch {
	case errors.As(err, &no):
		fmt.Println(no, no.RetryAfter) // 429
	case err != nil:
		fmt.Println(err) // 503: with Deny, Redis can't be asked
	default:
		defer hold.Settle(quota.Used{Uncached: 700, Output: 80})
		fmt.Println(hold.Degraded()) // "redis: unavailable: local share" while it is away
	}
}

// Two replicas of a gateway tell each other of their work.
func ExampleNewExchange() { //nolint:testableexamples // it needs a Redis at that address
	client := goredis.NewClient(&goredis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	exchange, err := redis.NewExchange(client, redis.ExchangeOptions{Channel: "chat-gateway"})
	if err != nil {
		fmt.Println(err)
		return
	}
	// kvsteer.New(..., kvsteer.WithReplicas(exchange, kvsteer.ReplicaOptions{Name: "gateway-7"}))

	st := exchange.Stats()
	fmt.Println(st.Published, st.Received, st.OtherVersion, st.Lost)
}
