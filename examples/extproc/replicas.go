package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy/redis"
)

// shared is the Redis by which all replicas of this picker tell each other what they send
// where.
type shared struct {
	client *goredis.Client // nil without a Redis
	option kvsteer.Option  // nil as well
}

func (c *config) shared(logger *slog.Logger) (*shared, error) {
	if c.redis == "" {
		return &shared{}, nil
	}
	o, err := redis.ParseAddress(c.redis)
	if err != nil {
		return nil, fmt.Errorf("-redis: %w", err)
	}
	s := &shared{client: goredis.NewClient(o)}
	exchange, err := redis.NewExchange(s.client, redis.ExchangeOptions{Channel: c.redisName + ":replicas", Logger: logger})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-redis: %w", err), s.client.Close())
	}
	host, err := os.Hostname() // of a pod its name
	if err != nil {
		host = "" // the router names itself
	}
	s.option = kvsteer.WithReplicas(exchange, kvsteer.ReplicaOptions{Name: host})
	return s, nil
}

// Close closes the client: after the router.
func (s *shared) Close() error {
	if s.client == nil {
		return nil
	}
	return s.client.Close()
}
