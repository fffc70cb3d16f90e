package wire

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

type frame struct {
	What    string `json:"what"`
	Topic   string `json:"topic"`
	Seq     int64  `json:"seq"`
	Payload string `json:"payload_hex"`
}

func capturedFrames(t testing.TB) []frame {
	t.Helper()
	text, err := os.ReadFile("testdata/vllm_0.32.0.json")
	require.NoError(t, err)
	var file struct {
		BlockSize int     `json:"block_size"`
		Frames    []frame `json:"frames"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.Equal(t, 32, file.BlockSize)
	return file.Frames
}

// Every frame of a real engine decodes without a remainder.
func TestCapturedVLLM(t *testing.T) {
	t.Parallel()
	var d Decoder
	kinds := map[kvcache.EventKind]int{}
	known := map[kvcache.EngineHash]bool{}
	var parents, salts, wide int
	for _, f := range capturedFrames(t) {
		if f.Payload == "" {
			continue // an end marker
		}
		if f.Seq == 0 {
			clear(known) // another engine
		}
		b, err := d.Decode(unhex(t, f.Payload))
		require.NoError(t, err, f.What)
		assert.Zero(t, b.Malformed+b.Unknown, f.What)
		assert.Zero(t, b.Rank, f.What)
		assert.Greater(t, b.Time, 1.7e9, f.What)
		require.NotEmpty(t, b.Events, f.What)
		for _, e := range b.Events {
			kinds[e.Kind]++
			assert.Equal(t, kvcache.TierGPU, e.Tier)
			assert.Empty(t, e.Adapter)
			assert.False(t, e.AdapterUnnamed)
			assert.Nil(t, e.Extras)
			switch e.Kind {
			case kvcache.Stored:
				assert.Equal(t, 32, e.BlockSize, f.What)
				assert.Len(t, e.Tokens, 32*len(e.Hashes), f.What)
				assert.Equal(t, kvcache.FullAttention, e.Attention, f.What)
				if e.HasParent {
					parents++
					if f.What != "replay of the last two" && f.What != "store of chats" && f.What != "bytes hashes, evicting" {
						assert.True(t, known[e.Parent], "%s: parent announced before", f.What)
					}
				}
				if e.Salt != "" {
					salts++
					assert.Equal(t, "tenant-a", e.Salt)
					assert.Equal(t, "store with cache_salt", f.What)
				}
				for _, h := range e.Hashes {
					known[h] = true
				}
				for _, token := range e.Tokens {
					if token > 65_535 {
						wide++
					}
				}
			case kvcache.Removed:
				assert.Len(t, e.Hashes, 1, "one hash in each")
				if f.What != "bytes hashes, evicting" {
					assert.True(t, known[e.Hashes[0]], f.What)
				}
			default:
			}
		}
	}
	assert.Positive(t, kinds[kvcache.Stored])
	assert.Positive(t, kinds[kvcache.Removed])
	assert.Equal(t, 2, kinds[kvcache.Cleared], "live and replayed")
	assert.Positive(t, parents)
	assert.Equal(t, 1, salts)
	assert.Positive(t, wide)
}

// With hashes as bytes an engine says the same as with hashes as integers: both
// runs began with the same prompt.
func TestCapturedHashEncodings(t *testing.T) {
	t.Parallel()
	seen := map[string]kvcache.Event{}
	for _, f := range capturedFrames(t) {
		if f.What == "store" || f.What == "bytes hashes" {
			var d Decoder
			b, err := d.Decode(unhex(t, f.Payload))
			require.NoError(t, err)
			seen[f.What] = b.Events[0]
		}
	}
	require.Len(t, seen, 2)
	a, b := seen["store"], seen["bytes hashes"]
	assert.Equal(t, a.Tokens, b.Tokens)
	assert.Len(t, b.Hashes, len(a.Hashes))
}
