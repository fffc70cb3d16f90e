package sim

// none ends a list of blocks.
const none = int32(-1)

// block is one physical KV block.
type block struct {
	hash uint64
	// refs counts the requests that hold the block. A block without any is on the
	// free list and can be reused; until then its content can be hit.
	refs int32
	// prev and next link the free list, in order of eviction.
	prev, next int32
	// twin links further blocks with the same hash.
	twin   int32
	hashed bool
	free   bool
}

// pool is the paged memory and the prefix cache in it: which blocks are free, in
// which order they are evicted, and which hash lies where.
type pool struct {
	blocks     []block
	first      int32
	last       int32
	free       int
	byHash     map[uint64]int32
	duplicates int
	log        eventLog
}

func newPool(blocks int, noEvents bool) *pool {
	p := &pool{
		blocks: make([]block, blocks),
		first:  none,
		last:   none,
		byHash: make(map[uint64]int32),
		log:    eventLog{off: noEvents},
	}
	for i := range p.blocks {
		p.blocks[i].twin = none
		p.pushBack(int32(i))
	}
	return p
}

func (p *pool) pushBack(i int32) {
	b := &p.blocks[i]
	b.free, b.prev, b.next = true, p.last, none
	if p.last == none {
		p.first = i
	} else {
		p.blocks[p.last].next = i
	}
	p.last = i
	p.free++
}

func (p *pool) pushFront(i int32) {
	b := &p.blocks[i]
	b.free, b.prev, b.next = true, none, p.first
	if p.first == none {
		p.last = i
	} else {
		p.blocks[p.first].prev = i
	}
	p.first = i
	p.free++
}

func (p *pool) unlink(i int32) {
	b := &p.blocks[i]
	if b.prev == none {
		p.first = b.next
	} else {
		p.blocks[b.prev].next = b.next
	}
	if b.next == none {
		p.last = b.prev
	} else {
		p.blocks[b.next].prev = b.prev
	}
	b.free = false
	p.free--
}

// lookup returns a resident block with the given hash.
func (p *pool) lookup(hash uint64) (int32, bool) {
	i, ok := p.byHash[hash]
	return i, ok
}

// touch takes a reference to a block that was found by lookup.
func (p *pool) touch(i int32) {
	b := &p.blocks[i]
	if b.free {
		p.unlink(i)
	}
	b.refs++
}

// take evicts the block that is first in line and returns it with one reference.
// The caller has checked that there is one.
func (p *pool) take() int32 {
	i := p.first
	p.unlink(i)
	if p.blocks[i].hashed {
		hash := p.blocks[i].hash
		p.forget(i)
		p.log.removed(hash)
	}
	p.blocks[i].refs = 1
	return i
}

// release gives a reference back. Blocks of a chain are released from the tail:
// what is released first is evicted first. A block without a hash can serve
// nobody, so it goes before all others.
func (p *pool) release(i int32) {
	b := &p.blocks[i]
	b.refs--
	if b.refs > 0 {
		return
	}
	if b.hashed {
		p.pushBack(i)
	} else {
		p.pushFront(i)
	}
}

// register makes a block reusable under hash. If another one has that hash
// already, both keep it, as vLLM does.
func (p *pool) register(i int32, hash uint64) {
	b := &p.blocks[i]
	b.hash, b.hashed, b.twin = hash, true, none
	head, exists := p.byHash[hash]
	if !exists {
		p.byHash[hash] = i
		return
	}
	b.twin = p.blocks[head].twin
	p.blocks[head].twin = i
	p.duplicates++
}

// forget drops a block's hash.
func (p *pool) forget(i int32) {
	b := &p.blocks[i]
	head := p.byHash[b.hash]
	switch {
	case head != i:
		for p.blocks[head].twin != i {
			head = p.blocks[head].twin
		}
		p.blocks[head].twin = b.twin
		p.duplicates--
	case b.twin != none:
		p.byHash[b.hash] = b.twin
		p.duplicates--
	default:
		delete(p.byHash, b.hash)
	}
	b.hashed, b.twin = false, none
}

// reset drops every hash. It refuses while a request holds a block.
func (p *pool) reset() bool {
	if p.free != len(p.blocks) {
		return false
	}
	for i := range p.blocks {
		p.blocks[i].hashed, p.blocks[i].twin = false, none
	}
	clear(p.byHash)
	p.duplicates = 0
	p.log.add(Event{Kind: AllBlocksCleared})
	return true
}

// hits returns how many leading blocks of a chain a request over n tokens can
// reuse: consecutive resident ones, never the last token's block, since at least
// one token must be computed to sample from; with speculative decoding one block
// less, as the draft model needs the last one's hidden states.
func (p *pool) hits(hashes []uint64, n, blockSize int, speculative bool) int {
	limit := min((n-1)/blockSize, len(hashes))
	found := 0
	for found < limit {
		if _, ok := p.byHash[hashes[found]]; !ok {
			break
		}
		found++
	}
	if speculative && found > 0 {
		found--
	}
	return found
}
