package labels

import (
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Policy gives values. Make it with [New]. Safe for concurrent use; it starts no
// goroutines and needs no closing.
type Policy struct {
	opts Options
	seed maphash.Seed
	// rest is the last of rows, for all that have no value.
	rest int
	// due is when there is something to do, in Unix nanoseconds.
	due atomic.Int64
	// free counts the rows without a tenant.
	free atomic.Int32
	// turn is held by who calls OnFold, and around all changes for it.
	turn sync.Mutex

	// mu guards what follows; whoever adds to a row's counters has it for reading.
	mu sync.RWMutex
	// at is a tenant's row. A retired tenant has none.
	at   map[string]int
	rows []row
	// awaited are the hashes of tenants that rows were vacated for, and until when they are
	// kept for them.
	awaited  map[uint64]time.Time
	windowAt time.Time // when the window ends
	counters []*Counters
	totals   Totals

	// seenMu guards seen, the traffic of those without a value.
	seenMu sync.Mutex
	seen   *sketch
}

// row is a value and whose it is.
type row struct {
	tenant, value string
	given         time.Time
	state         state
	ends          time.Time // if retired
	traffic       atomic.Uint64
}

type state uint8

const (
	vacant  state = iota
	held          // by a tenant
	retired       // by nobody any more, and not yet at its end
)

// Totals count what became of values.
type Totals struct {
	// Values are those that there are now, [Other] or [Default] included.
	Values int
	// Given, Retired and Folded count all until now: values given to tenants, taken from
	// them, and ended.
	Given, Retired, Folded uint64
}

// New returns a Policy; the error says which option is wrong.
func New(o Options) (*Policy, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	p := &Policy{opts: o, seed: maphash.MakeSeed(), at: map[string]int{}}
	switch o.Mode {
	case None:
		p.rows = make([]row, 1)
	case Allowlist:
		p.allow()
	default:
		p.rest = o.Budget - 1
		p.rows = make([]row, o.Budget)
		p.rows[p.rest].value = Other
		p.free.Store(int32(p.rest))
		p.awaited = map[uint64]time.Time{}
		p.seen = newSketch(2 * o.Budget)
		p.windowAt = o.Now().Add(o.Window)
		p.due.Store(p.windowAt.UnixNano())
	}
	p.totals.Values = p.rest - int(p.free.Load()) + 1
	return p, nil
}

// allow makes the rows of a list.
func (p *Policy) allow() {
	var names []string
	for _, tenant := range p.opts.Allow {
		if _, twice := p.at[tenant]; !twice {
			p.at[strings.Clone(tenant)] = len(names)
			names = append(names, tenant)
		}
	}
	p.rest = len(names)
	p.rows = make([]row, len(names)+1)
	for i, tenant := range names {
		p.rows[i].value, p.rows[i].state = value(tenant), held
	}
	p.rows[p.rest].value = Default
	p.totals.Given = uint64(len(names))
}

// Label returns a tenant's value, "" in the Mode None. A tenant's name must say whose
// tenant it is, where those of two organisations can have one name. A call counts as
// traffic of the tenant: make one for each request.
func (p *Policy) Label(tenant string) string {
	p.tend(tenant)
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.rows[p.row(tenant)].value
}

// row is that of a tenant. p.mu is held.
func (p *Policy) row(tenant string) int {
	if at, ok := p.at[tenant]; ok {
		return at
	}
	return p.rest
}

// tend counts a tenant's traffic, gives it a value if there is one, and does what is due.
func (p *Policy) tend(tenant string) {
	if p.opts.Mode != All {
		return
	}
	now := p.opts.Now()
	if now.UnixNano() >= p.due.Load() {
		p.turnOver(now)
	}
	p.mu.RLock()
	at, has := p.at[tenant]
	if has {
		p.rows[at].traffic.Add(1)
	}
	p.mu.RUnlock()
	if has {
		return
	}
	hash := maphash.String(p.seed, tenant)
	if p.free.Load() > 0 && p.give(tenant, hash, now) {
		return
	}
	// Nobody is left out to save the wait, which is short: those with values are all
	// counted, so under load none of the others would ever outdo them.
	p.seenMu.Lock()
	p.seen.see(hash)
	p.seenMu.Unlock()
}

// give gives a tenant a vacant row, and reports whether it has one.
func (p *Policy) give(tenant string, hash uint64, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, has := p.at[tenant]; has {
		return true
	}
	_, awaited := p.awaited[hash]
	if !awaited && int(p.free.Load()) <= len(p.awaited) {
		return false // they are for others
	}
	for i := range p.rest {
		r := &p.rows[i]
		if r.state != vacant {
			continue
		}
		delete(p.awaited, hash)
		r.tenant, r.value, r.given, r.state = strings.Clone(tenant), value(tenant), now, held
		r.traffic.Store(1)
		p.at[r.tenant] = i
		p.free.Add(-1)
		p.totals.Given++
		return true
	}
	return false
}

// Report says in a sentence, for the log at start-up, what the label can become.
func (p *Policy) Report() string {
	switch p.opts.Mode {
	case All:
		return fmt.Sprintf("tenant label: up to %d values, of the tenants with the most traffic, and %q for the rest; "+
			"a value stays for %v at least", p.opts.Budget-1, Other, p.opts.Window)
	case Allowlist:
		return fmt.Sprintf("tenant label: %d values, of the listed tenants, and %q for the rest", p.rest, Default)
	default:
		return "tenant label: none"
	}
}

// Totals returns them.
func (p *Policy) Totals() Totals {
	p.mu.RLock()
	defer p.mu.RUnlock()
	t := p.totals
	t.Values = p.rest - int(p.free.Load()) + 1
	return t
}
