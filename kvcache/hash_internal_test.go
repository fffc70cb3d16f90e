package kvcache

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

// Our hash of token words must be xxHash64 of their little-endian bytes.
func TestTokensHashIsXXHash64(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 100 {
		tokens := make([]uint32, n)
		var raw []byte
		for i := range tokens {
			tokens[i] = r.Uint32()
			raw = binary.LittleEndian.AppendUint32(raw, tokens[i])
		}
		require.Equal(t, xxhash.Sum64(raw), tokensHash(tokens), "%d tokens", n)
		var two []byte
		two = binary.LittleEndian.AppendUint64(two, uint64(n))
		two = binary.LittleEndian.AppendUint64(two, uint64(n)<<40)
		require.Equal(t, xxhash.Sum64(two), uint64(chain(Key(n)<<40, uint64(n))))
	}
}
