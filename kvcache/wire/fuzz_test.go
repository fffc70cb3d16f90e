package wire

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

func FuzzDecode(f *testing.F) {
	for _, v := range loadVectors(f, "testdata/kv_events.json") {
		f.Add(unhex(f, v.Hex))
	}
	f.Add(pack(arr{1, arr{keyed("l", nil, arr{arr{"l", arr{"i", -1}, "s", []byte{1}}, arr{obj{"type", "mm", "hash", "i"}}})}, 2}))
	f.Add(pack(arr{1, arr{arr{"BlockStored", arr{1}, nil, arr{arr{1, 2}, arr{2, 3}}, 2, 1, "CPU", obj{"cache_salt", "s"}}}, nil}))
	for _, c := range capturedFrames(f) {
		f.Add(unhex(f, c.Payload))
	}
	f.Add(pack(obj{"events", arr{obj{"block_hashes", arr{[]byte{1}}, "type", "BlockRemoved"}}, "ts", 1}))
	var d Decoder // reused, as it is in service
	f.Fuzz(func(t *testing.T, payload []byte) {
		b, err := d.Decode(payload)
		if (b == nil) == (err == nil) {
			t.Fatal("want either a batch or an error")
		}
		if err != nil {
			return
		}
		if b.Rank < -1 || b.Malformed < 0 || b.Unknown < 0 {
			t.Fatalf("counts: %+v", b)
		}
		for i := range b.Events {
			checkEvent(t, &b.Events[i])
		}
		if n := cap(d.hashes) + cap(d.tokens) + cap(d.extras) + cap(d.perBlock) + cap(b.Events); n > 64*len(payload)+8*maxKept {
			t.Fatalf("%d elements held for %d bytes", n, len(payload))
		}
	})
}

// checkEvent checks what every consumer of an event relies on.
func checkEvent(t *testing.T, e *kvcache.Event) {
	t.Helper()
	if e.Tier >= kvcache.NumTiers || e.Group < 0 || e.BlockSize < 0 {
		t.Fatalf("out of range: %+v", e)
	}
	switch e.Kind {
	case kvcache.Stored:
		if e.Attention != kvcache.FullAttention {
			return
		}
		if len(e.Tokens) != e.BlockSize*len(e.Hashes) && len(e.Tokens) > 0 {
			t.Fatalf("%d tokens for %d blocks of %d", len(e.Tokens), len(e.Hashes), e.BlockSize)
		}
		if e.Extras != nil && len(e.Extras) != len(e.Hashes) {
			t.Fatalf("%d extras for %d blocks", len(e.Extras), len(e.Hashes))
		}
	case kvcache.Removed, kvcache.Cleared:
		if e.Tokens != nil || e.Extras != nil {
			t.Fatalf("not a store: %+v", e)
		}
	default:
		t.Fatalf("kind %d", e.Kind)
	}
}
