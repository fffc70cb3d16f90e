package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// What may be null or left out, and what may not be anything else.
func TestTRTLLMFields(t *testing.T) {
	t.Parallel()
	block := trtBlockOf("1", 0, "", 1, 2, 3, 4)
	good := map[string]string{
		"nulls around":    `{"event_id":1,"attention_dp_rank":null,"layer_group_id":null,"window_size":null,"hash_algo":null,"data":{"type":"stored","parent_hash":null,"blocks":[` + block + `]}}`,
		"nulls within":    strings.Replace(trtStored(1, "null", block), `"priority":35`, `"priority":null,"mm_keys":null,"cache_salt":null,"lora_id":null`, 1),
		"no level":        strings.Replace(trtStored(1, "null", block), `"cache_level":0,`, "", 1),
		"null level":      strings.Replace(trtStored(1, "null", block), `"cache_level":0,`, `"cache_level":null,`, 1),
		"null extra id":   strings.Replace(trtStored(1, "null", block), `"token_extra_id":0`, `"token_extra_id":null`, 1),
		"empty items":     strings.Replace(trtStored(1, "null", block), `"priority":35`, `"mm_keys":[]`, 1),
		"data before id":  `{"data":{"blocks":[` + block + `],"parent_hash":null,"type":"stored"},"event_id":1}`,
		"unknown members": strings.Replace(trtStored(1, "null", block), `"token_id":1`, `"new":[{}],"token_id":1`, 1),
		"negative rank":   strings.Replace(trtStored(1, "null", block), `"event_id"`, `"attention_dp_rank":-1,"layer_group_id":-2,"event_id"`, 1),
	}
	for name, text := range good {
		d := TRTLLMDecoder{TokensPerBlock: 4}
		b, err := d.DecodeEvent([]byte(text))
		require.NoError(t, err, name)
		assert.Zero(t, b.Malformed, name)
		assert.Equal(t, -1, b.Rank, name)
		assert.Equal(t, []kvcache.Event{{Kind: kvcache.Stored, Hashes: hashes{1}, Tokens: ids(1, 4), BlockSize: 4}}, b.Events, name)
	}
	in := func(old, text string) string { return strings.Replace(trtStored(1, "null", block), old, text, 1) }
	for name, text := range map[string]string{
		"no block":           in(block, "5"),
		"no token":           in(`{"type":"unique_token","token_id":1,"token_extra_id":0}`, "1"),
		"token too great":    in(`"token_id":1`, `"token_id":4294967296`),
		"token no integer":   in(`"token_id":1`, `"token_id":1.5`),
		"token a text":       in(`"token_id":1`, `"token_id":"1"`),
		"extra id negative":  in(`"token_extra_id":0`, `"token_extra_id":-1`),
		"extra id a text":    in(`"token_extra_id":0`, `"token_extra_id":"1"`),
		"tokens no list":     in(`"tokens":[`, `"tokens":5,"x":[`),
		"level a text":       in(`"cache_level":0`, `"cache_level":"0"`),
		"salt a number":      in(`"priority"`, `"cache_salt":5,"priority"`),
		"items no list":      in(`"priority"`, `"mm_keys":{},"priority"`),
		"item no object":     in(`"priority"`, `"mm_keys":[5],"priority"`),
		"item without hash":  in(`"priority"`, `"mm_keys":[{"start_offset":0}],"priority"`),
		"item's offset":      in(`"priority"`, `"mm_keys":[{"hash":"a","start_offset":4294967296}],"priority"`),
		"hashes an object":   `{"event_id":1,"data":{"type":"removed","block_hashes":{}}}`,
		"hashes null":        `{"event_id":1,"data":{"type":"removed","block_hashes":null}}`,
		"level no object":    `{"event_id":1,"data":{"type":"updated","block_hash":1,"cache_level":1}}`,
		"negative new level": `{"event_id":1,"data":{"type":"updated","block_hash":1,"cache_level":{"old_value":0,"new_value":-1}}}`,
		"data null":          `{"event_id":1,"data":null}`,
	} {
		d := TRTLLMDecoder{TokensPerBlock: 4}
		b, err := d.DecodeEvent([]byte(text))
		require.NoError(t, err, name)
		assert.Equal(t, 1, b.Malformed, name)
		assert.Empty(t, b.Events, name)
	}
	for _, text := range []string{
		`{"event_id":1,"window_size":"x"}`, `{"event_id":1,"attention_dp_rank":4294967296}`, `{"event_id":1,"layer_group_id":1.5}`,
	} {
		_, err := new(TRTLLMDecoder).DecodeEvent([]byte(text))
		require.ErrorIs(t, err, ErrShape, text)
	}
}

// Events that were decoded from a list stay as they are when the next one is read.
func TestTRTLLMBatchesAreTheCallers(t *testing.T) {
	t.Parallel()
	d := TRTLLMDecoder{TokensPerBlock: 4}
	item := func(id string) string { return `,"cache_salt":"` + id + `","mm_keys":[{"hash":"` + id + `"}]` }
	first := trtDecode(t, &d, trtStored(1, "null", trtBlockOf("1", 0, item("a"), 1, 2, 3, 4), trtBlockOf("2", 0, item("b"), 5, 6, 7, 8)))
	want := trtDecode(t, &TRTLLMDecoder{TokensPerBlock: 4}, trtStored(1, "null", trtBlockOf("1", 0, item("a"), 1, 2, 3, 4), trtBlockOf("2", 0, item("b"), 5, 6, 7, 8)))
	trtDecode(t, &d, trtStored(2, "9", trtBlockOf("3", 1, item("c"), 9, 9, 9, 9), trtBlockOf("4", 0, item("d"), 9, 9, 9, 9)))
	assert.Equal(t, want, first)
}

func TestTRTLLMAllocations(t *testing.T) {
	d := TRTLLMDecoder{TokensPerBlock: 4}
	var blocks []string
	for range 64 {
		blocks = append(blocks, trtBlockOf("18446744073709551615", 0, `,"mm_keys":[],"cache_salt":null`, 1, 2, 3, 4))
	}
	text := []byte(trtStored(1, "null", blocks...))
	n := testing.AllocsPerRun(100, func() {
		if b, err := d.DecodeEvent(text); err != nil || b.Malformed > 0 {
			t.Fatal("not decoded")
		}
	})
	assert.LessOrEqual(t, n, 3.0, "hashes, tokens and nothing for each block")
}
