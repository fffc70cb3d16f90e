package wire

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// A bad event is left out and counted; those around it arrive.
func TestBadEventAlone(t *testing.T) {
	t.Parallel()
	good := func(h uint64) arr { return arr{"BlockStored", arr{h}, nil, tokens(1, 4), 4, nil} }
	without := func(name string) obj {
		all := obj{
			"type", "BlockStored", "block_hashes",
			arr{1},
			"parent_block_hash", nil,
			"token_ids", tokens(1, 4), "block_size", 4,
		}
		var some obj
		for i := 0; i < len(all); i += 2 {
			if all[i] != name {
				some = append(some, all[i], all[i+1])
			}
		}
		return some
	}
	for name, bad := range map[string]any{
		"nil":                     nil,
		"a number":                5,
		"a text":                  "BlockStored",
		"empty array":             arr{},
		"empty map":               obj{},
		"no type":                 without("type"),
		"type no text":            obj{"type", 4},
		"tag no text":             arr{4, arr{1}},
		"tag only":                arr{"BlockStored"},
		"too short":               arr{"BlockStored", arr{1}, nil, tokens(1, 4)},
		"no hashes":               without("block_hashes"),
		"no parent":               without("parent_block_hash"),
		"no tokens":               without("token_ids"),
		"no block size":           without("block_size"),
		"hashes nil":              arr{"BlockStored", nil, nil, tokens(1, 4), 4, nil},
		"hashes no array":         arr{"BlockStored", 1, nil, tokens(1, 4), 4, nil},
		"hash a text":             arr{"BlockStored", arr{"x"}, nil, tokens(1, 4), 4, nil},
		"hash a float":            arr{"BlockStored", arr{1.5}, nil, tokens(1, 4), 4, nil},
		"hash nil":                arr{"BlockStored", arr{nil}, nil, tokens(1, 4), 4, nil},
		"hash of no bytes":        arr{"BlockStored", arr{[]byte{}}, nil, tokens(1, 4), 4, nil},
		"parent a text":           arr{"BlockStored", arr{1}, "x", tokens(1, 4), 4, nil},
		"tokens a text":           arr{"BlockStored", arr{1}, nil, "abcd", 4, nil},
		"token negative":          arr{"BlockStored", arr{1}, nil, arr{1, 2, 3, -4}, 4, nil},
		"token nil":               arr{"BlockStored", arr{1}, nil, arr{1, 2, 3, nil}, 4, nil},
		"token an empty pair":     arr{"BlockStored", arr{1}, nil, arr{1, 2, 3, arr{}}, 4, nil},
		"token a nested pair":     arr{"BlockStored", arr{1}, nil, arr{1, 2, 3, arr{arr{1}}}, 4, nil},
		"block size negative":     arr{"BlockStored", arr{1}, nil, tokens(1, 4), -4, nil},
		"block size zero":         arr{"BlockStored", arr{1}, nil, tokens(1, 4), 0, nil},
		"block size nil":          arr{"BlockStored", arr{1}, nil, tokens(1, 4), nil, nil},
		"block size a float":      arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4.0, nil},
		"block size enormous":     arr{"BlockStored", arr{1}, nil, tokens(1, 4), uint64(math.MaxUint64), nil},
		"fewer hashes":            arr{"BlockStored", arr{1}, nil, tokens(1, 8), 4, nil},
		"more hashes":             arr{"BlockStored", arr{1, 2}, nil, tokens(1, 4), 4, nil},
		"no hash at all":          arr{"BlockStored", arr{}, nil, tokens(1, 4), 4, nil},
		"medium a number":         arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4, nil, 7},
		"name a number":           arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4, nil, "GPU", 7},
		"metadata salt a number":  arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4, nil, "GPU", obj{"cache_salt", 1}},
		"group a text":            arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4, nil, "GPU", nil, nil, "x"},
		"spec a number":           arr{"BlockStored", arr{1}, nil, tokens(1, 4), 4, nil, "GPU", nil, nil, 0, 1},
		"removed, no hashes":      obj{"type", "BlockRemoved", "medium", "GPU"},
		"removed, tag only":       arr{"BlockRemoved"},
		"removed, hashes a text":  arr{"BlockRemoved", "x", "GPU"},
		"removed, medium a float": arr{"BlockRemoved", arr{1}, 1.5},
	} {
		var d Decoder
		b, err := d.Decode(pack(arr{stamp, arr{good(10), bad, good(11), arr{"Nova"}, obj{"type", "Nova"}}, 3}))
		require.NoError(t, err, name)
		assert.Equal(t, 1, b.Malformed, name)
		assert.Equal(t, 2, b.Unknown, name)
		assert.Equal(t, 3, b.Rank, name)
		require.Len(t, b.Events, 2, name)
		assert.Equal(t, hashes{10}, b.Events[0].Hashes, name)
		assert.Equal(t, hashes{11}, b.Events[1].Hashes, name)
		assert.Equal(t, ids(1, 4), b.Events[1].Tokens, name)
	}
}

