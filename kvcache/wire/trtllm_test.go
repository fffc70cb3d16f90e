package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
)

// trtStored is a stored event of 4-token blocks with the given hashes, in JSON.
func trtStored(id int, parent string, blocks ...string) string {
	return fmt.Sprintf(`{"event_id":%d,"data":{"type":"stored","parent_hash":%s,"blocks":[%s]},"window_size":100}`,
		id, parent, strings.Join(blocks, ","))
}

func trtBlockOf(hash string, level int, more string, tokens ...int) string {
	var list []string
	for _, t := range tokens {
		list = append(list, fmt.Sprintf(`{"type":"unique_token","token_id":%d,"token_extra_id":0}`, t))
	}
	return fmt.Sprintf(`{"type":"stored_block","block_hash":%s,"tokens":[%s],"cache_level":%d,"priority":35%s}`,
		hash, strings.Join(list, ","), level, more)
}

func trtDecode(t *testing.T, d *TRTLLMDecoder, events ...string) []TRTLLMBatch {
	t.Helper()
	out, err := d.Decode([]byte("[" + strings.Join(events, ",") + "]"))
	require.NoError(t, err)
	return out
}

func TestTRTLLMExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/trtllm.json")
	require.NoError(t, err)
	d := TRTLLMDecoder{TokensPerBlock: 4}
	out, err := d.Decode(text)
	require.NoError(t, err)
	h := hashes{924206229973855}
	removed := func(tier kvcache.Tier) kvcache.Event {
		return kvcache.Event{Kind: kvcache.Removed, Hashes: h, Tier: tier}
	}
	assert.Equal(t, []TRTLLMBatch{{
		Batch: kvcache.Batch{Rank: -1, Events: []kvcache.Event{
			{Kind: kvcache.Stored, Hashes: h, Tokens: ids(1, 4), BlockSize: 4},
			{Kind: kvcache.Stored, Hashes: h, Tier: kvcache.TierCPU},
			{Kind: kvcache.Removed, Hashes: h},
			removed(kvcache.TierGPU), removed(kvcache.TierCPU), removed(kvcache.TierRemote),
		}},
		First: 0, Last: 3, Created: true,
	}}, out)
}

func TestTRTLLMHashes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]kvcache.EngineHash{
		"18446744073709551615": 1<<64 - 1,
		"9007199254740993":     9007199254740993,
		"-5":                   signed(-5),
		`"58d0879dff3800f65f8c5fd449d73048c0f7699dd238a03b84b146b151d55111"`: hashA,
		`"ff"`: 255,
	} {
		d := TRTLLMDecoder{TokensPerBlock: 4}
		out := trtDecode(t, &d, trtStored(7, text, trtBlockOf(text, 0, "", 1, 2, 3, 4)))
		require.Len(t, out[0].Events, 1, text)
		assert.Equal(t, hashes{want}, out[0].Events[0].Hashes, text)
		assert.Equal(t, want, out[0].Events[0].Parent, text)
		assert.True(t, out[0].Events[0].HasParent)
	}
	for _, text := range []string{"1e3", "1.5", "18446744073709551616", "-9223372036854775809", `""`, `"abc"`, `"zz"`, "null", "true", "[1]", "{}"} {
		d := TRTLLMDecoder{TokensPerBlock: 4}
		out := trtDecode(t, &d, trtStored(7, "null", trtBlockOf(text, 0, "", 1, 2, 3, 4)))
		assert.Equal(t, 1, out[0].Malformed, text)
		assert.Empty(t, out[0].Events, text)
	}
}

