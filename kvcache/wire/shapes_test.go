package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// one decodes a batch of a single event that must be usable.
func one(t *testing.T, event any) kvcache.Event {
	t.Helper()
	var d Decoder
	b, err := d.Decode(pack(arr{stamp, arr{event}, 0}))
	require.NoError(t, err)
	require.Len(t, b.Events, 1)
	assert.Zero(t, b.Malformed)
	assert.Zero(t, b.Unknown)
	return b.Events[0]
}

// One store in the shape of every era is one and the same event.
func TestStoredOfEveryEra(t *testing.T) {
	t.Parallel()
	full := arr{
		"BlockStored",
		arr{uint64(hashA), uint64(hashB)},
		nil, tokens(1, 8), 4, nil,
		"GPU", nil,
		arr{nil, nil},
		0, "full_attention", nil,
	}
	for n := 5; n <= len(full); n++ {
		assert.Equal(t, storedAB(), one(t, full[:n]), "array of %d", n)
	}
	assert.Equal(t, storedAB(), one(t, append(append(arr{}, full...), "what", obj{"comes", arr{"next"}})))

	asMap := obj{
		"type", "BlockStored", "block_hashes", full[1], "parent_block_hash", nil, "token_ids", full[3],
		"block_size", 4, "lora_id", nil, "medium", "GPU", "lora_name", nil, "extra_keys",
		arr{nil, nil},
		"group_idx", 0, "kv_cache_spec_kind", "full_attention", "kv_cache_spec_sliding_window", nil,
		"locality", "LOCAL", "session_id", "s-1", "ownership", "cpu0", "event_version", 1,
		"skipped_token_ids",
		arr{1, 2},
		77, "a key that is no string",
		arr{},
		nil,
	}
	assert.Equal(t, storedAB(), one(t, asMap))
	// Keys in any order: rotate by each pair.
	for i := 0; i < len(asMap); i += 2 {
		turned := append(append(obj{}, asMap[i:]...), asMap[:i]...)
		assert.Equal(t, storedAB(), one(t, turned), "first key %v", turned[0])
	}
	// SGLang: seven elements; an eighth that is a map when salted; tagged maps.
	assert.Equal(t, storedAB(), one(t, full[:7]))
	salted := storedAB()
	salted.Salt = "tenant-a"
	assert.Equal(t, salted, one(t, append(append(arr{}, full[:7]...), obj{"cache_salt", "tenant-a", "more", 1})))
	assert.Equal(t, salted, one(t, obj{
		"type", "BlockStored", "block_hashes", full[1], "parent_block_hash", nil, "token_ids", full[3],
		"block_size", 4, "lora_id", nil, "medium", "GPU", "cache_salt", "tenant-a", "session_id", "s",
	}))
	// Both a field and the extra keys carry the salt.
	assert.Equal(t, salted, one(t, obj{
		"type", "BlockStored", "block_hashes", full[1], "parent_block_hash", nil, "token_ids", full[3],
		"block_size", 4, "extra_keys",
		arr{arr{"tenant-a"}, nil},
		"cache_salt", "tenant-a",
	}))
}

func TestRemovedOfEveryEra(t *testing.T) {
	t.Parallel()
	full := arr{"BlockRemoved", arr{uint64(hashA)}, "CPU", 3, "more"}
	e := kvcache.Event{Kind: kvcache.Removed, Hashes: hashes{hashA}}
	assert.Equal(t, e, one(t, full[:2]), "0.9")
	e.Tier = kvcache.TierCPU
	assert.Equal(t, e, one(t, full[:3]), "0.10.2")
	e.Group = 3
	assert.Equal(t, e, one(t, full[:4]))
	assert.Equal(t, e, one(t, full))
	assert.Equal(t, e, one(t, obj{
		"group_idx", 3, "medium", "CPU", "remaining_copy_counts",
		arr{0},
		"token_ids", "not looked at",
		"block_hashes",
		arr{uint64(hashA)},
		"type", "BlockRemoved",
	}))
}

