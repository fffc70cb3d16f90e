package redis

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// Failure is what happens to requests while Redis can't be asked.
type Failure uint8

// The failure modes.
const (
	// Deny refuses with an [UnavailableError].
	Deny Failure = iota
	// LocalShare counts in this process, in buckets that are Share of the real ones.
	LocalShare
	// Allow lets everything through that no rule denies for good.
	Allow
)

// String is the mode's name in messages.
func (f Failure) String() string {
	switch f {
	case Deny:
		return "deny"
	case LocalShare:
		return "local share"
	case Allow:
		return "allow"
	default:
		return "Failure(" + strconv.Itoa(int(f)) + ")"
	}
}

// Options are for [New]. Client is required.
type Options struct {
	// Client asks Redis; it stays the caller's, to be closed after the Limiter. Its
	// ContextTimeoutEnabled must be true, or it would not keep the Deadline.
	Client goredis.UniversalClient
	// Rules are the limits, the same for all routers. Now is for Failure only; OnSoft
	// is called by the router whose request reached the limit, from a goroutine of the
	// Limiter's or by Admit.
	Rules quota.Options
	// Prefix begins all keys, in braces. Empty means "kvsteer". Routers with one Prefix
	// share their limits.
	Prefix string
	// Failure is what happens while Redis can't be asked; Share is for LocalShare: more
	// than 0, at most 1, as a rule 1/N with N routers.
	Failure Failure
	Share   float64
	// Deadline is how long a request waits for Redis. 0 means 50 ms.
	Deadline time.Duration
	// Lease is how long after a router's death its requests still count as running. It is
	// renewed three times as often. 0 means 30 s; from 1 s to an hour.
	Lease time.Duration
	// Retry is how long after a failed probe the next one comes. 0 means 250 ms.
	Retry time.Duration
	// Backlog is how many ends of requests are kept while Redis can't be told. 0 means
	// 65,536, some 30 MB.
	Backlog int
	// Logger gets a line when Redis goes and comes back, and for what could not be
	// booked. Nil: none.
	Logger *slog.Logger

	// now is Redis's clock in tests, in microseconds.
	now func() int64
}

const (
	defaultPrefix   = "kvsteer"
	defaultDeadline = 50 * time.Millisecond
	defaultLease    = 30 * time.Second
	defaultRetry    = 250 * time.Millisecond
	defaultBacklog  = 1 << 16
	maxLease        = time.Hour

	// maxAmount is what a number of Lua's holds exactly.
	maxAmount = 1 << 53
)

func (o *Options) prepare() error {
	switch {
	case o.Client == nil:
		return errors.New("quota/redis: Options.Client is nil; give it a client of go-redis")
	case strings.ContainsAny(o.Prefix, "{}"):
		return fmt.Errorf("quota/redis: the Prefix %s has braces in it; they are added to it", quoted(o.Prefix))
	case o.Failure > Allow:
		return fmt.Errorf("quota/redis: %v is no failure mode", o.Failure)
	case o.Failure == LocalShare && !(o.Share > 0 && o.Share <= 1):
		return fmt.Errorf("quota/redis: the Share is %v; LocalShare needs more than 0 and at most 1: as a rule 1/N with N routers", o.Share)
	case o.Deadline < 0 || o.Retry < 0 || o.Backlog < 0:
		return errors.New("quota/redis: Deadline, Retry and Backlog can't be negative; 0 means the default")
	case o.Lease != 0 && (o.Lease < time.Second || o.Lease > maxLease && o.now == nil):
		return fmt.Errorf("quota/redis: the Lease is %v, not between 1s and %v", o.Lease, maxLease)
	}
	for i := range o.Rules.Rules {
		if b := &o.Rules.Rules[i].Budget; b.Money > maxAmount || b.Tokens > maxAmount {
			return &quota.RuleError{
				Index: i, Name: o.Rules.Rules[i].Name,
				Err: errors.New("the budget is more than 2^53, which is as far as Redis counts"),
			}
		}
	}
	setDefault(&o.Prefix, defaultPrefix)
	setDefault(&o.Deadline, defaultDeadline)
	setDefault(&o.Lease, defaultLease)
	setDefault(&o.Retry, defaultRetry)
	setDefault(&o.Backlog, defaultBacklog)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if !keepsDeadlines(o.Client) {
		return errors.New("quota/redis: the Client would not keep the Deadline; set ContextTimeoutEnabled in its options")
	}
	return nil
}

func setDefault[T comparable](v *T, is T) {
	var zero T
	if *v == zero {
		*v = is
	}
}

// keepsDeadlines: by default go-redis waits for its own time-outs, of seconds, whatever
// the context says. Of clients that are none of its own, nothing is known.
func keepsDeadlines(c goredis.UniversalClient) bool {
	switch c := c.(type) {
	case *goredis.Client:
		return c.Options().ContextTimeoutEnabled
	case *goredis.ClusterClient:
		return c.Options().ContextTimeoutEnabled
	case *goredis.Ring:
		return c.Options().ContextTimeoutEnabled
	default:
		return true
	}
}

// scaled are the rules of one router's share.
func scaled(o quota.Options, share float64) quota.Options {
	part := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		return max(int64(float64(n)*share), 1)
	}
	rules := make([]quota.Rule, len(o.Rules))
	for i, r := range o.Rules {
		for _, rate := range []*quota.Rate{&r.Requests, &r.Tokens, &r.Input, &r.Output} {
			rate.Amount, rate.Burst = part(rate.Amount), part(rate.Burst)
		}
		r.Concurrency = int(part(int64(r.Concurrency)))
		r.Budget.Money, r.Budget.Tokens = part(r.Budget.Money), part(r.Budget.Tokens)
		rules[i] = r
	}
	o.Rules, o.OnSoft = rules, nil
	return o
}

func quoted(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.Quote(s)
}
