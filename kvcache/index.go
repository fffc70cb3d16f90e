package kvcache

import (
	"sync"
	"sync/atomic"
)

// Before you change this:
//
//   - There is one lock, mu, and every change is made under it. Readers take
//     none: what they see is atomic words in the arena and in runs.
//   - A block keeps its place, and its key is in no other, for as long as anyone
//     holds it. So a reader that finds a place need not find it twice.
//   - To free or move what a reader may be looking at: first show the new, then
//     raise the run's version, then release the old. A reader that sees the
//     version change starts again; until then it may read anything, and must
//     neither panic nor loop on it.
//   - At most one cover is open, in cur. Whoever needs another, or changes runs
//     and covers by other ways than through cur, flushes it first. Flushing may
//     cut or free the run.
//   - Anything that allocates can fail. Allocate first, change then.
//   - A run's head is found by its key, the blocks after it only through it. So
//     a block that is not a head comes right after its parent.
//   - A booked block is in exactly one stretch of its cover, so a booking ends only
//     through endBooking or with the whole owner.
//   - What events announced and a bound takes away goes through lose, so that
//     nothing is lost in silence.
//
// The invariants are spelled out, and checked, by Check in export_test.go.

// Index records which owner holds which block, in which tier. It is safe for
// concurrent use: Match, Trust, Standing, Short, BlockSize and Resident take no lock,
// but for the Match of hybrid owners; everything else takes one for a short time. It starts no goroutine and needs no closing.
//
// Blocks are found by keys of our own; what an engine calls them matters only to
// its own events.
type Index struct {
	// What readers see without the lock.
	arena arena
	heads heads
	pages atomic.Pointer[runPages]
	slots atomic.Pointer[slotTable]
	due   atomic.Int64 // when the next booking ends, Unix nanoseconds; 0 for none
	// hybrids counts the owners that have groups of other than full attention.
	hybrids atomic.Int64
	notes   notePool
	hot     atomic.Pointer[hotSet] // nil until somebody asks
	opts    Options

	mu  sync.Mutex
	mem memory
	// Runs are numbered from 1 to topRun; freeRun starts the list of unused ones.
	topRun, freeRun uint32
	hand            uint32 // the last run that eviction looked at
	owners          []*owner
	freeSlots       []uint16
	lastOwner       uint64
	joined          int
	cur             cover
	stretches       stretches
	booking         []uint32 // stretches
	adopting        []parent
	pieces          []piece
	pins            []cover // of pieces, while a hybrid's hit is shortened
	blocks, pairs   int
	booked          int
	orphans         int64
	windowed        int64 // entries of windows
	lastAwait       int
	gone            Counters
	// places finds blocks that are no heads, while a snapshot is imported.
	places *engineTable
	// importing is held by the one Import that may run.
	importing sync.Mutex
}

// slotTable is what readers see of owners. It is replaced when it grows, and
// changed only under the lock.
type slotTable struct {
	ids      []atomic.Uint64
	standing []atomic.Pointer[Standing] // nil is Blind
	short    []atomic.Uint32            // a Reason
	size     []atomic.Int64
	pairs    []atomic.Int64
	groups   []atomic.Uint32 // onlyFull and so on
}

// holdersMax is how many owners can hold one run: as many covers as fit a chunk.
const holdersMax = chunkWords / 2

// slotBits of an owner's number are its slot, the rest is never used again.
const (
	slotBits = 16
	slotsMax = 1<<slotBits - 1
)

func (o Owner) slot() uint16 { return uint16(o.id) }

func (t *slotTable) is(slot int, o Owner) bool {
	return o.id != 0 && slot < len(t.ids) && t.ids[slot].Load() == o.id
}

// NewIndex returns an empty index.
func NewIndex(opts Options) *Index {
	x := &Index{opts: opts.withDefaults()}
	x.mem = memory{max: x.opts.MaxBytes, reserve: x.opts.MaxBytes / reserveShare}
	x.arena.mem = &x.mem
	x.pages.Store(&runPages{})
	x.slots.Store(&slotTable{})
	return x
}

// owner returns what is known of o, nil if it has left.
func (x *Index) owner(o Owner) *owner {
	if slot := int(o.slot()); o.id != 0 && slot < len(x.owners) {
		if s := x.owners[slot]; s != nil && s.id == o {
			return s
		}
	}
	return nil
}

