package policytest_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy/policytest"
)

func FuzzTight(f *testing.F) {
	policytest.Load(f, "testdata/tight.yaml").Fuzz(f, private)
}

// The decoder finds what the invariant finds, and more than one candidate at once.
func TestDecoderFindsALeak(t *testing.T) {
	t.Parallel()
	kit := policytest.Load(t, "testdata/leaky.yaml")
	decode := kit.Decoder()
	rng := rand.New(rand.NewPCG(1, 2))
	leaks, most := 0, 0
	for range 5000 {
		data := make([]byte, rng.IntN(300))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		req, list := decode(data)
		most = max(most, len(list))
		o := kit.Evaluate(req, list...)
		if private(o) != nil {
			leaks++
		}
		again, _ := decode(data)
		require.Equal(t, req, again)
	}
	require.Greater(t, leaks, 10)
	require.Equal(t, 8, most)
	require.Empty(t, kit.Untested(), "it gets everywhere")
}
