package wire

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// keyed is a store of two blocks with the given extra keys.
func keyed(adapter, parent, keys any) arr {
	return arr{"BlockStored", arr{1, 2}, parent, tokens(1, 8), 4, nil, "GPU", adapter, keys}
}

func TestExtraKeys(t *testing.T) {
	t.Parallel()
	type extras = [][]kvcache.Extra
	item := func(id string, offset int) kvcache.Extra { return kvcache.Extra{ID: id, Offset: offset} }
	for name, c := range map[string]struct {
		adapter, parent, keys any
		salt, wantAdapter     string
		want                  extras
	}{
		"absent":            {nil, nil, nil, "", "", nil},
		"empty":             {nil, nil, arr{}, "", "", nil},
		"nothing per block": {nil, nil, arr{nil, arr{}}, "", "", nil},
		"adapter":           {"l", nil, arr{arr{"l"}, arr{"l"}}, "", "l", nil},
		"adapter and salt":  {"l", nil, arr{arr{"l", "s"}, arr{"l"}}, "s", "l", nil},
		"salt like adapter": {"l", nil, arr{arr{"l", "l"}, arr{"l"}}, "l", "l", nil},
		"salt":              {nil, nil, arr{arr{"s"}, nil}, "s", "", nil},
		"item": {
			nil, nil,
			arr{arr{arr{"img", 2}}, arr{arr{"img", -2}}},
			"", "",
			extras{{item("img", 2)}, {item("img", -2)}},
		},
		"adapter, items, salt": {
			"l", nil,
			arr{arr{"l", arr{"i", 1}, arr{"j", 3}, "s"}, arr{"l", arr{"j", -1}}},
			"s", "l",
			extras{{item("i", 1), item("j", 3)}, {item("j", -1)}},
		},
		"only the second block": {nil, nil, arr{nil, arr{arr{"i", 0}}}, "", "", extras{nil, {item("i", 0)}}},
		"old identifiers later": {
			nil, 9,
			arr{arr{"i"}, arr{"i", "j"}},
			"", "",
			extras{{item("i", 0)}, {item("i", 0), item("j", 0)}},
		},
		"old identifiers and salt at the start": {
			nil, nil,
			arr{arr{"i", "s"}, arr{"i"}},
			"s", "",
			extras{{item("i", 0)}, {item("i", 0)}},
		},
		"embeddings": {
			nil, nil,
			arr{arr{[]byte{1, 2}}, arr{"x", []byte{3}}},
			"", "",
			extras{{item(EmbedsPrefix+"\x01\x02", 0)}, {item("x", 0), item(EmbedsPrefix+"\x03", 0)}},
		},
		"salt before embeddings": {
			nil, nil,
			arr{arr{"s", []byte{1}}, nil},
			"s", "",
			extras{{item(EmbedsPrefix+"\x01", 0)}, nil},
		},
		"typed": {
			nil, nil,
			arr{
				arr{
					obj{"type", "lora", "name", "l"},
					obj{"type", "mm", "modality", "image", "hash", "i", "block_offset", -3},
					obj{"type", "cache_salt", "salt", "s"},
					obj{"type", "prompt_embeds", "hash", []byte{9}},
				},
				arr{obj{"type", "lora", "name", "l"}},
			},
			"s", "l",
			extras{{item("i", -3), item(EmbedsPrefix+"\x09", 0)}, nil},
		},
		"unknown kinds are kept apart": {
			nil, 9,
			arr{arr{7}, arr{nil}},
			"", "",
			extras{{item(OpaquePrefix+"\x07", 0)}, {item(OpaquePrefix+"\xc0", 0)}},
		},
		"item with more in it": {
			nil, 9,
			arr{arr{arr{"i", 1, 2}}, nil},
			"", "",
			extras{{item(OpaquePrefix+"\x93\xa1i\x01\x02", 0)}, nil},
		},
		"typed of an unknown type": {
			nil, 9,
			arr{arr{obj{"type", "x", "value", "i"}}, nil},
			"", "",
			extras{{item(OpaquePrefix+string(pack(obj{"type", "x", "value", "i"})), 0)}, nil},
		},
		"typed adapter that contradicts the name": {
			"l", 9,
			arr{arr{obj{"type", "lora", "name", "m"}}, nil},
			"", "l",
			extras{{item(OpaquePrefix+string(pack(obj{"type", "lora", "name", "m"})), 0)}, nil},
		},
	} {
		e := one(t, keyed(c.adapter, c.parent, c.keys))
		assert.Equal(t, c.want, e.Extras, name)
		assert.Equal(t, c.salt, e.Salt, name)
		assert.Equal(t, c.wantAdapter, e.Adapter, name)
		assert.False(t, e.AdapterUnnamed, name)
	}
}

func TestExtraKeysThatDontAlign(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]any{
		"fewer":     arr{nil},
		"more":      arr{nil, nil, nil},
		"a map":     obj{"a", 1},
		"a text":    "x",
		"bad block": arr{"x", nil},
	} {
		var d Decoder
		b, err := d.Decode(pack(arr{stamp, arr{keyed(nil, nil, keys), arr{"AllBlocksCleared"}}, 0}))
		require.NoError(t, err, name)
		assert.Equal(t, 1, b.Malformed, name)
		assert.Len(t, b.Events, 1, name)
	}
}
