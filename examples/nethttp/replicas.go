package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/tenancy/redis"
)

// shared is the Redis of all replicas of this gateway: there they tell each other what they
// send where, and share the limits of tenants.
type shared struct {
	name     string
	client   *goredis.Client // nil without a Redis
	exchange *redis.Exchange
	options  []kvsteer.Option
}

func newShared(c *sharedConfig, logger *slog.Logger) (*shared, error) {
	if c.URL == "" {
		return &shared{}, nil
	}
	o, err := redis.ParseAddress(c.URL)
	if err != nil {
		return nil, fmt.Errorf("-redis: %w", err)
	}
	s := &shared{name: c.Name, client: goredis.NewClient(o)}
	s.exchange, err = redis.NewExchange(s.client, redis.ExchangeOptions{Channel: c.Name + ":replicas", Logger: logger})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-redis: %w", err), s.client.Close())
	}
	host, err := os.Hostname() // of a pod its name
	if err != nil {
		host = "" // the router names itself
	}
	s.options = []kvsteer.Option{kvsteer.WithReplicas(s.exchange, kvsteer.ReplicaOptions{Name: host})}
	return s, nil
}

// Close closes the client: after the router, and after the limits.
func (s *shared) Close() error {
	if s.client == nil {
		return nil
	}
	return s.client.Close()
}

// told is a Limiter whose Close has a deadline: until then Redis is told what has ended.
type told struct{ *redis.Limiter }

func (l told) Close() error {
	const patience = 15 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return l.Limiter.Close(ctx)
}

// snapshot is the file in which a router leaves what it knows of caches to its successor.
type snapshot struct{ path string }

// newSnapshot also looks whether the file can be written at the end, which is late to find out.
func newSnapshot(path string) (snapshot, []kvsteer.Option, error) {
	if path == "" {
		return snapshot{}, nil, nil
	}
	if err := kvsteer.SnapshotWritable(path); err != nil {
		return snapshot{}, nil, fmt.Errorf("-snapshot: %w", err)
	}
	return snapshot{path}, []kvsteer.Option{kvsteer.WithSnapshot(kvsteer.SnapshotFile(path))}, nil
}

// save is for defer, before the router is closed.
func (s snapshot) save(router *kvsteer.Router, err *error) {
	if s.path != "" {
		*err = errors.Join(*err, router.SaveSnapshot(s.path))
	}
}