// Join adds an owner: one data-parallel rank of one worker instance. It starts
// empty and [Blind]. The name is for people; it need not be unique. There may be
// 65,535 owners at a time; beyond that Join returns the zero Owner, for which
// nothing is ever held. Of these 8,192 can hold the same block; what others hold
// of it is refused with [ReasonBudget].
func (x *Index) Join(name string) Owner {
	x.mu.Lock()
	defer x.mu.Unlock()
	var slot uint16
	if n := len(x.freeSlots); n > 0 {
		slot, x.freeSlots = x.freeSlots[n-1], x.freeSlots[:n-1]
	} else {
		if len(x.owners) >= slotsMax {
			return Owner{}
		}
		slot = uint16(len(x.owners))
		x.owners = append(x.owners, nil)
		x.growSlots()
	}
	x.lastOwner++
	s := &owner{id: Owner{x.lastOwner<<slotBits | uint64(slot)}, slot: slot, name: name}
	x.owners[slot] = s
	x.joined++
	t := x.slots.Load()
	t.standing[slot].Store(nil)
	t.short[slot].Store(0)
	t.size[slot].Store(0)
	t.pairs[slot].Store(0)
	t.groups[slot].Store(onlyFull)
	t.ids[slot].Store(s.id.id)
	return s.id
}

func (x *Index) growSlots() {
	old := x.slots.Load()
	if len(x.owners) <= len(old.ids) {
		return
	}
	n := max(8, 2*len(old.ids))
	t := &slotTable{
		make([]atomic.Uint64, n), make([]atomic.Pointer[Standing], n), make([]atomic.Uint32, n),
		make([]atomic.Int64, n), make([]atomic.Int64, n), make([]atomic.Uint32, n),
	}
	for i := range old.ids {
		t.ids[i].Store(old.ids[i].Load())
		t.standing[i].Store(old.standing[i].Load())
		t.short[i].Store(old.short[i].Load())
		t.size[i].Store(old.size[i].Load())
		t.pairs[i].Store(old.pairs[i].Load())
		t.groups[i].Store(old.groups[i].Load())
	}
	x.slots.Store(t)
}

// Leave removes an owner and frees what it holds. o is never valid again.
func (x *Index) Leave(o Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o)
	if s == nil {
		return
	}
	x.slots.Load().ids[s.slot].Store(0)
	x.clear(s)
	x.gone.Add(&s.Counters)
	x.owners[s.slot] = nil
	x.freeSlots = append(x.freeSlots, s.slot)
	x.joined--
}

// Clear forgets everything that an owner holds, its block size and its [Position]
// included; its standing and its capacity stay.
func (x *Index) Clear(o Owner) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.owner(o); s != nil {
		x.clear(s)
		s.events = 0
	}
}

// BlockSize returns the block size that o's events have, in tokens; 0 while it
// is unknown.
func (x *Index) BlockSize(o Owner) int {
	t, slot := x.slots.Load(), int(o.slot())
	if !t.is(slot, o) {
		return 0
	}
	size := int(t.size[slot].Load())
	if !t.is(slot, o) {
		return 0
	}
	return size
}

// Hybrid reports whether o's engine has attention of other kinds than full, by its
// events. It takes no lock.
func (x *Index) Hybrid(o Owner) bool {
	t, slot := x.slots.Load(), int(o.slot())
	return t.is(slot, o) && t.groups[slot].Load() != onlyFull && t.is(slot, o)
}

// Resident returns how many blocks o holds, booked ones included; 0 for an owner
// that left. It takes no lock: during a change it may be the figure from before,
// and bookings whose time has come count until the next Match or change.
func (x *Index) Resident(o Owner) int {
	t, slot := x.slots.Load(), int(o.slot())
	if !t.is(slot, o) {
		return 0
	}
	pairs := int(t.pairs[slot].Load())
	if !t.is(slot, o) {
		return 0
	}
	return pairs
}

// Stats returns figures for the whole index.
func (x *Index) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expire(expireAll)
	out := Stats{
		Owners: x.joined, Blocks: x.blocks, Pairs: x.pairs, Provisional: x.booked, Orphans: int(x.orphans),
		Bytes: x.mem.used, Budget: x.mem.max, Counters: x.gone,
	}
	for _, s := range x.owners {
		if s != nil {
			out.Add(&s.Counters)
			out.Short += b2i(s.lost.any())
		}
	}
	return out
}

// OwnerStats returns figures for one owner; zero for one that left.
func (x *Index) OwnerStats(o Owner) OwnerStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o)
	if s == nil {
		return OwnerStats{}
	}
	x.expire(expireAll)
	st := x.standingOf(s)
	return OwnerStats{
		Name: s.name, Pairs: s.pairs, GPU: s.near, Provisional: s.booked.blocks, Orphans: len(s.orphans), Missing: s.lost.copies,
		Short: s.lost.why, BlockSize: s.blockSize, Windows: s.inWindows(), Trust: st.Trust, TrustReason: st.Reason, Counters: s.Counters,
	}
}
