package redis

import (
	"container/list"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// hold is what a request has taken from buckets in Redis.
type hold struct {
	limiter *Limiter
	plan    *quota.Plan
	demand  quota.Demand
	session *session
	// id is of the reservation, "" if it is of nothing, which has nothing to say to Redis.
	id         string
	nothing    atomicOnce
	buckets    []quota.Bucket
	bucketKeys []string
	takes      quota.Amounts
	// states are those of the buckets at the time, after taking.
	states []quota.State
	at     time.Time

	// Guarded by the Limiter's mu.
	place   *list.Element // in running; nil if it is ended
	overdue bool          // ended by expire, which has counted it
	expires time.Time

	// Set by who ends it, for who tells Redis.
	used     quota.Amounts
	cancel   bool
	attempts int
}

// again is h for another try.
func (h *hold) again() *hold {
	return &hold{limiter: h.limiter, plan: h.plan, demand: h.demand, buckets: h.buckets, bucketKeys: h.bucketKeys, takes: h.takes}
}

// Settle implements [quota.Hold].
func (h *hold) Settle(u quota.Used) bool { return h.limiter.end(h, h.plan.Used(&u), false) }

// Refund implements [quota.Hold].
func (h *hold) Refund() bool { return h.limiter.end(h, quota.Amounts{}, false) }

// Standing implements [quota.Hold]: as things stood when the request was let through.
func (h *hold) Standing(m quota.Meter) (quota.Standing, bool) {
	if len(h.states) == 0 {
		return quota.Standing{}, false
	}
	return h.plan.Standing(m, h.buckets, h.states)
}

// Soft implements [quota.Hold]: as things stood when the request was let through.
func (h *hold) Soft() []quota.Notice {
	if len(h.states) == 0 {
		return nil
	}
	return h.plan.Soft(&h.demand, h.buckets, h.states, h.at)
}

// Degraded implements [quota.Hold].
func (h *hold) Degraded() string { return "" }

// alone is of a request that was let through without Redis. Hold is of a share; nil if
// nothing was counted.
type alone struct {
	quota.Hold

	ended atomicOnce
	why   string
}

// Settle implements [quota.Hold].
func (h *alone) Settle(u quota.Used) bool {
	if h.Hold == nil {
		return h.ended.first()
	}
	return h.Hold.Settle(u)
}

// Refund implements [quota.Hold].
func (h *alone) Refund() bool {
	if h.Hold == nil {
		return h.ended.first()
	}
	return h.Hold.Refund()
}

// Standing implements [quota.Hold]: nobody knows.
func (h *alone) Standing(quota.Meter) (quota.Standing, bool) { return quota.Standing{}, false }

// Soft implements [quota.Hold]: nobody knows.
func (h *alone) Soft() []quota.Notice { return nil }

// Degraded implements [quota.Hold].
func (h *alone) Degraded() string { return h.why }
