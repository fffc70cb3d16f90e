package kvcache

// Owner is one holder of blocks: one data-parallel rank of one worker instance.
// [Index.Join] makes it. It is comparable, its zero value is no owner, and it is
// never used again once its holder has left: calls with such an Owner do
// nothing, so that a late event of a dead worker cannot reach its successor.
type Owner struct{ id uint64 }

// IsZero reports whether o is no owner.
func (o Owner) IsZero() bool { return o.id == 0 }

// MakeOwner returns the owner with an identifier of the caller's choosing, for
// other implementations of what an [Index] does. An [Index] knows only the
// owners that its own Join returned.
func MakeOwner(id uint64) Owner { return Owner{id} }

// ID returns a number that tells o from every other owner of its index.
func (o Owner) ID() uint64 { return o.id }

// Hit is how much of a prompt an owner holds, in blocks from the prompt's start.
// A block after the first missing one is of no use and is not counted.
type Hit struct {
	// Blocks are resident: confirmed by events or booked.
	Blocks int32
	// Confirmed is how many of them, from the first on, events have confirmed.
	Confirmed int32
	// Tiers counts Blocks by the fastest tier that holds each; its sum is Blocks.
	// A block that is only booked counts as TierGPU.
	Tiers [NumTiers]int32
}

// Stats describes an [Index] as a whole.
type Stats struct {
	// Owners have joined and not left.
	Owners int
	// Blocks are distinct blocks that at least one owner holds.
	Blocks int
	// Pairs are (owner, block) residencies, booked ones included.
	Pairs int
	// Provisional are the pairs that are booked and not confirmed.
	Provisional int
	// Orphans are blocks that wait for their parent.
	Orphans int
	// Short are the owners that hold less than their events said; see [Index.Short].
	Short int
	// Bytes is the memory in use, Budget its bound.
	Bytes, Budget int64
	Counters
}

// OwnerStats describes one owner.
type OwnerStats struct {
	// Name is what the owner joined as.
	Name string
	// Pairs, Provisional and Orphans are as in [Stats].
	Pairs, Provisional, Orphans int
	// GPU are the pairs in GPU memory, booked ones included: those that take up room
	// there. The rest are in slower tiers only.
	GPU int
	// Missing are the copies of blocks that events announced and did not remove and
	// that are not held all the same, and Short is the first reason why; 0 and
	// NoReason when everything is held. See [Index.Short].
	Missing int
	Short   Reason
	// BlockSize is in tokens, 0 while unknown.
	BlockSize int
	// Windows are the blocks in GPU memory of groups that are not of full attention,
	// over all such groups. They say where hits may end and are in no other figure
	// but Missing, Stored, Removed and Repeated.
	Windows int
	// Trust and TrustReason are the owner's [Standing].
	Trust       Trust
	TrustReason string
	Counters
}

// Counters count what happened since the index was made or the owner joined, in
// blocks, except Ignored.
type Counters struct {
	// Stored and Removed count blocks that entered or left a tier by an event,
	// Repeated those that an event named again.
	Stored, Removed, Repeated uint64
	// Orphaned counts blocks held for want of a parent, Adopted those of them
	// whose parent came.
	Orphaned, Adopted uint64
	// Evicted counts pairs that left to stay within the budget.
	Evicted uint64
	// Booked counts blocks that Book made resident, Expired those of them that
	// left unconfirmed, by time or by capacity.
	Booked, Expired uint64
	// Ignored counts events that were not fully applied, by reason.
	Ignored [NumReasons]uint64
}

// Add adds d to c.
func (c *Counters) Add(d *Counters) {
	c.Stored += d.Stored
	c.Removed += d.Removed
	c.Repeated += d.Repeated
	c.Orphaned += d.Orphaned
	c.Adopted += d.Adopted
	c.Evicted += d.Evicted
	c.Booked += d.Booked
	c.Expired += d.Expired
	for i := range d.Ignored {
		c.Ignored[i] += d.Ignored[i]
	}
}

// Count adds what became of one event of kind k.
func (c *Counters) Count(k EventKind, out Outcome) {
	if k == Stored {
		c.Stored += uint64(out.Applied)
	} else {
		c.Removed += uint64(out.Applied)
	}
	c.Repeated += uint64(out.Repeated)
	c.Orphaned += uint64(out.Orphaned)
	c.Adopted += uint64(out.Adopted)
	if out.Reason != NoReason {
		c.Ignored[out.Reason]++
	}
}
