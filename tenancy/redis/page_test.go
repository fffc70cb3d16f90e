package redis_test

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"       //nolint:depguard // as a gateway's program
	"github.com/kvsteer/kvsteer/fleet" //nolint:depguard // as above
	"github.com/kvsteer/kvsteer/tenancy/quota"
	"github.com/kvsteer/kvsteer/tenancy/redis"
)

// The code in docs/tenancy.md; internal/docscheck looks for it here. Where there is no
// Redis of that name the Limiter goes by its share.
func TestPage(t *testing.T) {
	ctx, rules := context.Background(), []quota.Rule{{Name: "r", Scope: quota.PerTenant, Requests: quota.Rate{Amount: 1}}}
	client := goredis.NewClient(&goredis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true}) // required: or deadlines aren't kept
	defer func() { _ = client.Close() }()                                                          // not shown
	limiter, err := redis.New(redis.Options{
		Client: client, Rules: quota.Options{Rules: rules},
		Failure: redis.LocalShare, Share: 0.25, // of four routers
	})
	require.NoError(t, err)
	err = limiter.Close(ctx)
	require.NoError(t, err)
}

// The code in docs/replicas.md.
func TestReplicasPage(t *testing.T) {
	f, err := fleet.New(fleet.Options{Discoverer: fleet.Static(fleet.Worker{Name: "a", URL: "http://127.0.0.1:1"})})
	require.NoError(t, err)
	defer f.Close()
	podName := "gateway-7"

	client := goredis.NewClient(&goredis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true}) // required: or deadlines aren't kept
	defer client.Close()
	exchange, err := redis.NewExchange(client, redis.ExchangeOptions{Channel: "chat-gateway"})
	require.NoError(t, err) // not shown
	router, err := kvsteer.New(
		kvsteer.WithFleet(f),
		kvsteer.WithReplicas(exchange, kvsteer.ReplicaOptions{Name: podName}),
	)

	require.NoError(t, err)
	require.False(t, router.Stats().Replicas.Up)
	require.NoError(t, router.Close())
}
