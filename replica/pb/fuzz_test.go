package pb_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/replica/pb"
)

// FuzzUnmarshal: an error of this package or a message within the bounds, which is the same
// when it is written and read again.
func FuzzUnmarshal(f *testing.F) {
	data, err := pb.Marshal(golden())
	require.NoError(f, err)
	f.Add(data)
	r := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		data, err := pb.Marshal(random(r))
		require.NoError(f, err)
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	for _, seed := range [][]byte{
		nil, []byte("hello"), head(), head().varint(1, 2), withLoad(2, 1<<32), withLoad(1, negative), withBooking(4, negative),
		head().bytes(7, "a").bytes(9, string(written(nil).fixed(3, 1).bytes(3, "12345678"))), append(head(), 0x53, 0x08, 0x01, 0x54),
		head().bytes(7, "a").times(300, 8, ""), head().bytes(2, "\xff"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := pb.Unmarshal(data)
		if err != nil {
			if m != nil {
				t.Fatal("a message and an error")
			}
			if !errors.Is(err, pb.ErrVersion) && !errors.Is(err, pb.ErrMalformed) && !errors.Is(err, pb.ErrBounds) {
				t.Fatal(err)
			}
			return
		}
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
		again, err := pb.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		same, err := pb.Unmarshal(again)
		if err != nil {
			t.Fatal(err)
		}
		require.Equal(t, m, same)
	})
}
