package ledger

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// What comes out is what went in, in order, whatever the turns.
func TestFIFO(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var q fifo
	in, out := 0, 0
	var buf []Record
	for range 200 {
		for range rng.IntN(700) {
			q.push(&Record{Attempt: in})
			in++
		}
		most := rng.IntN(1000)
		buf = q.pop(buf[:0], most)
		require.LessOrEqual(t, len(buf), most)
		for i := range buf {
			require.Equal(t, out, buf[i].Attempt)
			out++
		}
		require.Equal(t, in-out, q.n)
	}
	require.Len(t, q.pop(nil, in), in-out)
	require.Empty(t, q.chunks)
	require.Empty(t, q.pop(nil, 1))
}
