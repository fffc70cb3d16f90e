package local_test

import (
	"context"
	"fmt"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// A gateway whose prompts are computed here: give the Encoder to the router with
// kvsteer.WithEncoder. Requests that can't be served exactly go to the engine.
func ExampleNew() {
	source, err := local.New(local.Options{
		Models:  map[string]local.Model{"qwen3": {Dir: "testdata/models/qwen"}},
		Aliases: map[string]string{"my-adapter": "qwen3"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = source.Close() }()
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{source}})
	defer func() { _ = encoder.Close() }()

	for _, body := range []string{
		`{"model":"qwen3","messages":[{"role":"user","content":"Where to?"}]}`,
		`{"model":"qwen3","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a.example/b.png"}}]}]}`,
	} {
		encoding, encodeErr := encoder.Encode(context.Background(), &prompt.Request{
			API: prompt.Chat, Model: "my-adapter", Body: []byte(body),
		})
		if encodeErr != nil {
			fmt.Println(encodeErr)
			return
		}
		fmt.Println(encoding.Source, encoding.Source.Exact())
		for _, d := range encoding.Degraded {
			fmt.Printf("  not from %s: %s\n", d.Source, d.Reason)
		}
	}
	// Output:
	// local true
	// bytes false
	//   not from local: multimodal parts
	//   not from render: no engine to ask
	//   not from tokenize: multimodal parts
	//   not from prefix: placeholders of the model's media are not known
}
