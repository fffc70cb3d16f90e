package wire_test

import (
	"encoding/hex"
	"fmt"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

func ExampleDecoder() {
	// What vLLM 0.10.2 published: a store of two blocks and a removal.
	payload, err := hex.DecodeString("93cb41daac4ee01000009297ab426c6f636b53746f72656492cf84b146b151d55111" +
		"cfd43b57df56b58fb1c098010203040506070804c0a347505593ac426c6f636b52656d6f76656491cfd43b57df56b58fb1a347505500")
	if err != nil {
		fmt.Println(err)
		return
	}
	var d wire.Decoder
	batch, err := d.Decode(payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range batch.Events {
		if e.Kind == kvcache.Stored {
			fmt.Println("stored", e.Hashes, "of", e.BlockSize, "tokens:", e.Tokens)
		} else {
			fmt.Println("removed", e.Hashes)
		}
	}
	// Output:
	// stored [9561501211280363793 15292913576410714033] of 4 tokens: [1 2 3 4 5 6 7 8]
	// removed [15292913576410714033]
}

func ExampleTRTLLMDecoder() {
	d := wire.TRTLLMDecoder{TokensPerBlock: 32}
	batches, err := d.Decode([]byte(`[{"event_id":7,"data":{"type":"removed","block_hashes":[18446744073709551615]},"window_size":4096}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, b := range batches {
		fmt.Println("events", b.First, "to", b.Last, "remove", b.Events[0].Hashes)
	}
	// Output: events 7 to 7 remove [18446744073709551615]
}