func TestTRTLLMBlocks(t *testing.T) {
	t.Parallel()
	d := TRTLLMDecoder{TokensPerBlock: 4}
	// A tail that is not full is left out, and so is a store of nothing else.
	out := trtDecode(t, &d,
		trtStored(1, "null", trtBlockOf("1", 0, "", 1, 2, 3, 4), trtBlockOf("2", 0, "", 5, 6)),
		trtStored(2, "1", trtBlockOf("3", 0, "", 5, 6, 7)))
	require.Len(t, out, 1)
	assert.Equal(t, []kvcache.Event{{Kind: kvcache.Stored, Hashes: hashes{1}, Tokens: ids(1, 4), BlockSize: 4}}, out[0].Events)
	assert.Zero(t, out[0].Malformed)

	// Blocks in different tiers of one chain.
	out = trtDecode(t, &d, trtStored(1, "9",
		trtBlockOf("1", 0, `,"cache_salt":"s"`, 1, 2, 3, 4), trtBlockOf("2", 1, "", 5, 6, 7, 8), trtBlockOf("3", 1, "", 9, 10, 11, 12)))
	assert.Equal(t, []kvcache.Event{
		{Kind: kvcache.Stored, Hashes: hashes{1}, Parent: 9, HasParent: true, Tokens: ids(1, 4), BlockSize: 4, Salt: "s"},
		{Kind: kvcache.Stored, Hashes: hashes{2, 3}, Parent: 1, HasParent: true, Tokens: ids(5, 8), BlockSize: 4, Tier: kvcache.TierCPU},
	}, out[0].Events)

	// Multimodal keys, extra ids, an adapter without a name.
	out = trtDecode(t, &d, trtStored(1, "null",
		trtBlockOf("1", 0, "", 1, 2, 3, 4),
		trtBlockOf("2", 0, `,"mm_keys":[{"hash":"aa","start_offset":3},{"hash":"bb","start_offset":0,"uuid":"mine"}],"lora_id":5`, 5, 6, 7, 8)))
	e := out[0].Events[0]
	assert.Equal(t, [][]kvcache.Extra{nil, {{ID: "aa", Offset: 3}, {ID: "mine"}}}, e.Extras)
	assert.True(t, e.AdapterUnnamed)
	out = trtDecode(t, &d, trtStored(1, "null",
		`{"block_hash":1,"tokens":[{"token_id":1,"token_extra_id":7},{"token_id":2},{"token_id":3},{"token_id":4}],"cache_level":0}`))
	assert.Equal(t, [][]kvcache.Extra{{{ID: OpaquePrefix + "7"}}}, out[0].Events[0].Extras)
}

func TestTRTLLMLearnsTheBlockSize(t *testing.T) {
	t.Parallel()
	var d TRTLLMDecoder
	// One block alone could be incomplete.
	out := trtDecode(t, &d, trtStored(1, "null", trtBlockOf("1", 0, "", 1, 2, 3, 4)))
	assert.Empty(t, out[0].Events)
	// A block with a successor could not; but a chain that is none teaches nothing.
	out = trtDecode(t, &d, trtStored(1, "null", trtBlockOf("1", 0, "", 1, 2), trtBlockOf("2", 0, "", 5, 6, 7)))
	assert.Equal(t, 1, out[0].Malformed)
	out = trtDecode(t, &d, trtStored(2, "null", trtBlockOf("1", 0, "", 1, 2, 3, 4), trtBlockOf("2", 0, "", 5)))
	assert.Equal(t, hashes{1}, out[0].Events[0].Hashes)
	out = trtDecode(t, &d, trtStored(3, "1", trtBlockOf("2", 0, "", 1, 2, 3, 4)))
	assert.Equal(t, hashes{2}, out[0].Events[0].Hashes)
}

// Blocks that were left out before their size turned out to be the engine's are
// owned up to.
func TestTRTLLMLearnsTooLate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tokens, malformed int }{{4, 2}, {3, 0}} {
		var d TRTLLMDecoder
		for id := range 2 {
			lone := trtBlockOf("1", 0, "", []int{1, 2, 3, 4}[:c.tokens]...)
			assert.Zero(t, trtDecode(t, &d, trtStored(id, "null", lone))[0].Malformed)
		}
		chain := trtStored(2, "null", trtBlockOf("2", 0, "", 5, 6, 7, 8), trtBlockOf("3", 0, "", 5, 6, 7, 8))
		b := trtDecode(t, &d, chain)[0]
		assert.Equal(t, c.malformed, b.Malformed)
		assert.Equal(t, hashes{2, 3}, b.Events[0].Hashes)
		assert.Zero(t, trtDecode(t, &d, chain)[0].Malformed, "once")
	}
}

// The greatest window is full attention, wherever in the answer it comes, and
// in later answers too.
func TestTRTLLMWindows(t *testing.T) {
	t.Parallel()
	d := TRTLLMDecoder{TokensPerBlock: 4}
	small := strings.Replace(trtStored(1, "null", trtBlockOf("1", 0, "", 1, 2, 3, 4)), `"window_size":100`, `"window_size":16`, 1)
	out := trtDecode(t, &d, small, `{"event_id":2,"data":{"type":"created"},"window_size":100}`)
	assert.Equal(t, kvcache.OtherAttention, out[0].Events[0].Attention)
	assert.Equal(t, 16, out[0].Events[0].Group)
	out = trtDecode(t, &d, small, trtStored(2, "null", trtBlockOf("2", 0, "", 1, 2, 3, 4)))
	assert.Equal(t, kvcache.OtherAttention, out[0].Events[0].Attention)
	assert.Equal(t, kvcache.FullAttention, out[0].Events[1].Attention)
	assert.Zero(t, out[0].Events[1].Group)
	grouped := `{"event_id":4,"data":{"type":"removed","block_hashes":[1]},"window_size":100,"layer_group_id":3}`
	assert.Equal(t, 3, trtDecode(t, &d, grouped)[0].Events[0].Group)
}

