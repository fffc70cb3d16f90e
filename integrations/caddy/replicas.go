package kvsteercaddy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/tenancy/redis"
)

// Redis is where the replicas of this gateway tell each other what they send where.
type Redis struct {
	// URL is host:port, or redis://user:password@host:port, rediss:// (over TLS), or
	// unix://: of a Redis 7 or newer, or Valkey. Required. In a Caddyfile it stands behind
	// redis.
	URL string `json:"url"`
	// Channel is what the replicas of this gateway, and nobody else, speak on there. Empty:
	// kvsteer:replicas.
	Channel string `json:"channel,omitempty"`
	// Name is what the others call this replica in logs and metrics. Empty: the machine's.
	Name string `json:"name,omitempty"`
}

func (r *Redis) check() error {
	switch {
	case r.URL == "":
		return errors.New("redis: url: it is empty; give host:port or a URL such as rediss://user:password@host:port")
	case len(r.Name) > replica.MaxName:
		return fmt.Errorf("redis: name: it has %d bytes; %d are allowed", len(r.Name), replica.MaxName)
	case strings.Contains(r.URL, "{"):
		return nil // it is known when they are replaced
	}
	_, err := redis.ParseAddress(r.URL)
	return named("redis: url", err)
}

// named says which option an error is of.
func named(option string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", option, err)
}

// exchange makes one replica of the routers of a fleet, which come and go with
// configurations and may be several: each of them counts what all of them have in flight.
// So the latest speaks for all; of the others only what prompts they have sent where is told.
type exchange struct {
	over   replica.Exchange
	client *goredis.Client
	name   string

	turn chan struct{} // who has put something in publishes, and has the next four
	// epoch is of what is told now, 0 before and after; seq its last message.
	epoch, seq uint64
	byes       []*replica.Message // that are still to be told
	failed     error              // how the last message fared

	mu    sync.Mutex
	seats []*seat  // that are left, the oldest first
	own   []uint64 // the latest epochs, of which something may still come back
}

// openExchange does not wait for Redis.
func openExchange(c *Redis, logger *slog.Logger) (*exchange, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // none is needed
	}
	if err := c.check(); err != nil { // once more: placeholders are replaced
		return nil, err
	}
	o, err := redis.ParseAddress(c.URL)
	if err != nil {
		return nil, named("redis: url", err)
	}
	client := goredis.NewClient(o)
	over, err := redis.NewExchange(client, redis.ExchangeOptions{Channel: c.Channel, Logger: logger})
	if err != nil {
		return nil, errors.Join(named("redis", err), client.Close())
	}
	x := newExchange(over, c.Name)
	x.client = client
	return x, nil
}

func newExchange(over replica.Exchange, name string) *exchange {
	if name == "" {
		name, _ = os.Hostname() // of a pod its name; without one, the start of the epoch
	}
	return &exchange{over: over, name: name, turn: make(chan struct{}, 1)}
}

// Close closes the client, after all routers. Nil has none.
func (x *exchange) Close() error {
	if x == nil || x.client == nil {
		return nil
	}
	return x.client.Close()
}

// join returns the options of one more router, and what is called after its Close. Nil has
// none of either.
func (x *exchange) join() (opts []kvsteer.Option, leave func()) {
	if x == nil {
		return nil, func() {}
	}
	s := &seat{exchange: x}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seats = append(x.seats, s)
	return []kvsteer.Option{kvsteer.WithReplicas(s, kvsteer.ReplicaOptions{Name: x.name})}, func() { x.remove(s) }
}

// remove returns how many are left.
func (x *exchange) remove(s *seat) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.seats = slices.DeleteFunc(x.seats, func(o *seat) bool { return o == s })
	return len(x.seats)
}

// speaks reports whether s is the latest.
func (x *exchange) speaks(s *seat) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.seats) > 0 && x.seats[len(x.seats)-1] == s
}

// latest keeps what is left of a list that grows with each configuration: Redis may be away
// for long, and whoever was not told of an end drops that epoch after four beats.
func latest[T any](list []T) []T {
	const most = 64
	return slices.Delete(list, 0, max(0, len(list)-most))
}

// renew draws an epoch: the others answer one that they have not heard of with all they have.
func (x *exchange) renew() {
	x.end()
	x.epoch, x.seq = rand.Uint64()|1, 0 //nolint:gosec // tells routers apart, guards nothing; never 0
	x.mu.Lock()
	defer x.mu.Unlock()
	x.own = latest(append(x.own, x.epoch))
}

// end has the others be told that the epoch is over.
func (x *exchange) end() {
	if x.epoch != 0 {
		x.byes = latest(append(x.byes, &replica.Message{Version: replica.Version, Router: x.name, Epoch: x.epoch, Seq: x.seq + 1, Bye: true}))
	}
	x.epoch = 0
}

// say publishes m as the next of the epoch, and then what is still to be told of those
// before: for a moment something is told twice, rather than not at all.
func (x *exchange) say(ctx context.Context, m *replica.Message) error {
	if x.epoch != 0 {
		x.seq++
		m.Epoch, m.Seq = x.epoch, x.seq
		if x.failed = x.over.Publish(ctx, m); x.failed != nil {
			return x.failed
		}
	}
	for len(x.byes) > 0 {
		if x.failed = x.over.Publish(ctx, x.byes[0]); x.failed != nil {
			return x.failed
		}
		x.byes = x.byes[1:]
	}
	return nil
}

// isOwn reports whether a message is of a router of this fleet.
func (x *exchange) isOwn(m *replica.Message) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.own, m.Epoch)
}

// seat is the exchange as one of the routers has it.
type seat struct {
	*exchange

	spoke bool
}

var _ replica.Exchange = (*seat)(nil)

// Publish implements replica.Exchange.
func (s *seat) Publish(ctx context.Context, m *replica.Message) error {
	x := s.exchange
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-x.turn }()
	told := *m // it may be kept by others
	switch {
	case m.Bye:
		if x.remove(s) > 0 { // they go on for this one
			return nil
		}
		x.end()
	case !x.speaks(s):
		if told.Full, told.Loads = false, nil; len(told.Bookings) == 0 || x.epoch == 0 {
			return x.failed
		}
	case !s.spoke || x.epoch == 0:
		s.spoke = true
		x.renew()
	}
	return x.say(ctx, &told)
}

// Receive implements replica.Exchange.
func (s *seat) Receive(ctx context.Context, subscribed func(), deliver func(*replica.Message)) error {
	return s.over.Receive(ctx, subscribed, func(m *replica.Message) {
		if !s.isOwn(m) {
			deliver(m)
		}
	})
}
