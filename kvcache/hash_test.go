package kvcache_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

func randomTokens(r *rand.Rand, n int) []uint32 {
	t := make([]uint32, n)
	for i := range t {
		t[i] = r.Uint32N(152064)
	}
	return t
}

// The event side sees one block at a time with its extras, the request side the
// whole prompt with its items; both must name a block alike.
func TestEventSideEqualsRequestSide(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size := 1 + r.IntN(40)
		h := kvcache.Hasher{BlockSize: size}
		tokens := randomTokens(r, r.IntN(300))
		scope := kvcache.Scope{Adapter: []string{"", "a", "b"}[r.IntN(3)], Salt: []string{"", "s"}[r.IntN(2)]}
		items := make([]kvcache.Item, r.IntN(5))
		for i := range items {
			items[i] = kvcache.Item{ID: string(rune('a' + r.IntN(4))), Offset: r.IntN(320), Length: r.IntN(60)}
		}
		keys := h.Keys(nil, tokens, scope, items)
		require.Len(t, keys, len(tokens)/size)
		key := h.Root(scope)
		for b := range keys {
			var extras []kvcache.Extra
			for _, it := range items {
				if it.Length > 0 && it.Offset < (b+1)*size && it.Offset+it.Length > b*size {
					extras = append(extras, kvcache.Extra{ID: it.ID, Offset: it.Offset - b*size})
				}
			}
			r.Shuffle(len(extras), func(i, j int) { extras[i], extras[j] = extras[j], extras[i] })
			key = h.Next(key, tokens[b*size:(b+1)*size], extras)
			require.Equal(t, key, keys[b], "block %d of size %d", b, size)
		}
	}
}

func TestScopesAreDisjoint(t *testing.T) {
	t.Parallel()
	h := kvcache.Hasher{BlockSize: 4}
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	seen := map[kvcache.Key]kvcache.Scope{}
	for _, s := range []kvcache.Scope{
		{},
		{Adapter: "ab", Salt: "c"},
		{Adapter: "a", Salt: "bc"},
		{Adapter: "abc"},
		{Salt: "abc"},
		{Salt: "a"},
		{Salt: "b"},
		{Adapter: "a"},
		{Adapter: "a", Salt: "a"},
	} {
		keys := append(h.Keys(nil, tokens, s, nil), h.ByteKeys(nil, []byte("0123456789abcdef"), s)...)
		require.Len(t, keys, 3)
		for _, k := range keys {
			require.NotContains(t, seen, k, "%v", s)
			seen[k] = s
		}
	}
	assert.Equal(t, h.Keys(nil, tokens, kvcache.Scope{}, nil), h.Keys(nil, tokens, kvcache.Scope{Salt: ""}, nil))
}

// Two images on the same placeholders: the text before is shared, the blocks
// that the image overlaps are not, and neither is anything after.
func TestItemsEnterTheBlocksTheyOverlap(t *testing.T) {
	t.Parallel()
	h := kvcache.Hasher{BlockSize: 4}
	tokens := make([]uint32, 20)
	keys := func(items ...kvcache.Item) []kvcache.Key { return h.Keys(nil, tokens, kvcache.Scope{}, items) }
	plain, a, b := keys(), keys(kvcache.Item{ID: "a", Offset: 6, Length: 6}), keys(kvcache.Item{ID: "b", Offset: 6, Length: 6})
	assert.Equal(t, a[0], b[0])
	assert.Equal(t, a[0], plain[0])
	for i := 1; i < 5; i++ {
		assert.NotEqual(t, a[i], b[i], i)
		assert.NotEqual(t, a[i], plain[i], i)
	}
	shifted := keys(kvcache.Item{ID: "a", Offset: 5, Length: 6})
	assert.NotEqual(t, a[1], shifted[1], "the offset is part of the identity")
	twice := keys(kvcache.Item{ID: "a", Offset: 6, Length: 6}, kvcache.Item{ID: "a", Offset: 6, Length: 6})
	assert.NotEqual(t, a[1], twice[1])
}

func TestKeysCoverFullBlocksOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ size, tokens, want int }{
		{16, 0, 0}, {16, 15, 0}, {16, 16, 1}, {16, 47, 2}, {0, 8, 0}, {-1, 8, 0}, {1, 3, 3},
	} {
		h := kvcache.Hasher{BlockSize: tc.size}
		assert.Len(t, h.Keys(nil, make([]uint32, tc.tokens), kvcache.Scope{}, nil), tc.want)
		assert.Len(t, h.ByteKeys(nil, make([]byte, 4*tc.tokens+3), kvcache.Scope{}), tc.want)
	}
	var dst []kvcache.Key
	dst = append(dst, 7)
	dst = kvcache.Hasher{BlockSize: 2}.Keys(dst, []uint32{1, 2}, kvcache.Scope{}, nil)
	assert.Len(t, dst, 2)
	assert.Equal(t, kvcache.Key(7), dst[0])
}

func TestHashingDoesNotAllocate(t *testing.T) {
	tokens := randomTokens(rand.New(rand.NewPCG(3, 4)), 1600)
	text := make([]byte, 6400)
	dst := make([]kvcache.Key, 0, 200)
	h := kvcache.Hasher{BlockSize: 16}
	s := kvcache.Scope{Adapter: "adapter", Salt: "salt"}
	items := []kvcache.Item{{ID: "image", Offset: 100, Length: 500}}
	assert.Zero(t, testing.AllocsPerRun(10, func() { dst = h.Keys(dst[:0], tokens, s, items) }))
	assert.Zero(t, testing.AllocsPerRun(10, func() { dst = h.ByteKeys(dst[:0], text, s) }))
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte("some tokens, any at all"), 4, "adapter", "salt", "image", 3, 9)
	f.Fuzz(func(t *testing.T, raw []byte, size int, adapter, salt, id string, offset, length int) {
		tokens := make([]uint32, len(raw)/4)
		for i := range tokens {
			tokens[i] = binary.LittleEndian.Uint32(raw[4*i:])
		}
		h := kvcache.Hasher{BlockSize: size}
		keys := h.Keys(nil, tokens, kvcache.Scope{Adapter: adapter, Salt: salt}, []kvcache.Item{{ID: id, Offset: offset, Length: length}})
		if size >= 1 && len(keys) != len(tokens)/size {
			t.Fatalf("%d keys for %d tokens in blocks of %d", len(keys), len(tokens), size)
		}
		// The event side, block by block.
		key := h.Root(kvcache.Scope{Adapter: adapter, Salt: salt})
		for b, want := range keys {
			var extras []kvcache.Extra
			if length > 0 && offset < (b+1)*size && offset > b*size-length {
				extras = []kvcache.Extra{{ID: id, Offset: offset - b*size}}
			}
			if key = h.Next(key, tokens[b*size:(b+1)*size], extras); key != want {
				t.Fatalf("block %d has two keys", b)
			}
		}
	})
}

func TestCachedTokens(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		blocks, size, prompt int
		speculative          bool
		want                 int
	}{
		{4, 4, 17, false, 16},
		{4, 4, 16, false, 12},
		{40, 16, 640, false, 624},
		{1, 4, 100, false, 4},
		{4, 4, 17, true, 12},
		{4, 4, 16, true, 8},
		{1, 4, 100, true, 0},
		{0, 4, 100, true, 0},
		{1, 4, 4, true, 0},
		{9, 4, 0, false, 0},
		{-1, 4, 9, false, 0},
		{3, 0, 9, false, 0},
		{3, 1, 1, false, 0},
	} {
		assert.Equal(t, tc.want, kvcache.CachedTokens(tc.blocks, tc.size, tc.prompt, tc.speculative), "%+v", tc)
	}
}
