package quota

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
)

// Options configure a [Limiter]. The zero value lets everything through.
type Options struct {
	Rules   []Rule
	Weights Weights
	// MaxAge is how long a request may be under way. One that was neither settled nor
	// refunded until then counts as settled with its estimate. 0 means an hour.
	MaxAge time.Duration
	// ConcurrencyRetry is the RetryAfter of requests that are refused because too many
	// are under way, since nobody knows when one ends. 0 means a second.
	ConcurrencyRetry time.Duration
	// OnSoft is called when a budget's soft limit is reached, without locks.
	OnSoft func(*Notice)
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

const (
	defaultMaxAge           = time.Hour
	defaultConcurrencyRetry = time.Second

	numShards = 32 // a power of two
	numLanes  = 8  // a power of two

	// Each Reserve looks at so many buckets to forget them, so that a pass over all
	// takes a while but costs nobody much.
	sweepEvery = 64
	sweepMost  = 256
)

// ErrInUse: the Reservation given to Reserve is under way. It is for whoever wrote the
// call.
var ErrInUse = errors.New("quota: the Reservation is still under way; settle or refund it first, or use another")

// Limiter holds the buckets. Make it with [New]. Safe for concurrent use; it starts no
// goroutines and needs no closing.
type Limiter struct {
	opts Options
	// updating is held by Update.
	updating sync.Mutex
	rules    atomic.Pointer[ruleSet]
	clock    clock
	shards   [numShards]shard
	lanes    [numLanes]lane
	turn     atomic.Uint64
}

// shard is a part of the buckets.
type shard struct {
	mu      sync.RWMutex
	entries map[string]*entry
	peak    int // entries that the map has held since it was made
	_       [64]byte
}

// New returns a Limiter; the error says which rules are wrong and how.
func New(o Options) (*Limiter, error) {
	rules, err := newRuleSet(o.Rules, o.Weights, nil)
	if err != nil {
		return nil, err
	}
	l := &Limiter{opts: o.withDefaults()}
	l.rules.Store(rules)
	l.clock.read, l.clock.base = l.opts.Now, l.opts.Now()
	for i := range l.shards {
		l.shards[i].entries = map[string]*entry{}
	}
	return l, nil
}

func (o Options) withDefaults() Options {
	if o.MaxAge <= 0 {
		o.MaxAge = defaultMaxAge
	}
	if o.ConcurrencyRetry <= 0 {
		o.ConcurrencyRetry = defaultConcurrencyRetry
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Reserve takes what d asks for from every rule that holds for it, or nothing. The
// error is a [*Error], or [ErrInUse]. On success r must be ended by one of its
// methods.
func (l *Limiter) Reserve(d *Demand, r *Reservation) error {
	if !r.state.CompareAndSwap(idle, busy) {
		return ErrInUse
	}
	err := l.reserve(d, r)
	if err == nil {
		return nil
	}
	r.n = 0
	clear(r.holds[:])
	r.state.Store(idle)
	return err
}

func (l *Limiter) reserve(d *Demand, r *Reservation) error {
	rules := l.rules.Load()
	r.limiter, r.takes = l, rules.weights.demanded(d)
	turn := l.turn.Add(1)
	r.lane = &l.lanes[turn%numLanes]
	for retried := false; ; retried = true {
		now, _ := l.clock.now()
		l.expire(r.lane, now)
		if turn%sweepEvery == 0 {
			l.forget(&l.shards[turn/sweepEvery%numShards], sweepMost, now)
		}
		refused := l.try(rules, d, r, now)
		switch {
		case refused == nil:
			r.lane.add(r, now+int64(l.opts.MaxAge))
			return nil
		case retried || refused.Meter != Concurrency || refused.Permanent:
			return refused
		}
		for i := range l.lanes { // some of those under way may be so no more
			l.expire(&l.lanes[i], now)
		}
	}
}

// try takes what r.takes says, from all or none.
func (l *Limiter) try(rules *ruleSet, d *Demand, r *Reservation, now int64) *Error {
	for {
		if refused := l.gather(rules, d, r); refused != nil {
			return refused
		}
		holds := r.holds[:r.n]
		order := inLockOrder(holds)
		alive := true
		for _, e := range order[:len(holds)] {
			e.mu.Lock()
			alive = alive && e.running != forgotten
		}
		var refused *Error
		if alive {
			for _, e := range holds {
				refused = later(refused, e.refuses(&l.opts, d, &r.takes, now))
			}
			if refused == nil {
				for i, e := range holds {
					r.spendings[i], r.costs[i] = e.takeAll(&r.takes, now, &r.loans[i])
				}
			}
		}
		for _, e := range holds {
			e.mu.Unlock()
		}
		if alive {
			return refused
		}
	}
}

// gather finds the buckets that d falls into.
func (l *Limiter) gather(rules *ruleSet, d *Demand, r *Reservation) *Error {
	r.n = 0
	for i := range rules.levels {
		rule := rules.levels[i].find(d)
		switch {
		case rule == nil:
		case rule.Deny:
			return rule.refusal(d, Error{Permanent: true, Denied: true})
		case rule.limits(): // else it is an exception
			r.holds[r.n] = l.entry(rule, d)
			r.n++
		default:
		}
	}
	return nil
}

// entry returns the bucket that d falls into, and makes it if it must.
func (l *Limiter) entry(r *rule, d *Demand) *entry {
	var room [192]byte
	key := r.key(room[:0], d)
	s := &l.shards[xxhash.Sum64(key)%numShards]
	s.mu.RLock()
	e := s.entries[string(key)]
	s.mu.RUnlock()
	if e != nil {
		return e
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[string(key)]; e != nil {
		return e
	}
	if now := l.rules.Load().byID[r.id]; now != nil { // Update may not see what is added
		r = now
	}
	return s.add(r, key)
}

// add adds a bucket. s.mu is held.
func (s *shard) add(r *rule, key []byte) *entry {
	e := &entry{rule: r, id: r.id}
	if r.period.limits() {
		e.budget = r.spending(string(key))
	}
	s.entries[string(key)] = e
	s.peak = max(s.peak, len(s.entries))
	return e
}

// key is the name of a bucket: no two buckets have the same, since each part says how
// long it is.
func (r *rule) key(b []byte, d *Demand) []byte {
	return r.owner(binary.AppendUvarint(b, uint64(r.id)), d)
}

// owner appends whose bucket it is.
func (r *rule) owner(b []byte, d *Demand) []byte {
	if r.Scope == PerTeam {
		b = part(b, d.Org)
	}
	b = part(b, r.who(d))
	if r.PerModel {
		b = part(b, d.Model)
	}
	if r.PerClass {
		b = part(b, d.Class)
	}
	return b
}

func part(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// spending is a new budget of whom key, which r has made, names.
func (r *rule) spending(key string) *spending {
	s := &spending{}
	b := []byte(key)
	_, n := binary.Uvarint(b)
	b = b[n:]
	next := func() string {
		size, n := binary.Uvarint(b)
		text := b[n : n+int(size)]
		b = b[n+int(size):]
		return string(text)
	}
	if r.Scope == PerTeam {
		next() // the organisation
	}
	s.who = next()
	if r.PerModel {
		s.model = next()
	}
	if r.PerClass {
		s.class = next()
	}
	return s
}
