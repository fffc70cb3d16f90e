package wire

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

type hashes = []kvcache.EngineHash

type vector struct {
	ID  string `json:"id"`
	Hex string `json:"hex"`
}

func loadVectors(t testing.TB, path string) []vector {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Vectors)
	return file.Vectors
}

const (
	hashA = 9561501211280363793
	hashB = 15292913576410714033
	stamp = 1790000000.25
)

func storedAB() kvcache.Event {
	return kvcache.Event{Kind: kvcache.Stored, Hashes: hashes{hashA, hashB}, Tokens: ids(1, 8), BlockSize: 4}
}

func signed(v int64) kvcache.EngineHash { return kvcache.EngineHash(v) }

// want is what each vector of the reference data must decode to.
func want() map[string]*kvcache.Batch {
	cleared := kvcache.Event{Kind: kvcache.Cleared}
	removedB := kvcache.Event{Kind: kvcache.Removed, Hashes: hashes{hashB}}
	sgA, sgB := signed(-3488128144981237669), signed(5674439469042975057)
	sgStored := storedAB()
	sgStored.Hashes = hashes{sgA, sgB}
	lora := storedAB()
	lora.Hashes = hashes{12569570880391737273, 4022125153796133198}
	lora.Adapter, lora.Salt = "my-lora", "tenant-a"
	first := storedAB()
	first.Hashes = hashes{4780750605640181896, signed(-5)}
	batch := func(rank int, events ...kvcache.Event) *kvcache.Batch {
		return &kvcache.Batch{Time: stamp, Rank: rank, Events: events}
	}
	t1 := batch(0, removedB)
	t1.Unknown = 1
	return map[string]*kvcache.Batch{
		"V1": batch(0, storedAB()),
		"V2": batch(0, removedB, cleared),
		"V3": batch(0, storedAB()),
		"V5": batch(1, lora),
		"L1": batch(-1, first),
		"L3": batch(0, storedAB(), removedB),
		"L5": batch(0, storedAB(), removedB, cleared),
		"S1": batch(0, sgStored, kvcache.Event{Kind: kvcache.Removed, Hashes: hashes{sgA, sgB}}, cleared),
		"S2": batch(0, sgStored, kvcache.Event{Kind: kvcache.Removed, Hashes: hashes{sgB}}, cleared),
		"T1": t1,
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	var d Decoder
	for _, path := range []string{
		filepath.Join("testdata", "kv_events.json"),
		filepath.Join("..", "..", "..", "shared", "data", "kv_events.json"),
	} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue // only the copy is part of the repository
		}
		known := want()
		for _, v := range loadVectors(t, path) {
			payload, err := hex.DecodeString(v.Hex)
			require.NoError(t, err)
			got, err := d.Decode(payload)
			require.NoError(t, err, v.ID)
			require.Contains(t, known, v.ID, "a vector without an expectation")
			assert.Equal(t, known[v.ID], got, v.ID)
			delete(known, v.ID)
		}
		assert.Empty(t, known, "vectors missing from %s", path)
	}
}

// Every way to write a hash comes out as one key, so that a removal finds what
// a store in another encoding put there.
func TestHashEncodings(t *testing.T) {
	t.Parallel()
	digest, err := hex.DecodeString("58d0879dff3800f65f8c5fd449d73048c0f7699dd238a03b84b146b151d55111")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		wire any
		want kvcache.EngineHash
	}{
		"unsigned above MaxInt64":    {uint64(hashB), hashB},
		"unsigned of the digest":     {uint64(hashA), hashA},
		"32-byte digest":             {digest, hashA},
		"16-byte digest":             {digest[16:], hashA},
		"8 bytes":                    {digest[24:], hashA},
		"the same as a signed int":   {signedOf(hashA), hashA},
		"3 bytes":                    {[]byte{1, 2, 3}, 0x010203},
		"small":                      {5, 5},
		"small negative":             {-5, signed(-5)},
		"negative in 8 bits":         {-100, signed(-100)},
		"negative in 16 bits":        {-1000, signed(-1000)},
		"negative in 32 bits":        {-100000, signed(-100000)},
		"most negative":              {int64(-1 << 63), 1 << 63},
		"positive in a signed width": {raw{0xd3, 0, 0, 0, 0, 0, 0, 0, 7}, 7},
		"zero":                       {0, 0},
	} {
		var d Decoder
		b, err := d.Decode(pack(arr{stamp, arr{arr{"BlockRemoved", arr{c.wire}, "GPU"}}, 0}))
		require.NoError(t, err, name)
		require.Len(t, b.Events, 1, name)
		assert.Equal(t, hashes{c.want}, b.Events[0].Hashes, name)
		b, err = d.Decode(pack(arr{stamp, arr{arr{"BlockStored", arr{8}, c.wire, tokens(1, 4), 4, nil}}, 0}))
		require.NoError(t, err, name)
		require.Len(t, b.Events, 1, name)
		assert.True(t, b.Events[0].HasParent, name)
		assert.Equal(t, c.want, b.Events[0].Parent, name)
	}
}

func signedOf(u uint64) int64 { return int64(u) }
