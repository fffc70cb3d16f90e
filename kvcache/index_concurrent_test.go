package kvcache_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// chainEvents makes the Stored events of one prompt, n blocks in each.
func chainEvents(tokens []uint32, size, n int, salt uint64) []kvcache.Event {
	var events []kvcache.Event
	var parent kvcache.EngineHash
	blocks := len(tokens) / size
	keys := kvcache.Hasher{BlockSize: size}.Keys(nil, tokens, kvcache.Scope{}, nil)
	for from := 0; from < blocks; from += n {
		to := min(from+n, blocks)
		e := kvcache.Event{
			Kind: kvcache.Stored, BlockSize: size, Tokens: tokens[from*size : to*size],
			Parent: parent, HasParent: from > 0, Hashes: make([]kvcache.EngineHash, to-from),
		}
		for i := range e.Hashes {
			e.Hashes[i] = kvcache.EngineHash((uint64(keys[from+i]) ^ salt) * 0x9e3779b97f4a7c15)
		}
		parent = e.Hashes[to-from-1]
		events = append(events, e)
	}
	return events
}

// Readers run beside writers that append to, cut, branch off, evict, move and
// drop everything but a stretch that one owner keeps, every third block of it in
// CPU memory. What a reader sees must at all times be something that was true: of
// the stretch, all; of the rest, no more than ever existed, and of one piece.
func TestMatchBesideWriters(t *testing.T) {
	t.Parallel()
	const size, kept, length, owners, keeper = 4, 700, 1400, 6, 3
	x := kvcache.NewIndex(kvcache.Options{MaxBytes: 6 << 20})
	r := rand.New(rand.NewPCG(7, 8))
	main := randomTokens(r, length*size)
	keys := kvcache.Hasher{BlockSize: size}.Keys(nil, main, kvcache.Scope{}, nil)
	all := make([]kvcache.Owner, owners)
	for i := range all {
		all[i] = x.Join("o")
	}
	// The others come first, so that the keeper's place moves when they go.
	for _, o := range all {
		n := kept
		if o != all[keeper] {
			n = 10
		}
		for _, e := range chainEvents(main[:n*size], size, 100, o.ID()) {
			x.Apply(o, &e)
			if o == all[keeper] {
				for i := 0; i < len(e.Hashes); i += 3 {
					x.Apply(o, &kvcache.Event{Kind: kvcache.Stored, Hashes: e.Hashes[i : i+1], Tier: kvcache.TierCPU})
					x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: e.Hashes[i : i+1]})
				}
			}
		}
	}
	want := kvcache.Hit{Blocks: kept, Confirmed: kept}
	want.Tiers[kvcache.TierCPU] = kept / 100 * 34
	want.Tiers[kvcache.TierGPU] = kept - want.Tiers[kvcache.TierCPU]
	var stop atomic.Bool
	var writers, readers sync.WaitGroup
	for w := range owners {
		if w == keeper {
			continue
		}
		writers.Go(func() {
			r := rand.New(rand.NewPCG(9, uint64(w)))
			for range 60 {
				o := all[w]
				cut := r.IntN(length)
				events := chainEvents(main[:cut*size], size, 1+r.IntN(60), uint64(w))
				for i := range events {
					x.Apply(o, &events[i])
				}
				branch := append(append([]uint32{}, main[:cut*size]...), randomTokens(r, 40*size)...)
				for _, e := range chainEvents(branch, size, 16, uint64(w))[cut/16:] {
					x.Apply(o, &e)
				}
				x.Book(o, keys[:r.IntN(length)], time.Duration(r.IntN(int(time.Millisecond))))
				for i := len(events) - 1; i >= 0 && r.IntN(10) > 0; i-- {
					x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: events[i].Hashes})
				}
				if len(events) > 0 && r.IntN(2) == 0 {
					e := events[r.IntN(len(events))]
					x.Apply(o, &kvcache.Event{Kind: kvcache.Stored, Hashes: e.Hashes, Tier: kvcache.TierCPU})
					x.Apply(o, &kvcache.Event{Kind: kvcache.Removed, Hashes: e.Hashes})
				}
				if r.IntN(8) == 0 {
					x.Clear(o)
				}
				if r.IntN(4) == 0 {
					x.Shuffle(w)
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			hits := make([]kvcache.Hit, owners)
			for !stop.Load() {
				x.Match(keys, all, hits)
				for i, h := range hits {
					var sum int32
					for _, n := range h.Tiers {
						sum += n
					}
					if h.Blocks < 0 || int(h.Blocks) > length || h.Confirmed > h.Blocks || h.Confirmed < 0 || sum != h.Blocks {
						t.Errorf("owner %d: %+v", i, h)
						return
					}
				}
				if hits[keeper] != want {
					t.Errorf("kept %+v, see %+v", want, hits[keeper])
					return
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	require.NoError(t, x.Check())
	for _, o := range all {
		x.Leave(o)
	}
	s := x.Stats()
	assert.Zero(t, s.Blocks)
	assert.Zero(t, s.Pairs)
	assert.Zero(t, s.Provisional)
	assert.Less(t, s.Bytes, int64(1<<20), "memory of owners that left")
}