func TestTRTLLMRuns(t *testing.T) {
	t.Parallel()
	ev := func(id int, rank string) string {
		return fmt.Sprintf(`{"event_id":%d,"attention_dp_rank":%s,"data":{"type":"removed","block_hashes":[]}}`, id, rank)
	}
	var d TRTLLMDecoder
	out := trtDecode(t, &d, ev(5, "0"), ev(0, "1"), ev(6, "0"), ev(1, "1"), ev(9, "0"), ev(0, "0"), ev(3, "null"))
	type run struct {
		rank        int
		first, last uint64
	}
	var got []run
	for _, b := range out {
		got = append(got, run{b.Rank, b.First, b.Last})
	}
	assert.Equal(t, []run{{0, 5, 6}, {1, 0, 1}, {0, 9, 9}, {0, 0, 0}, {-1, 3, 3}}, got)
	assert.Empty(t, trtDecode(t, &d))
}

// A bad event is left out and counted; those around it arrive.
func TestTRTLLMBadEvents(t *testing.T) {
	t.Parallel()
	good := func(id int) string {
		return trtStored(id, "null", trtBlockOf(fmt.Sprint(id), 0, "", 1, 2, 3, 4))
	}
	for name, bad := range map[string]string{
		"no data":            `{"event_id":2}`,
		"data a number":      `{"event_id":2,"data":5}`,
		"type a number":      `{"event_id":2,"data":{"type":5}}`,
		"no parent":          `{"event_id":2,"data":{"type":"stored","blocks":[]}}`,
		"parent a float":     trtStored(2, "1.5"),
		"blocks no list":     `{"event_id":2,"data":{"type":"stored","parent_hash":null,"blocks":7}}`,
		"short in the midst": trtStored(2, "null", trtBlockOf("1", 0, "", 1), trtBlockOf("2", 0, "", 1, 2, 3, 4)),
		"too long":           trtStored(2, "null", trtBlockOf("1", 0, "", 1, 2, 3, 4, 5)),
		"token negative":     trtStored(2, "null", trtBlockOf("1", 0, "", -1, 2, 3, 4)),
		"level negative":     trtStored(2, "null", trtBlockOf("1", -1, "", 1, 2, 3, 4)),
		"second block bad":   trtStored(2, "null", trtBlockOf("1", 0, "", 1, 2, 3, 4), trtBlockOf("null", 1, "", 1, 2, 3, 4)),
		"removed nothing":    `{"event_id":2,"data":{"type":"removed"}}`,
		"removed a float":    `{"event_id":2,"data":{"type":"removed","block_hashes":[1.5]}}`,
		"updated, no hash":   `{"event_id":2,"data":{"type":"updated","cache_level":{"old_value":0,"new_value":1}}}`,
		"updated, no value":  `{"event_id":2,"data":{"type":"updated","block_hash":1,"cache_level":{"old_value":0}}}`,
	} {
		d := TRTLLMDecoder{TokensPerBlock: 4}
		out := trtDecode(t, &d, good(1), bad, good(3), `{"event_id":4,"data":{"type":"news"}}`)
		require.Len(t, out, 1, name)
		assert.Equal(t, 1, out[0].Malformed, name)
		assert.Equal(t, 1, out[0].Unknown, name)
		assert.Len(t, out[0].Events, 2, name)
		assert.Equal(t, uint64(4), out[0].Last, name)
	}
	// Without a number it leaves a gap.
	for _, bad := range []string{`{}`, `5`, `null`, `{"event_id":"x"}`, `{"event_id":-1}`, `{"event_id":2,"attention_dp_rank":"x"}`} {
		d := TRTLLMDecoder{TokensPerBlock: 4}
		out := trtDecode(t, &d, good(1), bad, good(3))
		require.Len(t, out, 2, bad)
		assert.Equal(t, 1, out[0].Malformed, bad)
	}
	d := TRTLLMDecoder{TokensPerBlock: 4}
	out := trtDecode(t, &d, `{"event_id":2,"data":{"type":"updated","block_hash":1,"cache_level":null,"priority":{"old_value":1,"new_value":2}}}`)
	assert.Empty(t, out[0].Events, "a change of priority")
	assert.Zero(t, out[0].Malformed)
}