func TestClearedOfEveryEra(t *testing.T) {
	t.Parallel()
	e := kvcache.Event{Kind: kvcache.Cleared}
	assert.Equal(t, e, one(t, arr{"AllBlocksCleared"}))
	assert.Equal(t, e, one(t, arr{"AllBlocksCleared", nil}))
	assert.Equal(t, e, one(t, obj{"type", "AllBlocksCleared"}))
	assert.Equal(t, e, one(t, obj{"reason", arr{1}, "type", "AllBlocksCleared"}))
}

func TestBatchShapes(t *testing.T) {
	t.Parallel()
	events := arr{arr{"AllBlocksCleared"}}
	for name, c := range map[string]struct {
		wire any
		rank int
		time float64
	}{
		"two elements":           {arr{stamp, events}, -1, stamp},
		"three":                  {arr{stamp, events, 7}, 7, stamp},
		"rank nil":               {arr{stamp, events, nil}, -1, stamp},
		"rank negative":          {arr{stamp, events, -3}, -1, stamp},
		"rank absurd":            {arr{stamp, events, uint64(1) << 40}, -1, stamp},
		"rank of another type":   {arr{stamp, events, obj{"r", 1}}, -1, stamp},
		"more":                   {arr{stamp, events, 1, "x", arr{1, obj{}}}, 1, stamp},
		"time an integer":        {arr{12, events, 1}, 1, 12},
		"time nil":               {arr{nil, events, 1}, 1, 0},
		"time in 32 bits":        {arr{raw{0xca, 0x3f, 0x80, 0, 0}, events, 1}, 1, 1},
		"map":                    {obj{"ts", stamp, "events", events, "data_parallel_rank", 2}, 2, stamp},
		"map in another order":   {obj{"x", 1, "data_parallel_rank", 2, "events", events, "ts", stamp}, 2, stamp},
		"map, the other name":    {obj{"attn_dp_rank", 4, "events", events, 5, 6}, 4, 0},
		"array with a long head": {raw(append([]byte{0xdd, 0, 0, 0, 2}, append(pack(stamp), pack(events)...)...)), -1, stamp},
	} {
		var d Decoder
		b, err := d.Decode(pack(c.wire))
		require.NoError(t, err, name)
		assert.Equal(t, c.rank, b.Rank, name)
		assert.InDelta(t, c.time, b.Time, 0, name)
		assert.Len(t, b.Events, 1, name)
	}
	var d Decoder
	b, err := d.Decode(pack(arr{stamp, nil, 0}))
	require.NoError(t, err)
	assert.Empty(t, b.Events)
}

func TestTiers(t *testing.T) {
	t.Parallel()
	for medium, tier := range map[any]kvcache.Tier{
		nil: kvcache.TierGPU, "GPU": kvcache.TierGPU, "": kvcache.TierGPU,
		"CPU": kvcache.TierCPU, "CPU_PINNED": kvcache.TierCPU, "CPU_TIER1": kvcache.TierCPU, "CPU_TIER2": kvcache.TierCPU,
		"STORAGE": kvcache.TierDisk, "FS": kvcache.TierDisk, "DISK": kvcache.TierDisk,
		"OBJ": kvcache.TierRemote, "EXTERNAL": kvcache.TierRemote, "HOLOGRAM": kvcache.TierRemote,
	} {
		assert.Equal(t, tier, one(t, arr{"BlockRemoved", arr{1}, medium}).Tier, "%v", medium)
		assert.Equal(t, tier, one(t, arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4, nil, medium}).Tier, "%v", medium)
	}
	far := one(t, obj{"type", "BlockRemoved", "block_hashes", arr{1}, "medium", "CPU", "locality", "REMOTE"})
	assert.Equal(t, kvcache.TierRemote, far.Tier)
}

