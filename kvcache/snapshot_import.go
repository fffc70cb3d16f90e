package kvcache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
)

// ImportStats says what became of a snapshot.
type ImportStats struct {
	// Owners whose blocks were taken over.
	Owners int
	// Unknown are owners of the snapshot that have not joined, or had groups of other
	// than full attention, as older versions wrote them.
	Unknown int
	// Kept are owners whose own events, or whose trust, say more than a snapshot.
	Kept int
	// Pairs are the (owner, block) residencies taken over.
	Pairs int
	// Dropped are those that were not: for want of memory, or because events of
	// their owner came meanwhile.
	Dropped int
}

// Import takes over what a snapshot says about owners that joined already, so
// that a new replica need not start cold. find returns the owner that a name of
// the snapshot means here, and zero if there is none any more; nth tells apart
// owners of one name, from 0 in the order in which they joined. A nil find looks
// for the nth owner that joined x under that name. find is called without the
// lock, and may call Join.
//
// Events win. An owner keeps what it has if any event of it has been applied
// since it joined or Clear was called, or if it is [Exact]; if one comes during
// the import, the rest of the owner's blocks is dropped. So import first and
// follow events then. What is taken over may be out of date, as the engine may
// have removed any of it since: it is never to be trusted. Import gives trust to
// nobody, but makes a [Blind] owner [Approximate]. An owner that it took over as a
// whole has the [Position] that the snapshot gives it, by which a follower can prove
// that it still holds.
//
// Nothing is evicted for a snapshot. Near the budget the rest is dropped, those
// blocks first that had not been matched lately when the snapshot was taken.
//
// A snapshot that is damaged, of another version or no snapshot is refused with
// one of the ErrSnapshot errors before anything changes. It is read twice or
// more: if r cannot seek, it is held in memory, up to [Options.MaxBytes]. If it
// changes between readings, Import stops there with an error, and what it took
// over stays. Importing takes 64 KiB beyond that and, within the budget, about 10
// bytes for each block. Others wait for the lock for at most some milliseconds.
// One Import runs at a time.
func (x *Index) Import(r io.Reader, find func(name string, nth int) Owner) (ImportStats, error) {
	x.importing.Lock()
	defer x.importing.Unlock()
	rewind, err := snapSource(r, x.opts.MaxBytes)
	if err != nil {
		return ImportStats{}, err
	}
	im := snapImport{x: x, find: find}
	if find == nil {
		im.find = x.findNamesake()
	}
	if err := im.pass(rewind, 0); err != nil { // checks everything, changes nothing
		return ImportStats{}, err
	}
	if len(im.owners) == 0 {
		return im.stats, nil
	}
	x.startPlaces()
	defer x.endPlaces()
	for _, kind := range []byte{snapHot, snapCold} {
		if err := im.pass(rewind, kind); err != nil {
			return im.stats, err
		}
	}
	im.place()
	return im.stats, nil
}

// snapSource returns what starts reading from the beginning.
func snapSource(r io.Reader, most int64) (func() (io.Reader, error), error) {
	if s, ok := r.(io.Seeker); ok {
		if at, err := s.Seek(0, io.SeekCurrent); err == nil {
			return func() (io.Reader, error) {
				if _, err := s.Seek(at, io.SeekStart); err != nil {
					return nil, fmt.Errorf("kvcache: read snapshot again: %w", err)
				}
				return r, nil
			}, nil
		}
	}
	var all bytes.Buffer
	// What is no snapshot should not be read to its end to find out.
	n, err := io.CopyN(&all, r, int64(snapHeaderSize))
	if err == nil {
		if bad := checkSnapHeader(all.Bytes()); bad != nil {
			return nil, bad
		}
		n, err = io.CopyN(&all, r, min(most, math.MaxInt64-1)+1)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("kvcache: read snapshot: %w", err)
	}
	if n > most {
		return nil, ErrSnapshotTooLarge
	}
	return func() (io.Reader, error) { return bytes.NewReader(all.Bytes()), nil }, nil
}

// findNamesake finds owners by name, as they are now.
func (x *Index) findNamesake() func(name string, nth int) Owner {
	byName := map[string][]Owner{}
	list := x.namesakes()
	for i := range list {
		name := x.OwnerStats(list[i].owner).Name
		byName[name] = append(byName[name], list[i].owner)
	}
	return func(name string, nth int) Owner {
		if owners := byName[name]; nth < len(owners) {
			return owners[nth]
		}
		return Owner{}
	}
}

// snapImport is one import.
type snapImport struct {
	x      *Index
	find   func(name string, nth int) Owner
	owners []importOwner // as they come in the snapshot
	piece  snapPiece
	stats  ImportStats
}

