package follow_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// The frames of a real vLLM, through the real decoder, into the real index: each
// prompt is then found by its tokens.
func TestRealEngine(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../wire/testdata/vllm_0.32.0.json")
	require.NoError(t, err)
	var file struct {
		BlockSize int `json:"block_size"`
		Frames    []struct {
			What    string `json:"what"`
			Seq     int64  `json:"seq"`
			Payload string `json:"payload_hex"`
		} `json:"frames"`
	}
	require.NoError(t, json.Unmarshal(text, &file))

	synctest.Test(t, func(t *testing.T) {
		index := kvcache.NewIndex(kvcache.Options{})
		owner := index.Join("w")
		hub := follow.NewHub()
		pipe, err := hub.Open("vllm", follow.PipeOptions{})
		require.NoError(t, err)
		f, err := follow.Start(context.Background(), follow.Config{
			Transport: hub, Endpoint: pipe.Endpoint(0), Index: index,
			Owner: func(rank int) (kvcache.Owner, bool) { return owner, rank == 0 },
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, f.Close()) })

		hasher := kvcache.Hasher{BlockSize: file.BlockSize}
		var d wire.Decoder
		type prompt struct {
			scope  kvcache.Scope
			tokens []uint32
		}
		prompts := map[kvcache.EngineHash]prompt{} // by the last block's hash
		next := int64(0)
		for _, fr := range file.Frames {
			if fr.Seq != next {
				break // the capture leaves out some
			}
			next++
			payload, err := hex.DecodeString(fr.Payload)
			require.NoError(t, err)
			b, err := d.Decode(payload)
			require.NoError(t, err)
			for _, e := range b.Events {
				at := prompt{scope: kvcache.Scope{Salt: e.Salt}}
				if e.HasParent {
					at = prompts[e.Parent]
				}
				for i, h := range e.Hashes {
					at.tokens = append(slices.Clip(at.tokens), e.Tokens[i*e.BlockSize:(i+1)*e.BlockSize]...)
					prompts[h] = at
				}
			}
			pipe.Publish(payload)
		}
		synctest.Wait()
		assert.Equal(t, kvcache.Exact, index.Trust(owner))
		assert.Equal(t, file.BlockSize, index.BlockSize(owner))
		require.Greater(t, len(prompts), 10)
		for _, p := range prompts {
			keys := hasher.Keys(nil, p.tokens, p.scope, nil)
			hits := make([]kvcache.Hit, 1)
			index.Match(keys, []kvcache.Owner{owner}, hits)
			assert.Equal(t, len(p.tokens)/file.BlockSize, int(hits[0].Blocks))
		}
		assert.Equal(t, len(prompts), index.OwnerStats(owner).Pairs)
	})
}
