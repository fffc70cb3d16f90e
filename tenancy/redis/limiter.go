package redis

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// Limiter decides by buckets in Redis. Make it with [New], end it with Close. Safe for
// concurrent use.
type Limiter struct {
	opts         Options
	prefix, live string
	// keep is for how long a bucket may have something under way, in microseconds.
	keep    int64
	scripts scripts
	time    *clock
	// updating is held by Update.
	updating sync.Mutex
	plan     atomic.Pointer[quota.Plan]
	// share is what LocalShare counts in; nil else.
	share   *quota.Limiter
	session atomic.Pointer[session]
	health  health
	counts  counts

	mu      sync.Mutex
	closed  bool
	running list.List // of *hold that are under way, oldest first
	ended   []*hold   // to be told to Redis, oldest first
	sending int       // ends that are being told
	retired []*session

	wake chan struct{} // there is something to do
	stop context.CancelFunc
	done chan struct{}
}

// New returns a Limiter, which uses the Client from now on; it doesn't wait for Redis.
// The error says which options or rules are wrong and how.
func New(o Options) (*Limiter, error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	plan, err := quota.NewPlan(o.Rules)
	if err != nil {
		return nil, err
	}
	o.Rules = plan.Options()
	l := &Limiter{
		opts: o, prefix: "{" + o.Prefix + "}", live: "{" + o.Prefix + "}live", scripts: newScripts(), time: newClock(o.now),
		keep: (o.Rules.MaxAge + 2*o.Lease + time.Minute).Microseconds(),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	l.plan.Store(plan)
	l.session.Store(newSession())
	if o.Failure == LocalShare {
		if l.share, err = quota.New(scaled(o.Rules, o.Share)); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.serve(ctx)
	return l, nil
}

// Update puts other rules and weights in force, for this router. Buckets are kept by the
// rules' Name, Scope, PerModel and PerClass: what they hold is kept as
// [quota.Limiter.Update] says, and what belongs to no rule is forgotten by Redis in time. While routers
// have different rules, each goes by its own, and of a rate that differs nothing is given
// back.
func (l *Limiter) Update(rules []quota.Rule, w quota.Weights) ([]quota.Change, error) {
	l.updating.Lock()
	defer l.updating.Unlock()
	o := l.opts
	o.Rules.Rules, o.Rules.Weights = rules, w
	if err := o.prepare(); err != nil {
		return nil, err
	}
	plan, changes, err := l.plan.Load().Update(rules, w)
	if err != nil {
		return nil, err
	}
	if l.share != nil {
		if _, err := l.share.Update(scaled(o.Rules, o.Share).Rules, w); err != nil {
			return nil, err
		}
	}
	l.plan.Store(plan)
	return changes, nil
}

// Admit takes what d asks for from every rule that holds for it, or nothing. It returns
// within the Deadline, or when ctx ends, with ctx's error then. The error is, or wraps, a
// [*quota.Error] if d is refused; an [*UnavailableError] if that can't be found out and
// Failure is Deny; else [ErrClosed]. On success the Hold must be ended.
func (l *Limiter) Admit(ctx context.Context, d *quota.Demand) (quota.Hold, error) {
	plan := l.plan.Load()
	buckets, keys, never := plan.Find(d)
	if never != nil {
		return nil, never
	}
	h := &hold{limiter: l, plan: plan, demand: *d, buckets: buckets, bucketKeys: keys, takes: plan.Demanded(d)}
	if len(buckets) == 0 {
		return h, nil
	}
	if cause := l.health.down(); cause != nil {
		return l.without(ctx, d, cause)
	}
	for tries := 1; ; tries++ {
		if !l.start(h) {
			return nil, ErrClosed
		}
		r, err := l.admit(ctx, h)
		switch {
		case err != nil:
			l.forget(h) // it may have been done, or be so still
			if over := ended(ctx); over != nil {
				return nil, over
			}
			if transient(err) { // else it is about these buckets only
				l.failed(err)
			}
			return l.without(ctx, d, err)
		case r.status == statusLost && tries <= 2:
			l.drop(h)
			l.lost(h.session, "Redis doesn't know it")
			h = h.again()
		case r.status == statusYes:
			h.session.begun.Store(true)
			return h, nil
		case r.status == statusNo:
			l.drop(h)
			if no := plan.Refusal(d, buckets, h.states, fromMicros(r.now)); no != nil {
				return nil, no
			}
			return l.without(ctx, d, errReply)
		default:
			l.drop(h)
			return l.without(ctx, d, errors.New("quota/redis: the session could not be begun: "+r.status))
		}
	}
}

// ended is ctx's error, also if its deadline has passed and it doesn't know yet: a
// connection's deadline, which is the same, may be noticed first.
func ended(ctx context.Context) error {
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

func (l *Limiter) admit(ctx context.Context, h *hold) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.Deadline)
	defer cancel()
	r, err := l.ask(ctx, l.scripts.admit, l.keysOf(h.session, h.id, h.bucketKeys), func(now int64) []byte { return l.admitRequest(h, now) })
	if err != nil || r.status != statusYes && r.status != statusNo {
		if err == nil {
			l.worked()
		}
		return r, err
	}
	l.worked()
	states, soft, err := states(r.rest, h.buckets)
	if err != nil {
		return r, err
	}
	h.states, h.at = states, fromMicros(r.now)
	l.tell(h, h.buckets, states, soft, h.at)
	return r, nil
}

// without decides without Redis, as Options.Failure says.
func (l *Limiter) without(ctx context.Context, d *quota.Demand, cause error) (quota.Hold, error) {
	l.counts.without.Add(1)
	switch l.opts.Failure {
	case Allow:
		return &alone{why: "redis: unavailable: allowed"}, nil
	case LocalShare:
		h, err := l.share.Admit(ctx, d)
		if err == nil {
			return &alone{Hold: h, why: "redis: unavailable: local share"}, nil
		}
		var no *quota.Error
		if errors.As(err, &no) && no.Permanent && !no.Denied {
			// It is more than the share, not more than the limit.
			no.Permanent, no.RetryAfter = false, l.opts.Retry
		}
		return nil, &shareError{err}
	default:
		return nil, &UnavailableError{Err: cause}
	}
}

// shareError says that the one that refused was a share.
type shareError struct{ error }

// Error implements error.
func (e *shareError) Error() string { return "redis: unavailable: local share: " + e.error.Error() }

// Unwrap returns the refusal.
func (e *shareError) Unwrap() error { return e.error }

// tell calls OnSoft for the buckets that have reached their soft limits.
func (l *Limiter) tell(h *hold, buckets []quota.Bucket, states []quota.State, soft []bool, at time.Time) {
	if l.opts.Rules.OnSoft == nil {
		return
	}
	for i, yes := range soft {
		if !yes {
			continue
		}
		spent := []quota.State{{Steps: states[i].Steps}}
		for _, n := range h.plan.Soft(&h.demand, buckets[i:i+1], spent, at) {
			l.opts.Rules.OnSoft(&n)
		}
	}
}

// Stats are for metrics.
type Stats struct {
	// Running are requests under way, Waiting ends that Redis is still to be told.
	Running, Waiting int
	// Without counts requests that were decided without Redis, Expired those that Redis
	// had given up when their end was told, or that were under way for longer than MaxAge:
	// they count as estimated. Dropped are ends that found the Backlog full, or were left at
	// Close, Failed those that Redis could not book.
	Without, Expired, Dropped, Failed uint64
	// Down is why Redis isn't asked just now, nil if it is.
	Down error
}

type counts struct{ without, expired, dropped, failed atomic.Uint64 }

// Stats returns how things are.
func (l *Limiter) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{
		Running: l.running.Len(), Waiting: len(l.ended) + l.sending,
		Without: l.counts.without.Load(), Expired: l.counts.expired.Load(),
		Dropped: l.counts.dropped.Load(), Failed: l.counts.failed.Load(), Down: l.health.down(),
	}
}
