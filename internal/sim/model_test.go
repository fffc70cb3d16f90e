package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

// replica is a naive copy of the cache built from events alone.
type replica map[uint64]int

func (r replica) apply(t *testing.T, events []Event) {
	t.Helper()
	for _, event := range events {
		switch event.Kind {
		case BlockStored:
			for _, hash := range event.Hashes {
				r[hash]++
			}
			if want := len(event.Hashes) * event.BlockSize; event.Tokens != nil && len(event.Tokens) != want {
				t.Fatalf("%d tokens for %d blocks", len(event.Tokens), len(event.Hashes))
			}
		case BlockRemoved:
			for _, hash := range event.Hashes {
				if r[hash] == 0 {
					t.Fatalf("block %x removed but not there", hash)
				}
				if r[hash]--; r[hash] == 0 {
					delete(r, hash)
				}
			}
		case AllBlocksCleared:
			clear(r)
		}
	}
}

// check compares the replica with the engine's cache, and the engine with its
// own bounds.
func (r replica) check(t *testing.T, e *Engine) {
	t.Helper()
	copies := 0
	e.Cached(func(hash uint64, n int) bool {
		copies += n
		if r[hash] != n {
			t.Fatalf("block %x: %d copies cached, events say %d", hash, n, r[hash])
		}
		return true
	})
	if len(r) != e.CachedBlocks() {
		t.Fatalf("events leave %d blocks, the cache holds %d", len(r), e.CachedBlocks())
	}
	if copies > e.cfg.Blocks || e.UsedBlocks() > e.cfg.Blocks || e.pool.free < 0 {
		t.Fatalf("%d cached and %d held of %d blocks", copies, e.UsedBlocks(), e.cfg.Blocks)
	}
	listed := 0
	for i := e.pool.first; i != none; i = e.pool.blocks[i].next {
		listed++
	}
	held := map[int32]int32{}
	for _, request := range e.running {
		for _, i := range request.blocks {
			held[i]++
		}
	}
	for i := range e.pool.blocks {
		if b := &e.pool.blocks[i]; b.refs != held[int32(i)] || b.free != (b.refs == 0) {
			t.Fatalf("block %d: %d references, %d holders, free %v", i, b.refs, held[int32(i)], b.free)
		}
	}
	if listed != e.pool.free {
		t.Fatalf("%d blocks on the free list, %d counted", listed, e.pool.free)
	}
}

// randomRun drives an engine at random and returns a digest of all it did.
func randomRun(t *testing.T, cfg Config, seed uint64) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	e := newEngine(t, cfg)
	digest := fnv.New64a()
	seen := replica{}
	var live []*Request
	for range 400 {
		switch action := rng.IntN(10); {
		case action < 3:
			// Prompts branch off a few common chains at a random block.
			common, own := rng.IntN(12), rng.IntN(12)
			hashes := append(hashesFor(uint64(rng.IntN(3)), common), hashesFor(100+rng.Uint64N(1000), own)...)
			prompt := 1 + rng.IntN(len(hashes)*e.cfg.BlockSize+8)
			r := &Request{Prompt: prompt, Output: 1 + rng.IntN(40), Hashes: hashes}
			if rng.IntN(4) == 0 {
				r.Remote = rng.IntN(prompt + 5)
			}
			r.Tokens = make([]uint32, len(hashes)*e.cfg.BlockSize)
			if err := e.Submit(r); err == nil {
				live = append(live, r)
			}
		case action == 3 && len(live) > 0:
			e.Cancel(live[rng.IntN(len(live))])
		case action == 4 && rng.IntN(10) == 0:
			e.Reset()
		default:
			s := e.Step()
			_, _ = fmt.Fprintln(digest, s.Duration, s.Load)
			for _, o := range s.Outputs {
				if o.Index != o.Request.Generated()-1 || o.Finished != (o.Request.Generated() == o.Request.Output) {
					t.Fatalf("output %+v of a request with %d tokens", o, o.Request.Generated())
				}
				_, _ = fmt.Fprintln(digest, o.Index, o.Finished, o.Request.CachedTokens())
			}
			if used := s.Load.PrefillTokens + s.Load.Decodes; used > e.cfg.TokenBudget {
				t.Fatalf("%d tokens in a step", used)
			}
		}
		events := e.TakeEvents()
		for _, event := range events {
			_, _ = fmt.Fprintln(digest, event.Kind, event.Hashes, event.Parent)
		}
		seen.apply(t, events)
		seen.check(t, e)
	}
	drain(t, e)
	seen.apply(t, e.TakeEvents())
	seen.check(t, e)
	if e.UsedBlocks() != 0 {
		t.Fatalf("%d blocks held by nobody", e.UsedBlocks())
	}
	s := e.Stats()
	if int(s.Finished+s.Cancelled) != len(live) {
		t.Fatalf("%d finished and %d cancelled of %d", s.Finished, s.Cancelled, len(live))
	}
	return fmt.Sprintf("%x %+v", digest.Sum64(), s)
}

func TestEventsAlwaysDescribeTheCache(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{BlockSize: 4, Blocks: 40, TokenBudget: 32, MaxRunning: 8},
		{BlockSize: 4, Blocks: 40, TokenBudget: 32, MaxRunning: 8, InsertAfterPrefill: true},
		{BlockSize: 16, Blocks: 30, TokenBudget: 100},
		{BlockSize: 1, Blocks: 64, TokenBudget: 16, InsertAfterPrefill: true, Speculative: true},
	} {
		for seed := range uint64(12) {
			if first, second := randomRun(t, cfg, seed), randomRun(t, cfg, seed); first != second {
				t.Fatalf("seed %d of %+v gave %s, then %s", seed, cfg, first, second)
			}
		}
	}
}
