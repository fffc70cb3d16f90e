package trtllm_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/trtllm"
)

// An index that follows a TensorRT-LLM server.
func ExampleTransport() {
	answers := make(chan string, 1)
	answers <- `[{"event_id":0,"data":{"type":"created","num_blocks_per_cache_level":[1000,0]},"window_size":32768},
		{"event_id":1,"data":{"type":"stored","parent_hash":null,"blocks":[{"block_hash":924206229973855,
		"tokens":[{"token_id":1},{"token_id":2},{"token_id":3},{"token_id":4}],"cache_level":0}]},"window_size":32768}]`
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case text := <-answers:
			_, _ = io.WriteString(w, text)
		default:
			_, _ = io.WriteString(w, "[]")
		}
	}))
	defer engine.Close()

	index := kvcache.NewIndex(kvcache.Options{})
	owner := index.Join("worker-1")
	f, err := follow.Start(context.Background(), follow.Config{
		Transport: &trtllm.Transport{Interval: 10 * time.Millisecond},
		Decoder:   &trtllm.Decoder{TokensPerBlock: 4},
		Endpoint:  follow.Endpoint{Events: engine.URL},
		Index:     index,
		Owner:     func(rank int) (kvcache.Owner, bool) { return owner, rank == 0 },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = f.Close() }()

	for f.Stats().Messages < 2 {
		time.Sleep(time.Millisecond)
	}
	_ = f.Close() // waits until what came is applied
	keys := kvcache.Hasher{BlockSize: 4}.Keys(nil, []uint32{1, 2, 3, 4, 5}, kvcache.Scope{}, nil)
	hits := make([]kvcache.Hit, 1)
	index.Match(keys, []kvcache.Owner{owner}, hits)
	fmt.Println(hits[0].Blocks, "block")
	// Output: 1 block
}

// An event as it comes from a Transport.
func ExampleDecoder() {
	d := trtllm.Decoder{TokensPerBlock: 32}
	batch, err := d.Decode([]byte(`{"event_id":7,"data":{"type":"removed","block_hashes":[18446744073709551615]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(batch.Events[0].Kind == kvcache.Removed, uint64(batch.Events[0].Hashes[0]))
	// Output: true 18446744073709551615
}
