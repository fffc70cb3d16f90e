package kvcache

// A block that is no head is found through the one before it, which a snapshot
// need not have. So while one is imported, a table finds such blocks by key.

// placesStep is how many runs are looked at under one lock.
const placesStep = 256

// startPlaces makes the table. Blocks that come while it is being made are noted
// as they come.
func (x *Index) startPlaces() {
	x.mu.Lock()
	x.places = &engineTable{}
	x.mu.Unlock()
	for id, more := uint32(1), true; more; {
		x.mu.Lock()
		for range placesStep {
			if more = id <= x.topRun && x.places != nil; !more {
				break
			}
			for off := 1; off < x.run(id).len(); off++ {
				ref := refOf(id, off)
				x.notePlace(ref, x.keyAt(ref))
			}
			id++
		}
		x.mu.Unlock()
	}
}

func (x *Index) endPlaces() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.dropPlaces()
}

func (x *Index) dropPlaces() {
	if x.places != nil {
		x.places.drop(&x.mem)
		x.places = nil
	}
}

// notePlace remembers where a block is that is no head. Without memory for that
// the import ends.
func (x *Index) notePlace(ref uint32, key Key) {
	if x.places != nil && !x.places.insert(&x.mem, tagOf(EngineHash(key)), ref) {
		x.dropPlaces()
	}
}

// placeOf is locate for a block whose parent may be elsewhere or unknown.
func (x *Index) placeOf(parent uint32, key Key, want int) uint32 {
	if parent != 0 && parent&(runMax-1) != runMax-1 && x.present(parent+1, key) {
		return parent + 1
	}
	if x.findHead(key) == 0 && x.places != nil {
		p := x.places.find(tagOf(EngineHash(key)))
		for ref := p.next(); ref != 0; ref = p.next() {
			if x.present(ref, key) {
				return ref
			}
		}
	}
	return x.locate(parent, key, want)
}

// takePiece gives s what a snapshot says it holds of a run, as far as there is
// room, and returns how many blocks that is.
func (x *Index) takePiece(s *owner, info *snapOwnerInfo, p *snapPiece) int {
	took, from, done := 0, 0, 0
	var ref uint32
	for i, key := range p.keys {
		left := len(p.keys) - i
		if i%batchBlocks == 0 && !x.room(min(batchBlocks, left)) || x.mem.used+roomBytes/2 > x.mem.max ||
			x.places == nil {
			break
		}
		hashes := p.hashes[from:p.blocks[i]]
		// Before the block has its place, as this may let go of blocks that
		// nobody holds.
		for j := range hashes {
			_, hashes[j].known = x.lookup(s, hashes[j].hash)
		}
		last := ref >> runShift
		if ref = x.placeOf(ref, key, left); ref == 0 {
			break
		}
		if last != 0 && last != ref>>runShift {
			x.settle(last)
		}
		held := x.hashedAt(s, ref)
		n, ok := 0, true
		for j := range hashes {
			if ok = hashes[j].known || x.takeHash(s, info, p, from+j, ref, left); !ok {
				break
			}
			n += b2i(!hashes[j].known)
			done++
		}
		took += b2i(n > 0 && !held) // held: it came before, in another piece
		from = p.blocks[i]
		if !ok {
			break
		}
	}
	x.flush()
	x.loseRest(s, info, p, done)
	if id := ref >> runShift; id != 0 {
		x.settle(id)
		if r := x.run(id); r.len() > 0 {
			r.warm(min(r.len(), p.warm))
		}
	}
	return took
}

// hashedAt reports whether s holds the block at ref by an engine's hash.
func (x *Index) hashedAt(s *owner, ref uint32) bool {
	id, off := splitRef(ref)
	return x.open(s, id, false) && x.cur.hashed(off)
}

// loseRest counts the hashes of a piece from one on as lost.
func (x *Index) loseRest(s *owner, info *snapOwnerInfo, p *snapPiece, from int) {
	for i := from; i < len(p.hashes); i++ {
		h := &p.hashes[i]
		if _, known := x.lookup(s, h.hash); known {
			continue
		}
		for t := range Tier(NumTiers) {
			if h.tiers>>t&1 != 0 {
				x.lose(s, ReasonBudget, h.hash, groupTier{s.full[0], t}, 1)
			}
		}
		if h.tiers != 0 {
			continue
		}
		for _, c := range p.copies(i) {
			for t, n := range c.n {
				x.lose(s, ReasonBudget, h.hash, groupTier{info.group(c.which), Tier(t)}, n)
			}
		}
	}
	x.flush()
}

// copies are those of a hash that has counts.
func (s *snapPiece) copies(i int) []snapCount {
	start := 0
	if i > 0 {
		start = s.hashes[i-1].end
	}
	return s.counts[start:s.hashes[i].end]
}

// takeHash makes a hash, which the owner does not know, stand for the block at
// ref. False if there is no memory.
func (x *Index) takeHash(s *owner, info *snapOwnerInfo, p *snapPiece, i int, ref uint32, want int) bool {
	h, full := &p.hashes[i], s.full[0]
	if h.tiers != 0 {
		fresh := true
		var out Outcome
		for t := range Tier(NumTiers) {
			switch gt := (groupTier{full, t}); {
			case h.tiers>>t&1 == 0:
			case !fresh:
				x.raise(s, h.hash, ref, gt, &out)
			case !x.add(s, ref, h.hash, gt, true, want):
				return false
			default:
				fresh = false
			}
		}
		return true
	}
	x.setOver(s, hashGroup{h.hash, full}, [NumTiers]uint32{})
	for _, c := range p.copies(i) {
		x.setOver(s, hashGroup{h.hash, info.group(c.which)}, c.n)
	}
	if !x.add(s, ref, h.hash, groupTier{}, false, want) {
		x.forgetCopies(s, h.hash)
		return false
	}
	return true
}
