package classify

import (
	"encoding/binary"
	"hash/maphash"
	"sync"

	"github.com/kvsteer/kvsteer/policy"
)

// cache remembers what classifiers said about messages. What was not asked for
// while half of its memory was filled anew is forgotten. It holds digests, states,
// counts and offsets, no text.
type cache struct {
	seeds [2]maphash.Seed // of this process: nobody outside can make two texts meet
	half  int             // bytes that each of the two maps may take

	mu            sync.Mutex
	recent, older map[cacheKey]verdict
	size          int // bytes of recent
}

// cacheKey stands for a message and the classifier that was asked about it.
type cacheKey struct {
	digest [2]uint64
	member int32
}

// verdict is what a classifier said about a message.
type verdict struct {
	states   uint64 // two bits for each of its tags
	findings []Finding
}

const (
	bitsPerState = 2
	// mostTags is how many tags of one classifier a verdict has room for.
	mostTags = 64 / bitsPerState
	// What an entry of a map takes, and what a finding and a place in it take beyond
	// that, in bytes. They are measured on 64 bits.
	entryBytes, findingBytes, placeBytes = 160, 72, 16
)

func newCache(bytes int) *cache {
	return &cache{
		seeds:  [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		half:   bytes / 2,
		recent: make(map[cacheKey]verdict),
	}
}

// digest is a keyed hash of 128 bits of a message: its texts and their roles, with
// their lengths.
func (c *cache) digest(parts []Part) (d [2]uint64) {
	for k, seed := range c.seeds {
		if len(parts) == 1 { // the usual case, without the copying that a Hash does
			d[k] = maphash.Bytes(seed, parts[0].Text) ^ maphash.String(seed, parts[0].Role)<<1
			continue
		}
		var h maphash.Hash
		h.SetSeed(seed)
		for i := range parts {
			head := uint64(len(parts[i].Text)) << 1
			if parts[i].aside {
				head |= 1
			}
			var b [16]byte
			binary.LittleEndian.PutUint64(b[:8], head)
			binary.LittleEndian.PutUint64(b[8:], uint64(len(parts[i].Role)))
			_, _ = h.Write(b[:]) // it never fails
			_, _ = h.WriteString(parts[i].Role)
			_, _ = h.Write(parts[i].Text)
		}
		d[k] = h.Sum64()
	}
	return d
}

func (c *cache) get(k cacheKey) (verdict, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.recent[k]
	if ok {
		return v, true
	}
	if v, ok = c.older[k]; ok {
		c.put(k, v)
	}
	return v, ok
}

func (c *cache) add(k cacheKey, v verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(k, v)
}

// put is called with the lock held.
func (c *cache) put(k cacheKey, v verdict) {
	size := entryBytes
	for i := range v.findings {
		size += findingBytes + placeBytes*len(v.findings[i].First) + len(v.findings[i].Kind)
	}
	if size > c.half {
		return
	}
	if c.size+size > c.half {
		c.recent, c.older, c.size = make(map[cacheKey]verdict), c.recent, 0
	}
	if _, ok := c.recent[k]; !ok {
		c.size += size
	}
	c.recent[k] = v
}

// verdictOf packs a result, if it speaks of all tags.
func verdictOf(tags []string, r *Result) (verdict, bool) {
	var v verdict
	for i, tag := range tags {
		if !r.has(tag) {
			return v, false
		}
		v.states |= uint64(r.State(tag)) << (bitsPerState * i)
	}
	for i := range r.Findings {
		f := r.Findings[i]
		f.First = append([]Place(nil), f.First[:min(len(f.First), MaxPlaces)]...)
		v.findings = append(v.findings, f)
	}
	return v, true
}

func (v verdict) state(i int) policy.TagState {
	return policy.TagState(v.states >> (bitsPerState * i) & (1<<bitsPerState - 1))
}
