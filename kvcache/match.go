package kvcache

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	// matchTries is how often a Match starts again after a writer moved what it
	// was reading, before it keeps writers out.
	matchTries = 8
	// slotsSmall is up to how many owners an index may have had at a time for
	// Match to keep its notes on the stack.
	slotsSmall = 512
)

// Match tells for each of owners how much of a prompt it holds. keys are the
// prompt's, from its start; hits must be as long as owners, and hits[i] is
// overwritten with what owners[i] holds: nothing for an owner that left. It
// allocates nothing, and waits for no writer unless writers move what it reads
// again and again. Each block that it counts was resident at some time during
// the call.
//
// Of a hybrid owner, one that has groups of other than full attention, the hit ends
// where all of them allow it, and where a block is not in GPU memory; looking for
// that takes the lock. A hit that ends at the prompt's last token can't be used to
// its end, and may be of no use at all then. So give the keys of (tokens-1)/blockSize
// blocks, of which the engine can use what it has.
func (x *Index) Match(keys []Key, owners []Owner, hits []Hit) {
	if due := x.due.Load(); due != 0 && x.opts.Now().UnixNano() >= due && x.mu.TryLock() {
		x.expire(expireSome)
		x.mu.Unlock()
	}
	x.lookUp(keys, owners, hits, true)
}

// lookUp is what Match does. What is looked at only to be shown is not to stay for longer
// for that: then warm is false.
func (x *Index) lookUp(keys []Key, owners []Owner, hits []Hit, warm bool) {
	if n := len(x.slots.Load().ids); n > slotsSmall {
		notes, _ := x.notes.Get().(*[]uint16)
		if notes == nil || len(*notes) < n {
			more := make([]uint16, 2*n)
			notes = &more
		}
		x.match(keys, owners, hits, *notes, warm)
		clear(*notes)
		x.notes.Put(notes)
	} else {
		var notes [slotsSmall]uint16
		x.match(keys, owners, hits, notes[:], warm)
	}
}

// match is Match with a table from slot to place in owners, plus one, all zero.
func (x *Index) match(keys []Key, owners []Owner, hits []Hit, places []uint16, warm bool) {
	hits = hits[:len(owners)]
	table := x.slots.Load()
	twice := false
	for i, o := range owners {
		slot := int(o.slot())
		if !table.is(slot, o) || slot >= len(places) {
			continue
		}
		if places[slot] != 0 {
			twice = true
			continue
		}
		places[slot] = uint16(i + 1)
	}
	ok := false
	for range matchTries {
		if ok = x.tryMatch(keys, hits, places, warm); ok {
			break
		}
	}
	if !ok {
		x.mu.Lock()
		x.tryMatch(keys, hits, places, warm)
		x.mu.Unlock()
	}
	if x.hybrids.Load() > 0 {
		x.shorten(keys, owners, hits, places)
	}
	// Who left meanwhile may have a successor in its slot.
	table = x.slots.Load()
	for i, o := range owners {
		slot := int(o.slot())
		switch {
		case !table.is(slot, o) || slot >= len(places):
			hits[i] = Hit{}
		case twice:
			hits[i] = hits[places[slot]-1]
		}
	}
}

// tryMatch reports whether it saw nothing but what belongs together.
func (x *Index) tryMatch(keys []Key, hits []Hit, places []uint16, warm bool) bool {
	clear(hits)
	for pos := 0; pos < len(keys); {
		id := x.findHead(keys[pos])
		if id == 0 {
			return true
		}
		r := x.run(id)
		head := r.head.Load()
		at := r.at.Load()
		version, length, covers := splitHead(head)
		length = min(length, len(keys)-pos)
		if length == 0 || covers == 0 {
			// The run is on its way out or in: nobody holds any of it.
			return uint32(r.head.Load()>>32) == version
		}
		words := x.arena.slice(uint32(at>>32), length)
		if words == nil {
			return false
		}
		same := commonPrefix(words, keys[pos:pos+length])
		words = x.arena.slice(uint32(at), 2*covers)
		if words == nil {
			return false
		}
		alive := x.tally(words, hits, places, pos, same)
		if uint32(r.head.Load()>>32) != version {
			return false
		}
		if warm {
			r.warm(same)
		}
		if !alive || same == 0 {
			return true
		}
		pos += same
	}
	return true
}

// tally adds to hits what covers say of the next same blocks of a prompt for
// owners that hold all pos before, and reports whether any of them holds all of
// these too.
func (x *Index) tally(covers []atomic.Uint64, hits []Hit, places []uint16, pos, same int) bool {
	alive := false
	for j := 0; j < len(covers); j += 2 {
		w := covers[j].Load()
		slot := uint16(w)
		if int(slot) >= len(places) || places[slot] == 0 {
			continue
		}
		hit := &hits[places[slot]-1]
		n := min(int(w>>coverLead&coverMask), same)
		if int(hit.Blocks) != pos || n == 0 {
			continue
		}
		if int(hit.Confirmed) == pos {
			hit.Confirmed += int32(min(int(w>>coverFirm&coverMask), n))
		}
		hit.Blocks += int32(n)
		if w>>coverGPU&1 != 0 {
			hit.Tiers[TierGPU] += int32(n)
		} else {
			x.addTiers(hit, uint32(covers[j+1].Load()), n)
		}
		alive = alive || n == same
	}
	return alive
}

// commonPrefix returns how many keys are the same. Keys are chained: where two
// are the same, so are all before.
func commonPrefix(words []atomic.Uint64, keys []Key) int {
	n := len(words)
	if Key(words[n-1].Load()) == keys[n-1] {
		return n
	}
	lo, hi := 0, n-1 // words[:lo] are the same, words[hi] is not
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if Key(words[mid].Load()) == keys[mid] {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// addTiers counts the first n blocks of a cover by their fastest tier.
func (x *Index) addTiers(hit *Hit, planes uint32, n int) {
	var counts [NumTiers]int
	if words, width := x.planesAt(planes); words != nil {
		for w := 0; w < width && w*64 < n; w++ {
			left := leadingOnes(n-64*w) &^ words[w].Load()
			for t := TierCPU; t < NumTiers; t++ {
				v := words[int(t)*width+w].Load() & left
				counts[t] += bits.OnesCount64(v)
				left &^= v
			}
		}
	}
	for t := TierCPU; t < NumTiers; t++ {
		hit.Tiers[t] += int32(counts[t])
		n -= counts[t]
	}
	hit.Tiers[TierGPU] += int32(n)
}

// planesAt returns the planes of the tiers and how many words each has. What is
// there may have been freed and be anything; then the run's version tells.
func (x *Index) planesAt(at uint32) ([]atomic.Uint64, int) {
	head := x.arena.slice(at, 1)
	if at == 0 || head == nil {
		return nil, 0
	}
	width := uint32(head[0].Load())
	if width > runMax/64 {
		return nil, 0
	}
	return x.arena.slice(at+1, NumTiers*int(width)), int(width)
}

// notePool lends slot tables to Match.
type notePool = sync.Pool