// importOwner is an owner of the snapshot.
type importOwner struct {
	owner Owner
	// met: owner has been looked up. left: it is unknown or has use for none of
	// it. taken: some was taken over. over: nothing more will be.
	met, left, taken, over bool
	position               Position
	placed                 bool
}

// pass reads the snapshot once. With kind 0 it only checks it; otherwise it takes
// over the blocks of that kind.
func (im *snapImport) pass(rewind func() (io.Reader, error), kind byte) error {
	r, err := rewind()
	if err != nil {
		return err
	}
	d, err := newSnapReader(r)
	if err != nil {
		return err
	}
	var info snapOwnerInfo
	var pairs uint64
	n := -1
	for {
		k, p, err := d.next()
		switch {
		case err != nil:
			return err
		case k == snapEnd:
			if pairs != d.pairs {
				return snapCorrupt("the number of blocks is wrong")
			}
			return nil
		case k == snapOwner:
			if info, err = decodeSnapOwner(p, d.version); err != nil {
				return err
			}
			if n++; kind == 0 {
				if n == slotsMax {
					return snapCorrupt("there are too many owners")
				}
				im.owners = append(im.owners, importOwner{})
			} else if n == len(im.owners) {
				return snapCorrupt("it changed while it was read")
			}
			if kind != 0 {
				im.meet(&im.owners[n], &info)
			}
		case (k == snapHot || k == snapCold) && n >= 0:
			var o *importOwner
			if k == kind {
				o = &im.owners[n]
			}
			some, err := im.blocks(p, &info, o)
			if err != nil {
				return err
			}
			pairs += uint64(some)
		default:
			return snapCorrupt("a section is out of place")
		}
	}
}

// meet finds out whom an owner of the snapshot means and whether that one has use
// for it.
func (im *snapImport) meet(o *importOwner, info *snapOwnerInfo) {
	if o.met {
		return
	}
	o.met = true
	o.owner = im.find(info.name, info.nth)
	x := im.x
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.owner(o.owner)
	o.left = true
	switch {
	case s == nil:
		im.stats.Unknown++
	case len(info.other) > 0: // without what its windows hold, nothing can be said
		im.stats.Unknown++
	case s.events > 0 || s.blockSize != 0 || s.isHybrid() || x.trustOf(s) == Exact:
		im.stats.Kept++
	default:
		o.left, o.position, o.placed = false, info.position, info.placed
		if info.placed { // else its first blocks will do
			im.taker(o, info)
		}
	}
}

// place gives those that were taken over as a whole their positions.
func (im *snapImport) place() {
	x := im.x
	for i := range im.owners {
		o := &im.owners[i]
		if o.left || !o.placed || !o.taken {
			continue
		}
		x.mu.Lock()
		if s := im.taker(o, nil); s != nil {
			s.position, s.placed, s.tracked = o.position, true, true
		}
		x.mu.Unlock()
	}
}

// blocks reads one section of blocks and, if o is not nil, takes it over. It
// returns how many pairs there are.
func (im *snapImport) blocks(p []byte, info *snapOwnerInfo, o *importOwner) (int, error) {
	var s *owner
	if o != nil && !o.left {
		im.x.mu.Lock()
		defer im.x.mu.Unlock()
		s = im.taker(o, info)
	}
	pairs := 0
	for f := (snapFields{p: p}); len(f.p) > 0; {
		if !im.piece.decode(&f, info.groups()) {
			return 0, snapCorrupt("blocks make no sense")
		}
		held := im.piece.held()
		pairs += held
		if o == nil || o.left {
			continue
		}
		took := 0
		if s != nil {
			took = im.x.takePiece(s, info, &im.piece)
		}
		im.stats.Pairs += took
		im.stats.Dropped += held - took
	}
	return pairs, nil
}

// held is how many of the piece's blocks are held.
func (s *snapPiece) held() int {
	n, from := 0, 0
	for _, end := range s.blocks {
		if end > from {
			n++
		}
		from = end
	}
	return n
}

// taker returns the owner to give blocks to, nil if its events have overtaken
// the snapshot or it left.
func (im *snapImport) taker(o *importOwner, info *snapOwnerInfo) *owner {
	x := im.x
	s := x.owner(o.owner)
	if o.over || s == nil || s.events > 0 || x.trustOf(s) == Exact {
		o.over = true
		return nil
	}
	if o.taken {
		return s
	}
	o.taken = true
	im.stats.Owners++
	s.blockSize = info.blockSize
	x.slots.Load().size[s.slot].Store(int64(info.blockSize))
	for _, g := range info.full {
		x.addGroup(s, g)
	}
	if s.lost = info.lost; s.lost.any() {
		x.slots.Load().short[s.slot].Store(uint32(s.lost.why))
	}
	if x.trustOf(s) == Blind {
		x.stand(s, Standing{Approximate, reasonSnapshot})
	}
	return s
}
