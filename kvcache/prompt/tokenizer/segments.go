package tokenizer

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// segments remembers the ids of stretches between special tokens. A stretch tokenizes the
// same wherever it stands, so its content is its key; contents are compared on every hit,
// since whoever can make two of them share a hash must not get another's ids. A system
// prompt that many conversations of a scope share is therefore stored once.
type segments struct {
	seed   maphash.Seed
	shards [segmentShards]segmentShard
}

const (
	segmentShards   = 8
	segmentAtLeast  = 48  // bytes of a stretch that is worth the trouble
	segmentOverhead = 192 // bytes of a segment besides its text and ids, roughly
)

// segmentShard is a map with the least recently used segment at the end of a ring.
type segmentShard struct {
	mu    sync.Mutex
	byKey map[uint64]*segment
	ring  segment // its next is the latest used, its prev the one to go
	used  int64
	limit int64
}

type segment struct {
	next, prev *segment
	key        uint64
	first      bool
	scope      string
	text       string
	ids        []uint32
}

func (g *segment) size() int64 {
	return int64(len(g.scope)+len(g.text)) + 4*int64(len(g.ids)) + segmentOverhead
}

func newSegments(limit int64) *segments {
	if limit/segmentShards < segmentOverhead {
		return nil
	}
	s := &segments{seed: maphash.MakeSeed()}
	for i := range s.shards {
		h := &s.shards[i]
		h.byKey = map[uint64]*segment{}
		h.limit = limit / segmentShards
		h.ring.next, h.ring.prev = &h.ring, &h.ring
	}
	return s
}

func (s *segments) takes(text string) bool { return s != nil && len(text) >= segmentAtLeast }

func (s *segments) shard(key uint64) *segmentShard { return &s.shards[key%segmentShards] }

// get appends the ids of a known stretch to dst. The key is for put.
func (s *segments) get(dst []uint32, scope, text string, first bool) (ids []uint32, key uint64, hit bool) {
	key = maphash.String(s.seed, text)
	if scope != "" {
		key ^= bits.RotateLeft64(maphash.String(s.seed, scope), 1)
	}
	if first {
		key = ^key
	}
	h := s.shard(key)
	h.mu.Lock()
	g := h.byKey[key]
	if g != nil {
		g.unlink()
		h.front(g)
	}
	h.mu.Unlock()
	// A segment doesn't change once it is there.
	if g == nil || g.first != first || g.scope != scope || g.text != text {
		return dst, key, false
	}
	return append(dst, g.ids...), key, true
}

func (s *segments) put(key uint64, scope, text string, first bool, ids []uint32) {
	h := s.shard(key)
	g := &segment{key: key, first: first}
	if int64(len(scope)+len(text))+4*int64(len(ids))+segmentOverhead > h.limit {
		return
	}
	// Copies, so that neither the whole prompt nor its ids are kept alive.
	g.scope, g.text, g.ids = strings.Clone(scope), strings.Clone(text), slices.Clone(ids)
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.byKey[key]; old != nil {
		h.remove(old)
	}
	for h.used+g.size() > h.limit {
		h.remove(h.ring.prev)
	}
	h.byKey[key] = g
	h.used += g.size()
	h.front(g)
}

func (h *segmentShard) front(g *segment) {
	g.prev, g.next = &h.ring, h.ring.next
	g.prev.next, g.next.prev = g, g
}

func (g *segment) unlink() { g.prev.next, g.next.prev = g.next, g.prev }

func (h *segmentShard) remove(g *segment) {
	g.unlink()
	delete(h.byKey, g.key)
	h.used -= g.size()
}