func TestTRTLLMBadPayload(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"": ErrSyntax, "[": ErrSyntax, "[]x": ErrSyntax, "\x93": ErrSyntax,
		"{}": ErrShape, "null": ErrShape, "5": ErrShape, `[{}]`: ErrShape, `[null]`: ErrShape,
		strings.Repeat("[", 20_000): ErrSyntax,
	} {
		var d TRTLLMDecoder
		out, err := d.Decode([]byte(text))
		require.ErrorIs(t, err, want)
		assert.Nil(t, out)
	}
}

func FuzzTRTLLM(f *testing.F) {
	text, err := os.ReadFile("testdata/trtllm.json")
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte("[" + trtStored(1, "null", trtBlockOf("1", 0, `,"cache_salt":"s"`, 1, 2), trtBlockOf(`"ff"`, 1, "", 5)) + "]"))
	f.Add([]byte(`[{"event_id":4,"attention_dp_rank":1,"data":{"type":"removed","block_hashes":[1]},"window_size":9,"layer_group_id":3}]`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var d TRTLLMDecoder
		out, err := d.Decode(payload)
		if err != nil && out != nil {
			t.Fatal("both batches and an error")
		}
		for i := range out {
			if out[i].Last < out[i].First {
				t.Fatalf("run from %d to %d", out[i].First, out[i].Last)
			}
			for j := range out[i].Events {
				checkEvent(t, &out[i].Events[j])
			}
		}
	})
}

// Event by event the result is that of the whole answer.
func TestTRTLLMDecodeEvent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/trtllm.json")
	require.NoError(t, err)
	var list []json.RawMessage
	require.NoError(t, json.Unmarshal(text, &list))
	whole := TRTLLMDecoder{TokensPerBlock: 4}
	want, err := whole.Decode(text)
	require.NoError(t, err)
	single := TRTLLMDecoder{TokensPerBlock: 4}
	var events []kvcache.Event
	for i, raw := range list {
		b, err := single.DecodeEvent(raw)
		require.NoError(t, err)
		assert.Equal(t, uint64(i), b.First)
		assert.Equal(t, uint64(i), b.Last)
		assert.Equal(t, i == 0, b.Created)
		assert.Equal(t, -1, b.Rank)
		events = append(events, b.Events...)
	}
	assert.Equal(t, want[0].Events, events)

	for text, want := range map[string]error{
		"": ErrSyntax, "{": ErrSyntax, "[]": ErrShape, "5": ErrShape, "null": ErrShape, "{}": ErrShape,
		`{"event_id":1.5}`: ErrShape, `{"event_id":-1}`: ErrShape,
	} {
		b, err := single.DecodeEvent([]byte(text))
		require.ErrorIs(t, err, want, text)
		assert.Nil(t, b)
	}
}

// A greater window that comes late takes back what passed for full attention.
func TestTRTLLMLateWindow(t *testing.T) {
	t.Parallel()
	d := TRTLLMDecoder{TokensPerBlock: 4}
	at := func(window, id int) *TRTLLMBatch {
		text := strings.Replace(trtStored(id, "null", trtBlockOf(fmt.Sprint(id), 0, "", 1, 2, 3, 4)), "100", fmt.Sprint(window), 1)
		b, err := d.DecodeEvent([]byte(text))
		require.NoError(t, err)
		return b
	}
	assert.Equal(t, kvcache.FullAttention, at(16, 1).Events[0].Attention)
	at(16, 2)
	b := at(32, 3)
	require.Len(t, b.Events, 2)
	assert.Equal(t, kvcache.Cleared, b.Events[0].Kind)
	assert.Equal(t, kvcache.Stored, b.Events[1].Kind)
	assert.Equal(t, kvcache.FullAttention, b.Events[1].Attention)
	assert.Equal(t, 2, b.Malformed)
	b = at(16, 4)
	require.Len(t, b.Events, 1)
	assert.Equal(t, kvcache.OtherAttention, b.Events[0].Attention)
	assert.Zero(t, b.Malformed)
	// Windows that only others had before take nothing back.
	e := TRTLLMDecoder{TokensPerBlock: 4}
	for i, window := range []int{16, 32} {
		b, err := e.DecodeEvent(fmt.Appendf(nil, `{"event_id":%d,"data":{"type":"created"},"window_size":%d}`, i, window))
		require.NoError(t, err)
		assert.Empty(t, b.Events)
	}
}
