package kvcachetest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
)

func TestModelPassesItsOwnSuite(t *testing.T) {
	t.Parallel()
	kvcachetest.TestIndex(t, func(o kvcache.Options) kvcachetest.IndexLike { return kvcachetest.NewModel(o) })
}

// faultyIndex is the model with faults put in: a hook for each method that a fault
// changes.
type faultyIndex struct {
	*kvcachetest.Model
	options func(*kvcache.Options)
	event   func(*faultyIndex, kvcache.Owner, *kvcache.Event) bool // false: not applied
	match   func(*faultyIndex, []kvcache.Key, []kvcache.Owner, []kvcache.Hit)
	book    func(*faultyIndex, kvcache.Owner, []kvcache.Key, time.Duration)
	leave   func(*faultyIndex, kvcache.Owner)
	clear   func(*faultyIndex, kvcache.Owner)
	noCap   bool
	trust   func(*faultyIndex, kvcache.Trust) kvcache.Trust
	// position replaces Position; placed is what SetPosition was called with.
	position func(*faultyIndex, kvcache.Owner) (kvcache.Position, bool)
	placed   map[kvcache.Owner]kvcache.Position
	known    map[kvcache.EngineHash]bool
	all      []kvcache.Owner
}

func (b *faultyIndex) Join(name string) kvcache.Owner {
	o := b.Model.Join(name)
	b.all = append(b.all, o)
	return o
}

func (b *faultyIndex) Apply(o kvcache.Owner, e *kvcache.Event) kvcache.Outcome {
	c := *e
	if b.event != nil && !b.event(b, o, &c) {
		return kvcache.Outcome{Verdict: kvcache.Applied}
	}
	for _, h := range e.Hashes {
		b.known[h] = true
	}
	return b.Model.Apply(o, &c)
}

func (b *faultyIndex) Match(keys []kvcache.Key, owners []kvcache.Owner, hits []kvcache.Hit) {
	b.Model.Match(keys, owners, hits)
	if b.match != nil {
		b.match(b, keys, owners, hits)
	}
}

func (b *faultyIndex) Book(o kvcache.Owner, keys []kvcache.Key, ttl time.Duration) {
	if b.book != nil {
		b.book(b, o, keys, ttl)
		return
	}
	b.Model.Book(o, keys, ttl)
}

func (b *faultyIndex) Leave(o kvcache.Owner) {
	if b.leave != nil {
		b.leave(b, o)
		return
	}
	b.Model.Leave(o)
}

func (b *faultyIndex) Clear(o kvcache.Owner) {
	if b.clear != nil {
		b.clear(b, o)
		return
	}
	b.Model.Clear(o)
}

func (b *faultyIndex) SetCapacity(o kvcache.Owner, n int) {
	if !b.noCap {
		b.Model.SetCapacity(o, n)
	}
}

func (b *faultyIndex) Trust(o kvcache.Owner) kvcache.Trust {
	t := b.Model.Trust(o)
	if b.trust != nil {
		t = b.trust(b, t)
	}
	return t
}

func (b *faultyIndex) SetPosition(o kvcache.Owner, p kvcache.Position) {
	b.placed[o] = p
	b.Model.SetPosition(o, p)
}

func (b *faultyIndex) Position(o kvcache.Owner) (kvcache.Position, bool) {
	if b.position != nil {
		return b.position(b, o)
	}
	return b.Model.Position(o)
}

func onEvent(f func(*kvcache.Event)) faultyIndex {
	return faultyIndex{event: func(_ *faultyIndex, _ kvcache.Owner, e *kvcache.Event) bool { f(e); return true }}
}

