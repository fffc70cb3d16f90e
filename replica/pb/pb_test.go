package pb_test

import (
	"encoding/hex"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/pb"
)

var update = flag.Bool("update", false, "write testdata anew; only for a new version")

// golden is in testdata/v1.hex.
func golden() *replica.Message {
	return &replica.Message{
		Version: 1, Router: "gateway-7", Epoch: 0xfedcba9876543210, Seq: 300, Full: true, Bye: true,
		Loads: []replica.Load{
			{
				Instance: "a@1", Rank: 3, PrefillRequests: 1, PrefillTokens: 12_000, PrefillPairs: 72_000_000,
				PrefillFor: 1500 * time.Millisecond, DecodeRequests: 9, OutputTokens: 800, ContextTokens: 90_000,
			},
			{Instance: "b@1"},
			{Instance: "a@1", Rank: 4, DecodeRequests: 1},
		},
		Bookings: []replica.Booking{
			{Instance: "b@1", Rank: 1, Keys: []kvcache.Key{1, 1<<64 - 1}, TTL: time.Minute},
			{Instance: "c@1"},
		},
	}
}

// The bytes of version 1 stay what they are: a gateway is rolled out replica by replica.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "v1.hex")
	data, err := pb.Marshal(golden())
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(hex.EncodeToString(data)+"\n"), 0o600))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	want, err := hex.DecodeString(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	require.Equal(t, want, data)
	m, err := pb.Unmarshal(want)
	require.NoError(t, err)
	require.Equal(t, golden(), m)
}

// random is a message within the bounds.
func random(r *rand.Rand) *replica.Message {
	amount := func() int {
		return [...]int{0, 1, r.IntN(100), r.IntN(replica.MaxAmount), replica.MaxAmount}[r.IntN(5)]
	}
	duration := func() time.Duration {
		return [...]time.Duration{0, 1, time.Second, time.Duration(r.Int64N(int64(replica.MaxTime))), replica.MaxTime}[r.IntN(5)]
	}
	name := func() string {
		return [...]string{"a", "worker@1", "ü", strings.Repeat("n", replica.MaxName)}[r.IntN(4)]
	}
	m := &replica.Message{
		Version: replica.Version, Router: name(), Epoch: 1 + r.Uint64N(1<<64-1), Seq: 1 + r.Uint64N(1<<64-1),
		Full: r.IntN(2) == 0, Bye: r.IntN(2) == 0,
	}
	for range r.IntN(20) {
		m.Loads = append(m.Loads, replica.Load{
			Instance: name(), Rank: r.IntN(replica.MaxRank + 1), PrefillRequests: amount(), PrefillTokens: amount(),
			PrefillPairs: [...]int64{0, 1, r.Int64N(replica.MaxPairs), replica.MaxPairs}[r.IntN(4)], PrefillFor: duration(),
			DecodeRequests: amount(), OutputTokens: amount(), ContextTokens: amount(),
		})
	}
	for range r.IntN(20) {
		b := replica.Booking{Instance: name(), Rank: r.IntN(replica.MaxRank + 1), TTL: duration()}
		for range r.IntN(100) {
			b.Keys = append(b.Keys, kvcache.Key(r.Uint64()))
		}
		m.Bookings = append(m.Bookings, b)
	}
	return m
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		m := random(r)
		data, err := pb.Marshal(m)
		require.NoError(t, err)
		got, err := pb.Unmarshal(data)
		require.NoError(t, err)
		require.Equal(t, m, got)
		again, err := pb.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, data, again)
		clear(data)
		require.Equal(t, m, got, "it shares nothing with what it was read from")
	}
}

