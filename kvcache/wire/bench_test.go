package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// benchBatch is a prefill step of vLLM: stores of 64 blocks of 16 tokens each,
// and removals one by one.
func benchBatch() (payload []byte, blocks int) {
	const stores, perStore, removals = 4, 64, 64
	var events arr
	id := uint64(1 << 63)
	for range stores {
		var hs arr
		for range perStore {
			id += 0x9e3779b97f4a7c15
			hs = append(hs, id)
		}
		var nils arr
		for range perStore {
			nils = append(nils, nil)
		}
		events = append(events, obj{
			"type", "BlockStored", "block_hashes", hs, "parent_block_hash", id, "token_ids", tokens(30_000, perStore*16),
			"block_size", 16, "lora_id", nil, "medium", "GPU", "lora_name", nil, "extra_keys", nils,
			"group_idx", 0, "kv_cache_spec_kind", "full_attention",
		})
	}
	for range removals {
		id += 0x9e3779b97f4a7c15
		events = append(events, obj{"type", "BlockRemoved", "block_hashes", arr{id}, "medium", "GPU", "group_idx", 0})
	}
	return pack(arr{stamp, events, 0}), stores*perStore + removals
}

func BenchmarkDecode(b *testing.B) {
	payload, blocks := benchBatch()
	var d Decoder
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(payload); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(blocks)*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
}

func TestDecodeAllocatesNothing(t *testing.T) {
	payload, _ := benchBatch()
	named := pack(arr{stamp, arr{keyed("l", nil, arr{arr{"l", arr{"i", -1}, "s"}, arr{"l"}})}, 2})
	var d Decoder
	for _, p := range [][]byte{payload, named} {
		_, err := d.Decode(p)
		require.NoError(t, err)
	}
	got := testing.AllocsPerRun(100, func() {
		for _, p := range [][]byte{payload, named} {
			if _, err := d.Decode(p); err != nil {
				t.Error(err)
			}
		}
	})
	require.Zero(t, got)
}