func TestAttention(t *testing.T) {
	t.Parallel()
	for spec, attention := range map[any]kvcache.Attention{
		nil: kvcache.FullAttention, "full_attention": kvcache.FullAttention,
		"mla_attention": kvcache.FullAttention, "sink_full_attention": kvcache.FullAttention,
		"sliding_window": kvcache.WindowAttention, "sliding_window_mla": kvcache.WindowAttention,
		"mamba": kvcache.StateAttention, "chunked_local_attention": kvcache.OtherAttention,
		"encoder_only_attention": kvcache.OtherAttention, "cross_attention": kvcache.OtherAttention,
		"unknown": kvcache.OtherAttention, "invented_tomorrow": kvcache.OtherAttention,
	} {
		e := one(t, arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4, nil, "GPU", nil, nil, 1, spec})
		assert.Equal(t, attention, e.Attention, "%v", spec)
		assert.Equal(t, 1, e.Group)
	}
	// A window whose hashes don't cover its tokens still arrives.
	for _, shape := range []any{
		arr{"BlockStored", arr{1}, nil, tokens(1, 12), 4, nil, "GPU", nil, arr{nil, nil, nil}, 1, "sliding_window", 64},
		obj{
			"type", "BlockStored", "block_hashes",
			arr{1},
			"parent_block_hash", nil,
			"token_ids", tokens(1, 12), "block_size", 4,
			"kv_cache_spec_sliding_window", 64, "group_idx", 1, "kv_cache_spec_kind", "sliding_window",
		},
	} {
		e := one(t, shape)
		assert.Equal(t, kvcache.WindowAttention, e.Attention)
		assert.Equal(t, 64, e.Window)
		assert.Len(t, e.Hashes, 1)
	}
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	placeholder := kvcache.Event{Kind: kvcache.Stored, Hashes: hashes{hashA}, Tier: kvcache.TierCPU}
	for name, e := range map[string]any{
		"offload":    arr{"BlockStored", arr{uint64(hashA)}, nil, arr{}, 0, nil, "CPU"},
		"map":        obj{"type", "BlockStored", "block_hashes", arr{uint64(hashA)}, "parent_block_hash", nil, "token_ids", arr{}, "block_size", 0, "medium", "CPU"},
		"tokens nil": arr{"BlockStored", arr{uint64(hashA)}, nil, nil, 0, nil, "CPU"},
		"sized":      arr{"BlockStored", arr{uint64(hashA)}, nil, arr{}, 16, nil, "CPU"},
		"with keys":  arr{"BlockStored", arr{uint64(hashA)}, nil, arr{}, 0, nil, "CPU", nil, arr{nil}},
	} {
		assert.Equal(t, placeholder, one(t, e), name)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	e := one(t, arr{"BlockStored", arr{1, 2}, nil, arr{0, 127, 128, 255, 256, 65535, 65536, uint64(1<<32 - 1)}, 4, nil})
	assert.Equal(t, []uint32{0, 127, 128, 255, 256, 65535, 65536, 1<<32 - 1}, e.Tokens)
	pairs := arr{arr{1, 2}, arr{2, 300}, arr{300, 70000}, arr{70000, 5}}
	e = one(t, arr{"BlockStored", arr{1}, nil, pairs, 4, nil})
	assert.Equal(t, []uint32{1, 2, 300, 70000}, e.Tokens)

	// SGLang's stand-ins for an image: not malformed, and no token of any prompt.
	e = one(t, arr{"BlockStored", arr{1}, nil, arr{1, uint64(1) << 32, uint64(1)<<62 + 5, arr{uint64(1)<<62 + 6, 2}}, 4, nil})
	assert.Equal(t, []uint32{1, 1<<31 | 1, 1<<31 | 1<<30 | 5, 1<<31 | 1<<30 | 6}, e.Tokens)
}

func TestAdapters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		id, name any
		adapter  string
		unnamed  bool
	}{
		"base":            {nil, nil, "", false},
		"named":           {3, "a", "a", false},
		"named, no id":    {nil, "a", "a", false},
		"id only":         {3, nil, "", true},
		"id only, a text": {"x", nil, "", true},
		"id zero":         {0, nil, "", false},
		"empty name":      {1, "", "", true},
	} {
		e := one(t, arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4, c.id, "GPU", c.name})
		assert.Equal(t, c.adapter, e.Adapter, name)
		assert.Equal(t, c.unnamed, e.AdapterUnnamed, name)
	}
}
