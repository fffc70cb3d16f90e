package trtllm

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// The answer of the reference, from the text to the events.
func TestGoldenAnswer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../wire/testdata/trtllm.json")
	require.NoError(t, err)
	d := Decoder{TokensPerBlock: 4}
	var ids []uint64
	var got []kvcache.Event
	how, bad := split(text, func(ev event) {
		ids = append(ids, ev.id)
		b, err := d.Decode(payload(ev.raw, 5))
		require.NoError(t, err)
		assert.Equal(t, -1, b.Rank)
		assert.Zero(t, b.Malformed+b.Unknown)
		got = append(got, b.Events...)
	})
	assert.Equal(t, endComplete, how)
	assert.Zero(t, bad)
	assert.Equal(t, []uint64{0, 1, 2, 3}, ids)
	h := []kvcache.EngineHash{924206229973855}
	assert.Equal(t, []kvcache.Event{
		{Kind: kvcache.Stored, Hashes: h, Tokens: []uint32{1, 2, 3, 4}, BlockSize: 4},
		{Kind: kvcache.Stored, Hashes: h, Tier: kvcache.TierCPU},
		{Kind: kvcache.Removed, Hashes: h},
		{Kind: kvcache.Removed, Hashes: h, Tier: kvcache.TierGPU},
		{Kind: kvcache.Removed, Hashes: h, Tier: kvcache.TierCPU},
		{Kind: kvcache.Removed, Hashes: h, Tier: kvcache.TierRemote},
	}, got)
}

// What a decoder has learned of one process says nothing of the next.
func TestDecoderForgetsWithTheProcess(t *testing.T) {
	t.Parallel()
	var d Decoder
	decode := func(epoch int64, data string) *kvcache.Batch {
		b, err := d.Decode(payload([]byte(`{"event_id":1,"window_size":100,"data":`+data+`}`), epoch))
		require.NoError(t, err)
		return b
	}
	assert.Empty(t, decode(1, stored("null", 1)).Events, "one block of 4 might be part of one of 32")
	assert.Len(t, decode(1, stored("null", 1, 2)).Events, 1, "a block with a successor is whole")
	assert.Len(t, decode(1, stored("null", 3)).Events, 1)
	assert.Empty(t, decode(2, stored("null", 3)).Events)
}

func TestDecoderErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"": wire.ErrSyntax, "{": wire.ErrSyntax, "[]": wire.ErrShape, "{}": wire.ErrShape,
		`{"kvsteer_epoch":1,}`: wire.ErrSyntax,
	} {
		b, err := new(Decoder).Decode([]byte(text))
		require.ErrorIs(t, err, want, text)
		assert.Nil(t, b)
	}
}

func BenchmarkDecode(b *testing.B) {
	tokens := make([]int, 0, 64)
	for i := range cap(tokens) {
		tokens = append(tokens, i)
	}
	p := payload([]byte(`{"event_id":1,"window_size":100,"data":`+stored("null", tokens...)+`}`), 1)
	d := Decoder{TokensPerBlock: 4}
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(p); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(len(tokens))/b.Elapsed().Seconds(), "blocks/s")
}
