package fleettest

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// The payloads are what the engines' own encoder produces for these events, from
// the vectors that the decoder of kvcache/wire is tested with.
func TestEncodeMatchesTheEnginesBytes(t *testing.T) {
	t.Parallel()
	const (
		first, second = 9561501211280363793, 15292913576410714033
		ts            = 1790000000.25
	)
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	stored := func(id identity, hashes ...uint64) sim.Event {
		return sim.Event{
			Kind: sim.BlockStored, Hashes: hashes, Tokens: tokens, BlockSize: 4,
			Request: &sim.Request{Tag: &job{identity: id}},
		}
	}
	removed := func(hashes ...uint64) sim.Event { return sim.Event{Kind: sim.BlockRemoved, Hashes: hashes} }
	cleared := sim.Event{Kind: sim.AllBlocksCleared}
	negative, sglangSecond := int64(-3488128144981237669), uint64(5674439469042975057)
	for _, test := range []struct {
		name   string
		format EventFormat
		rank   int
		events []sim.Event
		want   string
	}{
		{"vLLM map", EventsVLLM, 0, []sim.Event{stored(identity{}, first, second)}, "93cb41daac4ee0100000918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392cf84b146b151d55111cfd43b57df56b58fb1b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473980102030405060708aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa65787472615f6b65797392c0c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00"},
		{"vLLM map removed and cleared", EventsVLLM, 0, []sim.Event{removed(second), cleared}, "93cb41daac4ee01000009284a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cfd43b57df56b58fb1a66d656469756da3475055a967726f75705f6964780081a474797065b0416c6c426c6f636b73436c656172656400"},
		{"vLLM map with adapter, salt and session", EventsVLLM, 1, []sim.Event{stored(identity{adapter: "my-lora", adapterID: 1, salt: "tenant-a", session: "s-1"}, 12569570880391737273, 4022125153796133198)}, "93cb41daac4ee0100000918ca474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392cfae70161e88d7efb9cf37d175846a2e914eb1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473980102030405060708aa626c6f636b5f73697a6504a76c6f72615f696401a66d656469756da3475055a96c6f72615f6e616d65a76d792d6c6f7261aa65787472615f6b6579739292a76d792d6c6f7261a874656e616e742d6191a76d792d6c6f7261a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6eaa73657373696f6e5f6964a3732d3101"},
		{"vLLM array of 7", EventsVLLMArray7, 0, []sim.Event{stored(identity{}, first, second), removed(second)}, "93cb41daac4ee01000009297ab426c6f636b53746f72656492cf84b146b151d55111cfd43b57df56b58fb1c098010203040506070804c0a347505593ac426c6f636b52656d6f76656491cfd43b57df56b58fb1a347505500"},
		{"vLLM array of 12", EventsVLLMArray12, 0, []sim.Event{stored(identity{}, first, second), removed(second), cleared}, "93cb41daac4ee0100000939cab426c6f636b53746f72656492cf84b146b151d55111cfd43b57df56b58fb1c098010203040506070804c0a3475055c092c0c000ae66756c6c5f617474656e74696f6ec094ac426c6f636b52656d6f76656491cfd43b57df56b58fb1a34750550091b0416c6c426c6f636b73436c656172656400"},
		{"SGLang map", EventsSGLang, 0, []sim.Event{stored(identity{}, uint64(negative), sglangSecond), removed(uint64(negative)), removed(sglangSecond), cleared}, "93cb41daac4ee01000009387a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657392d3cf97adeedb59e05bcf4ebfa8a1f3c34151b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473980102030405060708aa626c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da347505583a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657392d3cf97adeedb59e05bcf4ebfa8a1f3c34151a66d656469756da347505581a474797065b0416c6c426c6f636b73436c656172656400"},
		{"SGLang array of 7", EventsSGLangArray, 0, []sim.Event{stored(identity{}, uint64(negative), sglangSecond), removed(sglangSecond), cleared}, "93cb41daac4ee01000009397ab426c6f636b53746f72656492d3cf97adeedb59e05bcf4ebfa8a1f3c34151c098010203040506070804c0a347505593ac426c6f636b52656d6f76656491cf4ebfa8a1f3c34151a347505591b0416c6c426c6f636b73436c656172656400"},
	} {
		got := encoder{format: test.format, rank: test.rank}.encode(ts, test.events)
		if hex.EncodeToString(got) != test.want {
			t.Errorf("%s:\n got %x\nwant %s", test.name, got, test.want)
		}
	}
}

// Every integer width survives a round trip through the decoder.
func TestPackIntegers(t *testing.T) {
	t.Parallel()
	hashes := []uint64{
		0, 127, 128, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64, math.MaxInt64 + 1,
		math.MaxUint64, math.MaxUint64 - 31, math.MaxUint64 - 32, math.MaxUint64 - 127, math.MaxUint64 - 128,
		math.MaxUint64 - math.MaxInt16, math.MaxUint64 - math.MaxInt16 - 1, math.MaxUint64 - math.MaxInt32, math.MaxUint64 - math.MaxInt32 - 1,
	}
	for _, e := range []encoder{{format: EventsVLLM}, {format: EventsSGLang}, {format: EventsVLLM, bytes: true}} {
		var dec wire.Decoder
		batch, err := dec.Decode(e.encode(1, []sim.Event{{Kind: sim.BlockRemoved, Hashes: hashes}}))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range hashes {
			if got := uint64(batch.Events[0].Hashes[i]); got != want {
				t.Errorf("%+v: %d became %d", e, want, got)
			}
		}
	}
}

// Long lists and strings take wider headers.
func TestPackLengths(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 15, 16, 65535, 65536} {
		hashes := make([]uint64, n)
		name := make([]byte, n)
		for i := range name {
			name[i] = 'a'
		}
		id := identity{adapter: string(name), adapterID: 1}
		event := sim.Event{
			Kind: sim.BlockStored, Hashes: hashes, Tokens: make([]uint32, n), BlockSize: 1,
			Request: &sim.Request{Tag: &job{identity: id}},
		}
		var dec wire.Decoder
		batch, err := dec.Decode(encoder{format: EventsVLLMArray8}.encode(1, []sim.Event{event}))
		if err != nil || len(batch.Events) != 1 {
			t.Fatalf("%d: %v", n, err)
		}
		if e := batch.Events[0]; len(e.Hashes) != n || len(e.Tokens) != n || len(e.Adapter) != n {
			t.Errorf("%d: %d hashes, %d tokens, a name of %d bytes", n, len(e.Hashes), len(e.Tokens), len(e.Adapter))
		}
	}
}
