package simulate

import (
	"slices"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache"
)

// The index sees a block as two tokens, the halves of its identity, so that
// hashing real tokens doesn't take the greater part of a simulation. The code
// that it runs is the same.
const indexBlock = 2

func tokensOf(dst []uint32, blocks []uint64) []uint32 {
	for _, b := range blocks {
		dst = append(dst, uint32(b), uint32(b>>32))
	}
	return dst
}

// notice is an engine's event on its way to the router.
type notice struct {
	removed bool
	blocks  []uint64
	parent  uint64
	rooted  bool
}

// batches are what each router hears of what the engine recorded.
func (c *cluster) batches(events []sim.Event) [][]notice {
	out := make([][]notice, len(c.routers))
	for n := range out {
		if n > 0 && c.cfg.Faults.EventLoss == 0 {
			out[n] = out[0] // nobody changes it
			continue
		}
		out[n] = c.notices(events)
	}
	return out
}

// notices copies what the engine recorded, less what gets lost.
func (c *cluster) notices(events []sim.Event) []notice {
	var out []notice
	for i := range events {
		e := &events[i]
		if c.cfg.Faults.EventLoss > 0 && c.faults.Float64() < c.cfg.Faults.EventLoss {
			continue
		}
		// Removals come one block at a time; what follows each other goes together.
		if n := len(out); e.Kind == sim.BlockRemoved && n > 0 && out[n-1].removed {
			out[n-1].blocks = append(out[n-1].blocks, e.Hashes...)
			continue
		}
		out = append(out, notice{
			removed: e.Kind == sim.BlockRemoved, blocks: slices.Clone(e.Hashes), parent: e.Parent, rooted: !e.HasParent,
		})
	}
	return out
}

// apply gives notices of a worker to the index.
func (r *router) apply(worker int, batch []notice) {
	c, owner := r.cluster, r.owners[worker]
	for i := range batch {
		n := &batch[i]
		c.hashes = c.hashes[:0]
		for _, b := range n.blocks {
			c.hashes = append(c.hashes, kvcache.EngineHash(b))
		}
		e := kvcache.Event{Kind: kvcache.Removed, Hashes: c.hashes}
		if !n.removed {
			c.tokens = tokensOf(c.tokens[:0], n.blocks)
			e.Kind, e.Tokens, e.BlockSize = kvcache.Stored, c.tokens, indexBlock
			e.Parent, e.HasParent = kvcache.EngineHash(n.parent), !n.rooted
		}
		r.index.Apply(owner, &e)
	}
}
