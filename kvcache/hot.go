package kvcache

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"
)

// Bounds of what is remembered of prefixes that are looked up again and again: at most
// hotEntries of them, and of each the keys of at most hotDepth blocks, 4 MiB in all.
const (
	hotEntries = 128
	hotDepth   = 4096
	// hotHalfLife is the time after which a lookup counts for half.
	hotHalfLife = time.Minute
	// hotGrowth is how far weights may grow, as a power of two, before all are scaled down.
	hotGrowth = 500
	// hotSame: of a prefix that goes on in the same way in so many of its lookups only the
	// continuation is worth telling.
	hotSame = 0.9
	// hotGone is the weight, in requests of now, below which a prefix is forgotten.
	hotGone = 1.0 / 32
)

// HotPrefix is a beginning that prompts have had in common lately.
type HotPrefix struct {
	// Key is that of its last block.
	Key Key
	// Blocks is its length; of a longer one than 4,096 blocks the start.
	Blocks int
	// Lookups are the recent calls of Note for prompts of which some owner held all of it:
	// one of a minute ago counts for half.
	Lookups float64
	// Hits are what each owner that was asked for holds of it now.
	Hits []Hit
}

// hotSet counts which prefixes requests find. It is a table of the heaviest: what is new
// takes the place of what has been found least.
type hotSet struct {
	mu      sync.Mutex
	epoch   time.Time // when a lookup weighed 1
	entries []hotEntry
	keys    [][]Key // of entries
}

type hotEntry struct {
	last   Key
	blocks int
	weight float64
}

// HotPrefixes returns up to n prefixes of prompts of which requests have lately found most
// blocks, with what each of owners holds of them, the hottest first. Where nearly all
// requests with a prefix go on alike, only the longer one is returned. What is asked for
// here is not kept for longer because of it.
//
// The index begins to count with the first call, which returns nothing; from then on
// [Index.Note] counts. It costs at most 4 MiB beside Options.MaxBytes. Keys are hashes, but
// who knows a prompt can tell whether its key is there.
func (x *Index) HotPrefixes(owners []Owner, n int) []HotPrefix {
	h := x.hot.Load()
	if h == nil {
		x.hot.CompareAndSwap(nil, &hotSet{epoch: x.opts.Now()})
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []HotPrefix
	one := h.unit(x.opts.Now())
	h.forget(one * hotGone)
	for _, i := range h.top(n) {
		e := &h.entries[i]
		p := HotPrefix{Key: e.last, Blocks: e.blocks, Lookups: e.weight / one, Hits: make([]Hit, len(owners))}
		x.lookUp(h.keys[i], owners, p.Hits, false)
		out = append(out, p)
	}
	return out
}

// Note counts a request for [Index.HotPrefixes]: keys are its prompt's, hits what Match
// found of them. Call it once for each request that is served, however often it was
// looked up before. It takes up to a microsecond, and nothing before the first call of
// HotPrefixes; it does not count while another is being counted.
func (x *Index) Note(keys []Key, hits []Hit) {
	if h := x.hot.Load(); h != nil {
		h.note(keys, hits, x.opts.Now())
	}
}

// note counts a request by the longest part of the prompt that anybody holds. Whoever
// finds the set in use goes on.
func (h *hotSet) note(keys []Key, hits []Hit, now time.Time) {
	n := 0
	for i := range hits {
		n = max(n, int(hits[i].Blocks))
	}
	n = min(n, hotDepth, len(keys))
	if n == 0 || !h.mu.TryLock() {
		return
	}
	defer h.mu.Unlock()
	one := h.unit(now)
	known, least := false, 0
	for i := range h.entries {
		e := &h.entries[i]
		if e.blocks <= n && keys[e.blocks-1] == e.last {
			e.weight += one
			known = known || e.blocks == n
		}
		if e.weight < h.entries[least].weight {
			least = i
		}
	}
	if known {
		return
	}
	if len(h.entries) < hotEntries {
		least = len(h.entries)
		h.entries, h.keys = append(h.entries, hotEntry{}), append(h.keys, nil)
	}
	h.entries[least] = hotEntry{last: keys[n-1], blocks: n, weight: one}
	h.keys[least] = append(h.keys[least][:0], keys[:n]...)
}

// unit is what a lookup weighs now. Later ones weigh more, instead of all before less.
func (h *hotSet) unit(now time.Time) float64 {
	grown := now.Sub(h.epoch).Seconds() / hotHalfLife.Seconds()
	if grown > hotGrowth {
		scale := math.Exp2(-grown)
		for i := range h.entries {
			h.entries[i].weight *= scale
		}
		h.epoch, grown = now, 0
	}
	return math.Exp2(max(grown, -hotGrowth)) // a clock may be set back
}

// forget lets go of entries that weigh less than least.
func (h *hotSet) forget(least float64) {
	n := 0
	for i := range h.entries {
		if h.entries[i].weight < least {
			continue
		}
		h.entries[n], h.keys[n] = h.entries[i], h.keys[i]
		n++
	}
	clear(h.keys[n:])
	h.entries, h.keys = h.entries[:n], h.keys[:n]
}

// top returns the places of the n entries that are worth most, in order.
func (h *hotSet) top(n int) []int {
	var places []int
	for i := range h.entries {
		if !h.continued(i) {
			places = append(places, i)
		}
	}
	worth := func(i int) float64 { return h.entries[i].weight * float64(h.entries[i].blocks) }
	slices.SortFunc(places, func(a, b int) int {
		return cmp.Or(cmp.Compare(worth(b), worth(a)), cmp.Compare(h.entries[a].last, h.entries[b].last))
	})
	return places[:min(max(n, 0), len(places))]
}

// continued reports whether nearly all lookups of entry i are those of a longer one.
func (h *hotSet) continued(i int) bool {
	e := &h.entries[i]
	for j := range h.entries {
		o := &h.entries[j]
		if o.blocks > e.blocks && h.keys[j][e.blocks-1] == e.last && o.weight >= hotSame*e.weight {
			return true
		}
	}
	return false
}
