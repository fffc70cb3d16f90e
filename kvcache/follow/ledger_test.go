package follow_test

import (
	"maps"

	"github.com/kvsteer/kvsteer/kvcache"
)

// ledgerIndex is a plainIndex that keeps positions and knows what it lost.
type ledgerIndex struct {
	*plainIndex
	positions map[kvcache.Owner]kvcache.Position
	standing  map[kvcache.Owner]kvcache.Standing
	short     map[kvcache.Owner]kvcache.Reason // until cleared
	missing   int
	used      int64
}

const ledgerBudget = 1 << 20

// withLedger gives w's Followers such an index.
func (w *world) withLedger() *ledgerIndex {
	x := &ledgerIndex{
		plainIndex: w.index, positions: map[kvcache.Owner]kvcache.Position{},
		standing: map[kvcache.Owner]kvcache.Standing{}, short: map[kvcache.Owner]kvcache.Reason{},
	}
	w.cfg.Index = x
	return x
}

func (x *ledgerIndex) Apply(o kvcache.Owner, e *kvcache.Event) kvcache.Outcome {
	x.mu.Lock()
	delete(x.positions, o)
	x.mu.Unlock()
	return x.plainIndex.Apply(o, e)
}

func (x *ledgerIndex) Clear(o kvcache.Owner) {
	x.mu.Lock()
	delete(x.positions, o)
	delete(x.short, o)
	x.mu.Unlock()
	x.plainIndex.Clear(o)
}

func (x *ledgerIndex) SetStanding(o kvcache.Owner, st kvcache.Standing) {
	x.mu.Lock()
	x.standing[o] = st
	x.mu.Unlock()
	x.SetTrust(o, st.Trust)
}

func (x *ledgerIndex) SetPosition(o kvcache.Owner, p kvcache.Position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.positions[o] = p
}

func (x *ledgerIndex) Position(o kvcache.Owner) (kvcache.Position, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p, ok := x.positions[o]
	return p, ok
}

func (x *ledgerIndex) Short(o kvcache.Owner) kvcache.Reason {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.short[o]
}

func (x *ledgerIndex) OwnerStats(o kvcache.Owner) kvcache.OwnerStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	return kvcache.OwnerStats{Pairs: len(x.blocks[o]), Missing: x.missing, Short: x.short[o]}
}

func (x *ledgerIndex) Stats() kvcache.Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	return kvcache.Stats{Bytes: x.used, Budget: ledgerBudget}
}

// lose takes blocks away from o, as a budget does.
func (x *ledgerIndex) lose(o kvcache.Owner, why kvcache.Reason, hashes ...kvcache.EngineHash) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, h := range hashes {
		delete(x.blocks[o], h)
	}
	x.short[o] = why
}

// stands returns what the Follower last said of o.
func (x *ledgerIndex) stands(o kvcache.Owner) kvcache.Standing {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.standing[o]
}

// fill sets how much memory is in use, and how many blocks are missing.
func (x *ledgerIndex) fill(used int64, missing int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.used, x.missing = used, missing
}

// edit changes what the index has recorded of o.
func (x *ledgerIndex) edit(o kvcache.Owner, change func(p *kvcache.Position)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.positions[o]
	change(&p)
	x.positions[o] = p
}

// export returns what a snapshot taken now would give another index.
func (x *ledgerIndex) export() (map[kvcache.Owner]set, map[kvcache.Owner]kvcache.Position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	blocks := map[kvcache.Owner]set{}
	for o, s := range x.blocks {
		blocks[o] = maps.Clone(s)
	}
	return blocks, maps.Clone(x.positions)
}

// restore makes the index what it was at an export, as an import does.
func (x *ledgerIndex) restore(blocks map[kvcache.Owner]set, positions map[kvcache.Owner]kvcache.Position) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.blocks, x.positions = map[kvcache.Owner]set{}, maps.Clone(positions)
	for o, s := range blocks {
		x.blocks[o] = maps.Clone(s)
		x.trust[o] = kvcache.Approximate
	}
}