func TestBadPayload(t *testing.T) {
	t.Parallel()
	deep := make([]byte, 1<<20)
	for i := range deep {
		deep[i] = 0x91
	}
	good := pack(arr{stamp, arr{arr{"AllBlocksCleared"}}, 0})
	for name, c := range map[string]struct {
		payload []byte
		err     error
	}{
		"nothing":              {nil, ErrSyntax},
		"a number":             {pack(1), ErrShape},
		"nil":                  {pack(nil), ErrShape},
		"empty array":          {pack(arr{}), ErrShape},
		"one element":          {pack(arr{1}), ErrShape},
		"empty map":            {pack(obj{}), ErrShape},
		"map without events":   {pack(obj{"ts", 1}), ErrShape},
		"events twice":         {pack(obj{"events", arr{}, "events", arr{}}), ErrShape},
		"time a text":          {pack(arr{"x", arr{}}), ErrShape},
		"events a text":        {pack(arr{1, "x"}), ErrShape},
		"trailing data":        {append(append([]byte{}, good...), 0), ErrSyntax},
		"two batches":          {append(append([]byte{}, good...), good...), ErrSyntax},
		"reserved byte":        {[]byte{0x92, 0x01, 0x91, 0xc1}, ErrSyntax},
		"depth":                {deep, ErrShape},
		"depth within":         {append([]byte{0x93, 0x01}, deep...), ErrSyntax},
		"announced array":      {[]byte{0x92, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff}, ErrSyntax},
		"announced map":        {[]byte{0xdf, 0xff, 0xff, 0xff, 0xff}, ErrSyntax},
		"announced text":       {[]byte{0x92, 0x01, 0x91, 0x91, 0xdb, 0xff, 0xff, 0xff, 0xff}, ErrSyntax},
		"announced bytes":      {[]byte{0x92, 0x01, 0x91, 0xc6, 0xff, 0xff, 0xff, 0xff}, ErrSyntax},
		"announced extension":  {[]byte{0x92, 0x01, 0x91, 0xc9, 0xff, 0xff, 0xff, 0xff, 1}, ErrSyntax},
		"JSON":                 {[]byte(`{"ts":1,"events":[]}`), ErrShape},
		"damaged event length": {[]byte{0x92, 0x01, 0x91, 0x9f, 0xa1, 'x'}, ErrSyntax},
	} {
		var d Decoder
		b, err := d.Decode(c.payload)
		require.ErrorIs(t, err, c.err, name)
		assert.Nil(t, b, name)
	}
}

// Cut anywhere, a payload is an error, and the decoder is as good as new after.
func TestCutPayload(t *testing.T) {
	t.Parallel()
	var d Decoder
	known := want()
	for _, v := range loadVectors(t, "testdata/kv_events.json") {
		payload := unhex(t, v.Hex)
		for n := range payload {
			_, err := d.Decode(payload[:n])
			require.ErrorIs(t, err, ErrSyntax, "%s cut at %d", v.ID, n)
		}
		b, err := d.Decode(payload)
		require.NoError(t, err)
		assert.Equal(t, known[v.ID], b)
	}
}

// Extension types, which no engine sends today, are passed over.
func TestExtensionsArePassedOver(t *testing.T) {
	t.Parallel()
	for _, ext := range []raw{
		{0xd4, 1, 0},
		{0xd5, 1, 0, 0},
		{0xd6, 1, 0, 0, 0, 0},
		{0xd7, 1, 0, 0, 0, 0, 0, 0, 0, 0},
		append(raw{0xd8, 1}, make(raw, 16)...),
		{0xc7, 2, 1, 0, 0},
		{0xc8, 0, 1, 1, 0},
		{0xc9, 0, 0, 0, 1, 1, 0},
	} {
		e := one(t, obj{"x", ext, "type", "BlockRemoved", "block_hashes", arr{1}, "y", arr{ext, true, 1.5, []byte("b")}})
		assert.Equal(t, kvcache.Removed, e.Kind)
	}
}

// A huge batch doesn't pin its memory, nor do endless names.
func TestMemoryIsLetGo(t *testing.T) {
	t.Parallel()
	var d Decoder
	const n = maxKept + 16
	big := pack(arr{stamp, arr{arr{"BlockStored", arr{1}, nil, tokens(0, n), n, nil}}, 0})
	_, err := d.Decode(big)
	require.NoError(t, err)
	_, err = d.Decode(pack(arr{stamp, arr{}, 0}))
	require.NoError(t, err)
	assert.LessOrEqual(t, cap(d.tokens), maxKept)

	for i := range 3 * maxInterned {
		d.name(appendUint([]byte("name"), uint64(i)))
	}
	assert.LessOrEqual(t, len(d.names), maxInterned)
	long := d.name(make([]byte, maxInternedLen+1))
	assert.NotContains(t, d.names, long)
}