// biggest is as long as a message can be.
func biggest() *replica.Message {
	m := &replica.Message{
		Version: replica.Version, Router: strings.Repeat("r", replica.MaxName), Epoch: 1<<64 - 1, Seq: 1<<64 - 1, Full: true, Bye: true,
		Loads: make([]replica.Load, replica.MaxLoads), Bookings: make([]replica.Booking, replica.MaxBookings),
	}
	name := func(i int) string { return strings.Repeat("n", replica.MaxName-4) + string(rune(0x10000+i)) }
	for i := range m.Loads {
		m.Loads[i] = replica.Load{
			Instance: name(i), Rank: replica.MaxRank, PrefillRequests: replica.MaxAmount, PrefillTokens: replica.MaxAmount,
			PrefillPairs: replica.MaxPairs, PrefillFor: replica.MaxTime, DecodeRequests: replica.MaxAmount,
			OutputTokens: replica.MaxAmount, ContextTokens: replica.MaxAmount,
		}
	}
	for i := range m.Bookings {
		m.Bookings[i] = replica.Booking{
			Instance: name(replica.MaxLoads + i), Rank: replica.MaxRank, TTL: replica.MaxTime,
			Keys: make([]kvcache.Key, replica.MaxKeys/replica.MaxBookings),
		}
	}
	return m
}

func TestBiggestFits(t *testing.T) {
	data, err := pb.Marshal(biggest())
	require.NoError(t, err)
	require.Less(t, len(data), pb.MaxBytes)
	t.Logf("%d bytes", len(data))
	m, err := pb.Unmarshal(data)
	require.NoError(t, err)
	require.Equal(t, biggest(), m)
}

func TestMarshalRefuses(t *testing.T) {
	for says, m := range map[string]*replica.Message{
		"the epoch is 0":             {Version: 1, Seq: 1},
		"the sequence number is 0":   {Version: 1, Epoch: 1},
		"the version is 0":           {Epoch: 1, Seq: 1},
		"the rank is -1":             {Version: 1, Epoch: 1, Seq: 1, Loads: []replica.Load{{Instance: "a", Rank: -1}}},
		"the router's name is not U": {Version: 1, Epoch: 1, Seq: 1, Router: "\xff"},
	} {
		_, err := pb.Marshal(m)
		require.ErrorIs(t, err, pb.ErrBounds)
		require.ErrorContains(t, err, says)
	}
}

// written builds messages field by field, also such as nobody should send.
type written []byte

func (w written) varint(field protowire.Number, v uint64) written {
	return protowire.AppendVarint(protowire.AppendTag(w, field, protowire.VarintType), v)
}

func (w written) fixed(field protowire.Number, v uint64) written {
	return protowire.AppendFixed64(protowire.AppendTag(w, field, protowire.Fixed64Type), v)
}

func (w written) bytes(field protowire.Number, b string) written {
	return protowire.AppendString(protowire.AppendTag(w, field, protowire.BytesType), b)
}

func (w written) times(n int, field protowire.Number, b string) written {
	for range n {
		w = w.bytes(field, b)
	}
	return w
}

// head is the least that a message must have.
func head() written { return written(nil).varint(1, 1).fixed(3, 7).varint(4, 1) }

// withLoad has one load with one field of that value.
func withLoad(field protowire.Number, v uint64) written {
	return head().bytes(7, "a").bytes(8, string(written(nil).varint(field, v)))
}

func withBooking(field protowire.Number, v uint64) written {
	return head().bytes(7, "a").bytes(9, string(written(nil).varint(field, v)))
}

const negative = 1<<64 - 1 // what an int64 of -1 is written as

