package fleettest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// cached asks for a completion of text and returns how many of its tokens the
// engine found in its cache.
func cached(client *http.Client, url, text string) (int, error) {
	body, err := json.Marshal(map[string]any{"model": "fake-model", "prompt": text, "max_tokens": 1})
	if err != nil {
		return 0, err
	}
	resp, err := client.Post(url+"/v1/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.Usage.Details.Cached, err
}

func Example() {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	engine, err := fleettest.Start(fleettest.Config{Speed: 1000})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()

	prompt := fleettest.Text(1, 1000)
	for range 2 {
		fmt.Println(cached(client, engine.URL(), prompt))
	}
	if err = engine.Restart(); err != nil {
		fmt.Println(err)
		return
	}
	// The restart cut the connections that the client had kept.
	client.CloseIdleConnections()
	fmt.Println(cached(client, engine.URL(), prompt))
	// Output:
	// 0 <nil>
	// 992 <nil>
	// 0 <nil>
}

func ExampleConfig_hub() {
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	hub := follow.NewHub()
	engine, err := fleettest.Start(fleettest.Config{Name: "a", Speed: 1000, Hub: hub})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	endpoint := engine.Worker().Events[0]
	fmt.Println(endpoint.Events)
	if _, err = cached(client, engine.URL(), fleettest.Text(1, 100)); err != nil {
		fmt.Println(err)
		return
	}

	// What a router would do: dial, replay what came before, decode.
	ctx := context.Background()
	conn, err := hub.Dial(ctx, endpoint)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	var decoder wire.Decoder
	err = conn.Replay(ctx, 0, func(m follow.Message) error {
		batch, bad := decoder.Decode(m.Payload)
		if bad == nil {
			fmt.Println("message", m.Seq, "stores", len(batch.Events[0].Hashes), "blocks")
		}
		return bad
	})
	fmt.Println(err)
	// Output:
	// inproc://a
	// message 0 stores 6 blocks
	// <nil>
}

// An engine and its client in one process, without sockets.
func ExampleNewNetwork() {
	network := fleettest.NewNetwork()
	client := &http.Client{Transport: network.Transport()}
	defer client.CloseIdleConnections()
	engine, err := fleettest.Start(fleettest.Config{Name: "a", Speed: 1000, Network: network})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = engine.Close() }()
	fmt.Println(engine.URL())
	fmt.Println(cached(client, engine.URL(), fleettest.Text(1, 100)))
	// Output:
	// http://a
	// 0 <nil>
}

func ExampleTokenize() {
	turn := fleettest.Text(1, 3)
	fmt.Println(len(fleettest.Tokenize(turn)), len(fleettest.Tokenize(turn+" and more")))
	// Output: 3 5
}
