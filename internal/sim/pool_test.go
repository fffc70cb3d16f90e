package sim

import "testing"

// chain returns the hashes 1..n, which stand for any chain of n blocks.
func chain(n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = uint64(i + 1)
	}
	return hashes
}

// The fixtures were captured from vLLM's KV cache manager (block size 4, the
// ends in tokens of the cached blocks, prompt length, tokens hit).
func TestHits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		ends        []int
		tokens      int
		speculative bool
		want        int
	}{
		{name: "all cached and one token more", ends: []int{4, 8, 12, 16}, tokens: 17, want: 16},
		{name: "the last block is computed again", ends: []int{4, 8, 12, 16}, tokens: 16, want: 12},
		{name: "a leading gap", ends: []int{8, 12, 16}, tokens: 17, want: 0},
		{name: "a gap inside", ends: []int{4, 12, 16}, tokens: 17, want: 4},
		{name: "nothing cached", tokens: 17, want: 0},
		{name: "prompt of one token", ends: []int{4}, tokens: 1, want: 0},
		{name: "prompt of one block", ends: []int{4}, tokens: 4, want: 0},
		{name: "one block and one token", ends: []int{4}, tokens: 5, want: 4},
		{name: "speculative: one block less", ends: []int{4, 8, 12, 16}, tokens: 17, speculative: true, want: 12},
		{name: "speculative: after the last-block rule", ends: []int{4, 8, 12, 16}, tokens: 16, speculative: true, want: 8},
		{name: "speculative: never below zero", ends: []int{4}, tokens: 4, speculative: true, want: 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, Config{BlockSize: 4, Blocks: 16, Speculative: test.speculative})
			for _, end := range test.ends {
				e.pool.register(e.pool.take(), chain(16)[end/4-1])
			}
			if got := e.Match(chain(16), test.tokens); got != test.want {
				t.Errorf("hit %d tokens, want %d", got, test.want)
			}
		})
	}
}

func TestEvictionTakesTheTailOfTheOldestChain(t *testing.T) {
	t.Parallel()
	p := newPool(4, false)
	var older, newer [2]int32
	for i := range 2 {
		older[i] = p.take()
		p.register(older[i], uint64(10+i))
	}
	for i := range 2 {
		newer[i] = p.take()
		p.register(newer[i], uint64(20+i))
	}
	for _, owned := range [][2]int32{older, newer} {
		p.release(owned[1])
		p.release(owned[0])
	}
	p.log.take()
	for _, want := range []uint64{11, 10, 21, 20} {
		p.take()
		events := p.log.take()
		if len(events) != 1 || events[0].Kind != BlockRemoved || events[0].Hashes[0] != want {
			t.Fatalf("evicted %+v, want block %d", events, want)
		}
	}
}

func TestBlocksWithoutHashAreReusedFirst(t *testing.T) {
	t.Parallel()
	p := newPool(2, false)
	hashed, bare := p.take(), p.take()
	p.register(hashed, 1)
	p.release(hashed)
	p.release(bare)
	if got := p.take(); got != bare {
		t.Errorf("reused block %d, want the one that nobody can hit (%d)", got, bare)
	}
	if len(p.log.take()) != 0 {
		t.Error("a block was evicted although an empty one was free")
	}
}

func TestDuplicateBlocks(t *testing.T) {
	t.Parallel()
	p := newPool(4, false)
	blocks := []int32{p.take(), p.take(), p.take()}
	for _, b := range blocks {
		p.register(b, 7)
	}
	for copies, drop := range []int32{blocks[1], blocks[0], blocks[2]} {
		if _, ok := p.lookup(7); !ok {
			t.Fatalf("hash lost with %d copies left", 3-copies)
		}
		p.forget(drop)
	}
	if _, ok := p.lookup(7); ok || p.duplicates != 0 {
		t.Errorf("hash still found, or %d duplicates counted, after the last copy went", p.duplicates)
	}
}

func TestResetNeedsAnIdleCache(t *testing.T) {
	t.Parallel()
	p := newPool(2, false)
	b := p.take()
	p.register(b, 1)
	if p.reset() {
		t.Fatal("reset while a block is held")
	}
	p.release(b)
	if !p.reset() {
		t.Fatal("reset refused on an idle cache")
	}
	events := p.log.take()
	if len(events) != 1 || events[0].Kind != AllBlocksCleared {
		t.Errorf("events %+v, want one AllBlocksCleared", events)
	}
	if _, ok := p.lookup(1); ok {
		t.Error("block found after reset")
	}
}