func TestUnmarshalRefuses(t *testing.T) {
	long := strings.Repeat("n", replica.MaxName+1)
	keys := strings.Repeat("12345678", replica.MaxKeys)
	for name, c := range map[string]struct {
		data written
		want error
	}{
		"nothing":               {nil, pb.ErrMalformed},
		"text":                  {written("hello"), pb.ErrMalformed},
		"no version":            {written(nil).fixed(3, 7).varint(4, 1), pb.ErrMalformed},
		"version 0":             {head().varint(1, 0), pb.ErrMalformed},
		"version 2":             {head().varint(1, 2), pb.ErrVersion},
		"version 2^32+1":        {head().varint(1, 1<<32+1), pb.ErrVersion},
		"version as text":       {written(nil).bytes(1, "1").fixed(3, 7).varint(4, 1), pb.ErrMalformed},
		"cut off":               {head()[:12], pb.ErrMalformed},
		"a group that ends not": {append(head(), 0x53), pb.ErrMalformed},
		"field 0":               {append(head(), 0), pb.ErrMalformed},
		"epoch 0":               {head().fixed(3, 0), pb.ErrBounds},
		"no epoch":              {written(nil).varint(1, 1).varint(4, 1), pb.ErrBounds},
		"epoch as a varint":     {written(nil).varint(1, 1).varint(3, 7).varint(4, 1), pb.ErrBounds},
		"seq 0":                 {head().varint(4, 0), pb.ErrBounds},
		"no seq":                {written(nil).varint(1, 1).fixed(3, 7), pb.ErrBounds},
		"router too long":       {head().bytes(2, long), pb.ErrBounds},
		"router not UTF-8":      {head().bytes(2, "\xff"), pb.ErrMalformed},
		"instance too long":     {head().bytes(7, long).bytes(8, ""), pb.ErrBounds},
		"instance empty":        {head().bytes(7, "").bytes(8, ""), pb.ErrBounds},
		"instance not UTF-8":    {head().bytes(7, "\xff").bytes(8, ""), pb.ErrMalformed},
		"load of no instance":   {head().bytes(8, ""), pb.ErrMalformed},
		"load of instance 1":    {withLoad(1, 1), pb.ErrMalformed},
		"load of instance -1":   {withLoad(1, negative), pb.ErrMalformed},
		"booking of none":       {head().bytes(9, ""), pb.ErrMalformed},
		"booking of instance 1": {withBooking(1, 1), pb.ErrMalformed},
		"load not a message":    {head().bytes(7, "a").bytes(8, "\xff"), pb.ErrMalformed},
		"rank 1024":             {withLoad(2, 1024), pb.ErrBounds},
		"rank 2^32":             {withLoad(2, 1<<32), pb.ErrBounds},
		"rank -1":               {withLoad(2, negative), pb.ErrBounds},
		"booking's rank 1024":   {withBooking(2, 1024), pb.ErrBounds},
		"booking's rank -1":     {withBooking(2, negative), pb.ErrBounds},
		"time too long":         {withLoad(6, uint64(replica.MaxTime)+1), pb.ErrBounds},
		"pairs too many":        {withLoad(5, uint64(replica.MaxPairs)+1), pb.ErrBounds},
		"TTL too long":          {withBooking(4, uint64(replica.MaxTime)+1), pb.ErrBounds},
		"TTL -1":                {withBooking(4, negative), pb.ErrBounds},
		"keys of 7 bytes":       {head().bytes(7, "a").bytes(9, string(written(nil).bytes(3, "1234567"))), pb.ErrMalformed},
		"too many keys":         {head().bytes(7, "a").bytes(9, string(written(nil).bytes(3, keys+"12345678"))), pb.ErrBounds},
		"too many keys of two":  {head().bytes(7, "a").bytes(9, string(written(nil).bytes(3, keys))).bytes(9, string(written(nil).fixed(3, 1))), pb.ErrBounds},
		"too many loads":        {head().bytes(7, "a").times(replica.MaxLoads+1, 8, ""), pb.ErrBounds},
		"too many bookings":     {head().bytes(7, "a").times(replica.MaxBookings+1, 9, ""), pb.ErrBounds},
		"too many instances":    {head().times(replica.MaxLoads+replica.MaxBookings+1, 7, "a"), pb.ErrBounds},
		"too long":              {head().bytes(100, strings.Repeat("x", pb.MaxBytes)), pb.ErrBounds},
		"too long, version 2":   {head().varint(1, 2).bytes(100, strings.Repeat("x", pb.MaxBytes)), pb.ErrBounds},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := pb.Unmarshal(c.data)
			require.ErrorIs(t, err, c.want)
			require.Nil(t, m)
			require.Less(t, len(err.Error()), 300)
			require.NotContains(t, err.Error(), "nnnn", "it cites nothing")
		})
	}
	var other *pb.VersionError
	_, err := pb.Unmarshal(head().varint(1, 7))
	require.ErrorAs(t, err, &other)
	require.EqualValues(t, 7, other.Version)
	require.ErrorContains(t, err, "7, this is 1")
	for field := protowire.Number(3); field <= 9; field++ {
		for _, v := range []uint64{negative, 1 << 63, 1<<63 - 1} {
			_, err := pb.Unmarshal(withLoad(field, v))
			require.ErrorIs(t, err, pb.ErrBounds, "field %d is %d", field, v)
		}
		if field == 5 || field == 6 {
			continue // pairs and nanoseconds
		}
		_, err := pb.Unmarshal(withLoad(field, replica.MaxAmount+1))
		require.ErrorIs(t, err, pb.ErrBounds, "field %d", field)
	}
}

