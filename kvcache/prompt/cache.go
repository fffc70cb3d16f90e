package prompt

import (
	"container/list"
	"sync"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Sizes for the accounting of the cache, in bytes, rounded up.
const (
	entryBytes       = 320 // key, list element, map cell, slice headers
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
	order list.List // of *cached, the latest first
	byKey map[cacheKey]*list.Element
	hits  uint64
	miss  uint64
}

type cached struct {
	key  cacheKey
	enc  Encoding
	size int64
}

func newLRU(maxBytes int64) *lru {
	return &lru{max: maxBytes, byKey: map[cacheKey]*list.Element{}}
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
	el, ok := c.byKey[key]
	if !ok {
		c.miss++
		return Encoding{}, false
	}
	c.hits++
	c.order.MoveToFront(el)
	return el.Value.(*cached).enc, true //nolint:forcetypeassert // nothing else is put in
}

func (c *lru) put(key cacheKey, enc Encoding) {
	size := sizeOf(&enc)
	if size > c.max {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if el, ok := c.byKey[key]; ok {
		c.drop(el)
	}
	for c.used+size > c.max {
		c.drop(c.order.Back())
	}
	c.byKey[key] = c.order.PushFront(&cached{key: key, enc: enc, size: size})
	c.used += size
}

func (c *lru) drop(el *list.Element) {
	e := c.order.Remove(el).(*cached) //nolint:forcetypeassert // nothing else is put in
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
	c.order.Init()
	clear(c.byKey)
	c.used = 0
}

// clip drops spare capacity, so that what is cached is what is counted.
func clip(e Encoding) Encoding {
	if cap(e.Tokens) > len(e.Tokens)+len(e.Tokens)/4 {
		e.Tokens = append(make([]uint32, 0, len(e.Tokens)), e.Tokens...)
	}
	e.Tokens = e.Tokens[:len(e.Tokens):len(e.Tokens)]
	e.Items = append([]kvcache.Item(nil), e.Items...)
	return e
}