// A suite is worth what it rejects.
func TestSuiteRejectsBrokenIndexes(t *testing.T) {
	t.Parallel()
	faults := map[string]faultyIndex{
		"clears ignored": {event: func(_ *faultyIndex, _ kvcache.Owner, e *kvcache.Event) bool { return e.Kind != kvcache.Cleared }},
		"clears everyone": {event: func(b *faultyIndex, _ kvcache.Owner, e *kvcache.Event) bool {
			for _, o := range b.all {
				if e.Kind == kvcache.Cleared {
					b.Model.Clear(o)
				}
			}
			return true
		}},
		"Clear does nothing":  {clear: func(*faultyIndex, kvcache.Owner) {}},
		"removals ignored":    {event: func(_ *faultyIndex, _ kvcache.Owner, e *kvcache.Event) bool { return e.Kind != kvcache.Removed }},
		"departed live on":    {leave: func(*faultyIndex, kvcache.Owner) {}},
		"orphans at the root": onEventKnown(func(b *faultyIndex, e *kvcache.Event) { e.HasParent = e.HasParent && b.known[e.Parent] }),
		"duplicates not counted": onEventKnown(func(b *faultyIndex, e *kvcache.Event) {
			if len(e.Hashes) > 1 && b.known[e.Hashes[0]] && e.Kind == kvcache.Stored {
				e.Kind = kvcache.Cleared + 1
			}
		}),
		"tiers ignored":     onEvent(func(e *kvcache.Event) { e.Tier = kvcache.TierGPU }),
		"groups ignored":    onEvent(func(e *kvcache.Event) { e.Group = 0 }),
		"attention ignored": onEvent(func(e *kvcache.Event) { e.Attention = kvcache.FullAttention }),
		"adapter ignored":   onEvent(func(e *kvcache.Event) { e.Adapter = "" }),
		"salt ignored":      onEvent(func(e *kvcache.Event) { e.Salt = "" }),
		"extras ignored":    onEvent(func(e *kvcache.Event) { e.Extras = nil }),
		"unnamed adapter":   onEvent(func(e *kvcache.Event) { e.AdapterUnnamed = false }),
		"placeholders skip": {event: func(_ *faultyIndex, _ kvcache.Owner, e *kvcache.Event) bool {
			return len(e.Tokens) > 0 || e.Kind != kvcache.Stored
		}},
		"losses are silent": {trust: func(_ *faultyIndex, t kvcache.Trust) kvcache.Trust {
			if t == kvcache.Resyncing {
				return kvcache.Exact
			}
			return t
		}},
		"lost for good": {event: func(b *faultyIndex, o kvcache.Owner, e *kvcache.Event) bool {
			return e.Kind != kvcache.Removed || b.Short(o) == kvcache.NoReason
		}},
		"a position that stays": {position: func(b *faultyIndex, o kvcache.Owner) (kvcache.Position, bool) {
			p, ok := b.placed[o]
			return p, ok
		}},
		"no orphan bound":  {options: func(o *kvcache.Options) { o.MaxOrphans = 1 << 20 }},
		"no booking bound": {options: func(o *kvcache.Options) { o.MaxProvisional = 1 << 20 }},
		"no capacity":      {noCap: true},
		"frozen clock":     {options: func(o *kvcache.Options) { t := o.Now(); o.Now = func() time.Time { return t } }},
		"bookings ignored": {book: func(*faultyIndex, kvcache.Owner, []kvcache.Key, time.Duration) {}},
		"bookings of the last": {book: func(b *faultyIndex, o kvcache.Owner, k []kvcache.Key, d time.Duration) {
			b.Model.Book(o, k[len(k)/2:], d)
		}},
		"booked is confirmed": {match: func(_ *faultyIndex, _ []kvcache.Key, _ []kvcache.Owner, hits []kvcache.Hit) {
			for i := range hits {
				hits[i].Confirmed = hits[i].Blocks
			}
		}},
		"holes overlooked": {match: func(b *faultyIndex, keys []kvcache.Key, owners []kvcache.Owner, hits []kvcache.Hit) {
			more := make([]kvcache.Hit, 1)
			for i := range hits {
				if n := int(hits[i].Blocks) + 1; n < len(keys) {
					b.Model.Match(keys[n:], owners[i:i+1], more)
					hits[i].Blocks += more[0].Blocks
				}
			}
		}},
		"hits not reset": {match: func(_ *faultyIndex, keys []kvcache.Key, _ []kvcache.Owner, hits []kvcache.Hit) {
			for i := range hits {
				if len(keys) == 0 {
					hits[i].Blocks = 1
				}
			}
		}},
		"one too many": {match: func(_ *faultyIndex, _ []kvcache.Key, _ []kvcache.Owner, hits []kvcache.Hit) {
			for i := range hits {
				hits[i].Blocks++
			}
		}},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Error(t, kvcachetest.CheckIndex(func(o kvcache.Options) kvcachetest.IndexLike {
				b := fault
				if b.options != nil {
					b.options(&o)
				}
				b.Model, b.known = kvcachetest.NewModel(o), map[kvcache.EngineHash]bool{}
				b.placed = map[kvcache.Owner]kvcache.Position{}
				return &b
			}))
		})
	}
}

func onEventKnown(f func(*faultyIndex, *kvcache.Event)) faultyIndex {
	return faultyIndex{event: func(b *faultyIndex, _ kvcache.Owner, e *kvcache.Event) bool { f(b, e); return true }}
}