// What is at the bounds, and what a newer sender may do, is taken.
func TestUnmarshalTakes(t *testing.T) {
	for name, data := range map[string]written{
		"the least":       head(),
		"rank 1023":       withLoad(2, 1023),
		"an empty load":   withLoad(1, 0),
		"most loads":      head().bytes(7, "a").times(replica.MaxLoads, 8, ""),
		"most keys":       head().bytes(7, "a").bytes(9, string(written(nil).bytes(3, strings.Repeat("12345678", replica.MaxKeys)))),
		"keys one by one": head().bytes(7, "a").bytes(9, string(written(nil).fixed(3, 1).fixed(3, 2))),
		"unknown fields": withLoad(100, 5).bytes(200, "new").fixed(201, 1).varint(202, 1).
			bytes(9, string(written(nil).bytes(50, "new"))),
		"an unknown group": append(head(), 0x53, 0x08, 0x01, 0x54),
		"twice, the last":  head().varint(4, 5).bytes(2, "a").bytes(2, "b"),
	} {
		t.Run(name, func(t *testing.T) {
			m, err := pb.Unmarshal(data)
			require.NoError(t, err)
			require.NoError(t, m.Check())
			again, err := pb.Marshal(m)
			require.NoError(t, err)
			same, err := pb.Unmarshal(again)
			require.NoError(t, err)
			require.Equal(t, m, same)
		})
	}
	m, err := pb.Unmarshal(head().varint(4, 5).bytes(2, "a").bytes(2, "b"))
	require.NoError(t, err)
	require.Equal(t, &replica.Message{Version: 1, Router: "b", Epoch: 7, Seq: 5}, m)
}

// Bytes that claim much are refused before there is room for it.
func TestUnmarshalIsBounded(t *testing.T) {
	const most = 24 << 20
	for name, data := range map[string]written{
		"loads":     head().bytes(7, "a").times((pb.MaxBytes-100)/2, 8, ""),
		"bookings":  head().bytes(7, "a").times((pb.MaxBytes-100)/2, 9, ""),
		"instances": head().times((pb.MaxBytes-100)/2, 7, ""),
		"keys":      head().bytes(7, "a").bytes(9, strings.Repeat(string(written(nil).fixed(3, 1)), (pb.MaxBytes-100)/9)),
		"unknown":   head().bytes(7, "a").bytes(9, strings.Repeat(string(written(nil).varint(100, 1)), (pb.MaxBytes-100)/3)),
	} {
		t.Run(name, func(t *testing.T) {
			require.Less(t, len(data), pb.MaxBytes)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := pb.Unmarshal(data)
			runtime.ReadMemStats(&after)
			require.Equal(t, name == "unknown", err == nil)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(most))
		})
	}
}
