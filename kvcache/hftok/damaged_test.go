//go:build cgo

package hftok_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/hftok"
)

// damages is how many damaged files are tried: a few seconds' worth.
const damages = 300

// Files with something changed in them load or don't; they end neither the
// process nor a call, and what encodes gives ids or an error.
func TestDamagedFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	loaded := 0
	for range damages {
		data := damage(t, r, kinds[r.IntN(len(kinds))])
		tok, err := hftok.Load(data)
		if err != nil {
			assert.Nil(t, tok)
			continue
		}
		loaded++
		for _, text := range []string{"", "The router keeps ①½ \u200b 中文 <s>"} {
			dst := []uint32{1}
			ids, err := tok.Encode(dst, text, true)
			assert.True(t, err == nil || len(ids) == 1)
		}
		require.NoError(t, tok.Close())
	}
	assert.Greater(t, loaded, damages/10)
	assert.Less(t, loaded, damages)
}

// damage returns a tokenizer of testdata with one or two values changed, mostly
// outside of its long vocabulary.
func damage(t testing.TB, r *rand.Rand, kind string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + kind + ".json")
	require.NoError(t, err)
	var file map[string]any
	require.NoError(t, json.Unmarshal(data, &file))
	for range 1 + r.IntN(2) {
		all := places(file, r.IntN(4) == 0)
		at := all[r.IntN(len(all))]
		other, err := json.Marshal(all[r.IntN(len(all))].value)
		require.NoError(t, err)
		at.set(damaged(r, at.value, json.RawMessage(other)))
		data, err = json.Marshal(file)
		require.NoError(t, err)
		file = nil
		require.NoError(t, json.Unmarshal(data, &file))
	}
	return data
}

func damaged(r *rand.Rand, value, other any) any {
	switch r.IntN(7) {
	case 0:
		return nil
	case 1:
		return other
	case 2:
		return r.IntN(1 << 30)
	case 3:
		return -1.5
	default:
	}
	switch v := value.(type) {
	case string:
		if v == "" {
			return "x"
		}
		b := []byte(v)
		b[r.IntN(len(b))] ^= 1 << r.IntN(6)
		return string(b[:1+r.IntN(len(b))])
	case float64:
		return v + float64(r.IntN(5)) - 2
	case []any:
		return v[:r.IntN(len(v)+1)]
	case bool:
		return !v
	default:
		return []any{}
	}
}

type place struct {
	value any
	set   func(any)
}

// places lists the values in a file, those inside of the model only on demand.
func places(file map[string]any, model bool) []place {
	var all []place
	var walk func(v any)
	add := func(v any, set func(any)) {
		all = append(all, place{v, set})
		walk(v)
	}
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range sorted(v) {
				add(v[k], func(n any) { v[k] = n })
			}
		case []any:
			for i := range v {
				add(v[i], func(n any) { v[i] = n })
			}
		default:
		}
	}
	for _, k := range sorted(file) {
		if k != "model" || model {
			add(file[k], func(n any) { file[k] = n })
		}
	}
	return all
}
