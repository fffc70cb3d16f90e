package chaos

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/tenancy/quota"
)

// The limit of one tenant, so tight that it refuses. A prompt must fit into the burst.
const (
	tightTenant = "t2"
	tightBurst  = 250
	tightRate   = 3000 // a minute
)

// gate is limits that may be out of reach, as those in a Redis, with books of its own of what
// they let through.
type gate struct {
	to   *quota.Limiter
	mode atomic.Int32

	// flow is held by whoever takes or gives back, and for writing by who wants to see all
	// of the limiter's sums at one moment.
	flow sync.RWMutex

	mu    sync.Mutex
	began time.Time
	jumps int // of the limiter's clock: each may fill the bucket
	// running and tokens are of what is under way, taken is what the tight tenant has kept.
	running       int
	tokens, taken int64
	over          string // how it got more than the bucket can have held
}

// Modes of a gate.
const (
	gateOpen int32 = iota
	gateFails
	gateLets // lets everything through, unlimited
	gateModes
)

// Admit implements kvsteer.Limits.
func (g *gate) Admit(ctx context.Context, d *quota.Demand) (quota.Hold, error) {
	switch g.mode.Load() {
	case gateFails:
		return nil, errDown
	case gateLets:
		return nil, nil //nolint:nilnil // nothing limits the request
	default:
	}
	g.flow.RLock()
	defer g.flow.RUnlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.began.IsZero() {
		g.began = time.Now()
	}
	h, err := g.to.Admit(ctx, d)
	if err != nil {
		return nil, err
	}
	n := d.Input + d.Output
	took := min(n, tightBurst) // what an answer may need beyond it is debt
	g.running++
	g.tokens += n
	if d.Tenant == tightTenant {
		g.taken += took
		refilled := tightRate * int64(time.Since(g.began)+time.Second) / int64(time.Minute)
		if most := tightBurst*int64(1+g.jumps) + refilled; g.taken > most && g.over == "" {
			g.over = fmt.Sprintf("%d tokens of tenant %s are let through, and the bucket can have held %d", g.taken, tightTenant, most)
		}
	}
	return &hold{Hold: h, gate: g, tokens: n, took: took, tight: d.Tenant == tightTenant}, nil
}

// jumped notes that the limiter's clock was moved, or is about to be.
func (g *gate) jumped() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.jumps++
}

// check compares the limiter's sums with each other and with the gate's, at one moment.
func (g *gate) check() *Violation {
	g.flow.Lock()
	defer g.flow.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over != "" {
		return violation(Limits, "%s", g.over)
	}
	t := g.to.Totals()
	for m, want := range map[quota.Meter]int64{quota.Requests: int64(g.running), quota.Tokens: g.tokens} {
		if left := t.Reserved[m] - t.Settled[m] - t.Refunded[m]; left != want || t.Running != g.running {
			return violation(Accounts, "%s: %d reserved, %d settled, %d refunded, so %d under way, which are %d of %d requests (the limits say %d)",
				m, t.Reserved[m], t.Settled[m], t.Refunded[m], left, want, g.running, t.Running)
		}
	}
	return nil
}

// hold is what a request has taken.
type hold struct {
	quota.Hold

	gate   *gate
	tokens int64
	took   int64 // of the tight tenant's bucket
	tight  bool
}

// Settle implements quota.Hold.
func (h *hold) Settle(u quota.Used) bool {
	return h.end(min(h.took, u.Uncached+u.CacheRead+u.CacheWrite+u.Output), func() bool { return h.Hold.Settle(u) })
}

// Refund implements quota.Hold.
func (h *hold) Refund() bool { return h.end(0, h.Hold.Refund) }

// end gives back all but what is kept. Refills meanwhile make it less: then the bucket is
// fuller than the books have it.
func (h *hold) end(kept int64, end func() bool) bool {
	h.gate.flow.RLock()
	defer h.gate.flow.RUnlock()
	h.gate.mu.Lock()
	defer h.gate.mu.Unlock()
	if !end() {
		return false
	}
	h.gate.running--
	h.gate.tokens -= h.tokens
	if h.tight {
		h.gate.taken -= h.took - kept
	}
	return true
}
