package kvsteer_test

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

type binaryState interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

func save(tb testing.TB, p kvsteer.Predictor) []byte {
	tb.Helper()
	b, err := p.(binaryState).MarshalBinary()
	require.NoError(tb, err)
	return b
}

func TestPredictorStateRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	p := trained(t, 21, 300, 5)
	for range 100 { // a second group, and a slow worker in it
		f := randomFeatures(r, 5)
		f.Class = "l40s"
		slow := 1.0
		if f.Worker == "w1" {
			slow = 4
		}
		p.Observe(&f, engineTTFT(&f, slow))
		p.(kvsteer.DecodeObserver).ObserveDecode(&f, 1e7, 77)
	}
	state := save(t, p)
	require.Equal(t, state, save(t, p), "equal predictors give equal bytes")
	q := trained(t, 22, 10, 2)
	require.NoError(t, q.(binaryState).UnmarshalBinary(state))
	require.Equal(t, state, save(t, q))
	for range 200 { // and they go on alike
		f := randomFeatures(r, 6)
		f.Class = []string{"", "l40s", "unheard of"}[r.IntN(3)]
		require.Equal(t, predict(p, f), predict(q, f))
		ttft := engineTTFT(&f, 1)
		p.Observe(&f, ttft)
		q.Observe(&f, ttft)
	}
}

func TestPredictorStateOfNothing(t *testing.T) {
	t.Parallel()
	empty := save(t, kvsteer.NewPredictor(kvsteer.PredictorOptions{}))
	p := trained(t, 23, 30, 2)
	require.NoError(t, p.(binaryState).UnmarshalBinary(empty))
	require.Equal(t, empty, save(t, p))
	require.Zero(t, predict(p, kvsteer.Features{Model: "m"}).Observations)
}

func TestPredictorRefusesBadState(t *testing.T) {
	t.Parallel()
	state := save(t, trained(t, 24, 50, 3))
	p := trained(t, 25, 50, 3)
	before := save(t, p)
	refuse := func(b []byte, what string, args ...any) {
		t.Helper()
		require.ErrorIs(t, p.(binaryState).UnmarshalBinary(b), kvsteer.ErrPredictorState, what, args)
	}
	refuse(nil, "nothing")
	refuse([]byte("{}"), "something else")
	refuse(append([]byte(nil), append(state, 0)...), "a byte more")
	refuse(make([]byte, 65<<20), "too much")
	for n := range state {
		if n < 64 || n%97 == 0 {
			refuse(state[:n], "cut to %d", n)
		}
	}
	for i := range state {
		if i < 64 || i%97 == 0 || i > len(state)-64 {
			b := append([]byte(nil), state...)
			b[i] ^= 0x10
			refuse(b, "byte %d altered", i)
		}
	}
	require.Equal(t, before, save(t, p), "the predictor is as it was")
}

// FuzzPredictorState gives bytes with a right checksum, so that what lies behind
// it is reached.
func FuzzPredictorState(f *testing.F) {
	state := save(f, trained(f, 26, 20, 2))
	f.Add(state[:len(state)-4])
	f.Add(state[:9])
	f.Add([]byte("KVSP\x01\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
		err := p.(binaryState).UnmarshalBinary(withChecksum(body))
		if err != nil {
			require.ErrorIs(t, err, kvsteer.ErrPredictorState)
			return
		}
		out := predict(p, kvsteer.Features{Model: "m", Uncached: 1000, Decoding: 3})
		require.GreaterOrEqual(t, out.TTFT, out.Prefill)
		require.GreaterOrEqual(t, out.P90, out.TTFT)
		save(t, p)
	})
}

func ExamplePredictor_state() {
	p := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	state, err := p.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err)
	}
	// ... keep it in a file; after the restart:
	next := kvsteer.NewPredictor(kvsteer.PredictorOptions{})
	if err := next.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		fmt.Println("starting from the prior:", err)
	}
	state[6]++ // a disk that forgets
	err = next.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
	fmt.Println(err)
	// Output: kvsteer: unusable predictor state: the checksum doesn't match
}

func withChecksum(body []byte) []byte {
	b := append([]byte(nil), body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}
