package bpe

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync/atomic"
)

const (
	maxWord   = 96 // bytes of a word that is cached
	maxIDs    = 48
	entrySize = 448 // bytes that a cached word takes at the most, slot included
)

// cache remembers words. Every slot is an atomic pointer to an immutable entry, so reads
// and writes need no lock; a word may be in either of two slots. A word is stored when it
// is seen for the second time, so that words that never come back cost no memory.
type cache struct {
	seed  maphash.Seed
	slots []atomic.Pointer[entry]
	seen  []atomic.Uint32 // by slot, a part of the hash of the latest word that missed
}

type entry struct {
	word []byte
	ids  []uint32
	kind uint8
}

// newCache makes a cache of at most so many bytes, nil if that is too little.
func newCache(size int64) *cache {
	slots := size / entrySize
	if slots < 2 {
		return nil
	}
	n := 2
	const most = 1 << 20
	for int64(2*n) <= slots && n < most {
		n *= 2
	}
	return &cache{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[entry], n), seen: make([]atomic.Uint32, n)}
}

func (c *cache) takes(word []byte) bool { return c != nil && len(word) <= maxWord }

// get appends the ids of a cached word to dst.
func (c *cache) get(dst []uint32, word []byte, kind uint8) ([]uint32, uint64, bool) {
	hash := maphash.Bytes(c.seed, word) + uint64(kind)
	i := int(hash) & (len(c.slots) - 1)
	e := c.slots[i].Load()
	if e == nil || e.kind != kind || !bytes.Equal(e.word, word) {
		if e = c.slots[i^1].Load(); e == nil || e.kind != kind || !bytes.Equal(e.word, word) {
			return dst, hash, false
		}
	}
	return append(dst, e.ids...), hash, true
}

func (c *cache) put(hash uint64, word []byte, ids []uint32, kind uint8) {
	if len(ids) > maxIDs {
		return
	}
	i := int(hash) & (len(c.slots) - 1)
	mark := uint32(hash >> 32)
	if c.seen[i].Swap(mark) != mark {
		return
	}
	if c.slots[i].Load() != nil && (c.slots[i^1].Load() == nil || hash>>63 != 0) {
		i ^= 1
	}
	c.slots[i].Store(&entry{bytes.Clone(word), slices.Clone(ids), kind})
}
