package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
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
// own bounds. Requests that have finished keep their blocks if they are among keeps.
func (r replica) check(t *testing.T, e *Engine, keeps []*Request) {
	t.Helper()
	if e.Kept() != len(keeps) {
		t.Fatalf("%d requests kept, not %d", e.Kept(), len(keeps))
	}
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
	for _, request := range slices.Concat(e.running, e.fetching, e.ready, keeps) {
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
	var live, fetches, keeps []*Request
	// arrive lets one of the KV caches that are on their way arrive.
	arrive := func() {
		i := rng.IntN(len(fetches))
		if r := fetches[i]; e.Fetched(r) == (r.state == cancelled) || e.Fetched(r) {
			t.Fatal("a fetch ends once, or with its request")
		}
		fetches = slices.Delete(fetches, i, i+1)
	}
	release := func() {
		i := rng.IntN(len(keeps))
		if !e.Release(keeps[i]) || e.Release(keeps[i]) || e.Cancel(keeps[i]) {
			t.Fatal("what is kept is given back once")
		}
		keeps = slices.Delete(keeps, i, i+1)
	}
	note := func(s *Step) {
		for _, o := range s.Outputs {
			if o.Finished && o.Request.Keep {
				keeps = append(keeps, o.Request)
			}
		}
		for _, f := range s.Fetches {
			if f.Tokens < 1 || f.Tokens >= f.Request.Prompt {
				t.Fatalf("%d tokens are fetched of %d", f.Tokens, f.Request.Prompt)
			}
			fetches = append(fetches, f.Request)
		}
	}
	for range 400 {
		switch action := rng.IntN(12); {
		case action == 10 && len(fetches) > 0:
			arrive()
		case action == 11 && len(keeps) > 0:
			release()
		case action < 3:
			// Prompts branch off a few common chains at a random block.
			common, own := rng.IntN(12), rng.IntN(12)
			hashes := append(hashesFor(uint64(rng.IntN(3)), common), hashesFor(100+rng.Uint64N(1000), own)...)
			prompt := 1 + rng.IntN(len(hashes)*e.cfg.BlockSize+8)
			r := &Request{Prompt: prompt, Output: 1 + rng.IntN(40), Hashes: hashes}
			if rng.IntN(4) == 0 {
				r.Remote, r.Fetch = rng.IntN(prompt+5), rng.IntN(2) == 0
			}
			r.Keep = rng.IntN(6) == 0
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
			note(s)
			_, _ = fmt.Fprintln(digest, s.Duration, s.Load, len(s.Fetches))
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
		seen.check(t, e, keeps)
	}
	for stuck := 0; !e.Idle() || len(fetches)+len(keeps) > 0; stuck++ {
		note(e.Step())
		if len(fetches) > 0 {
			arrive()
		}
		if len(keeps) > 0 {
			release()
		}
		if stuck > 10_000 {
			t.Fatalf("%d running, %d waiting: it comes to no end", e.Running(), e.Waiting())
		}
	}
	seen.apply(t, e.TakeEvents())
	seen.check(t, e, keeps)
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
