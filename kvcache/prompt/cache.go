package prompt

import (
	"slices"
	"sync"
)

// Sizes for the accounting of the cache, in bytes, rounded up.
const (
	entryBytes       = 320 // key, links, map cell, slice headers
	tokenBytes       = 4
	itemBytes        = 32
	degradationBytes = 32
)

// lru holds encodings, the least recently used of which leave first. Safe for
// concurrent use.
type lru struct {
	max int64

	mu    sync.Mutex
	used  int64
	ring  cached // its next is the latest, its prev the longest unused
	byKey map[cacheKey]*cached
	hits  uint64
	miss  uint64
}

type cached struct {
	prev, next *cached
	key        cacheKey
	enc        Encoding
	size       int64
}

func newLRU(maxBytes int64) *lru {
	c := &lru{max: maxBytes, byKey: map[cacheKey]*cached{}}
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	return c
}

func (e *cached) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

func (c *lru) pushFront(e *cached) {
	e.prev, e.next = &c.ring, c.ring.next
	e.prev.next, e.next.prev = e, e
}

func sizeOf(e *Encoding) int64 {
	n := int64(entryBytes) + tokenBytes*int64(cap(e.Tokens)) + degradationBytes*int64(cap(e.Degraded))
	for _, it := range e.Items {
		n += itemBytes + int64(len(it.ID))
	}
	return n
}

func (c *lru) get(key cacheKey) (Encoding, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		c.miss++
		return Encoding{}, false
	}
	c.hits++
	e.unlink()
	c.pushFront(e)
	return e.enc, true
}

func (c *lru) put(key cacheKey, enc Encoding) {
	size := sizeOf(&enc)
	if size > c.max {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.drop(e)
	}
	for c.used+size > c.max {
		c.drop(c.ring.prev)
	}
	e := &cached{key: key, enc: enc, size: size}
	c.byKey[key] = e
	c.pushFront(e)
	c.used += size
}

func (c *lru) drop(e *cached) {
	e.unlink()
	delete(c.byKey, e.key)
	c.used -= e.size
}

func (c *lru) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byKey) == 0
}

func (c *lru) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring.prev, c.ring.next = &c.ring, &c.ring
	clear(c.byKey)
	c.used = 0
}

// clip drops spare capacity, so that what is cached is what is counted.
func clip(e Encoding) Encoding {
	if cap(e.Tokens) > len(e.Tokens)+len(e.Tokens)/4 {
		e.Tokens = slices.Clone(e.Tokens)
	}
	e.Tokens = slices.Clip(e.Tokens)
	return e
}
