package prompt_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// An engine with /tokenize gives exact ids; without an engine the encoding is
// approximate, and says why.
func ExampleNewEncoder() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/tokenize" {
			http.NotFound(w, r)
			return
		}
		_, _ = fmt.Fprint(w, `{"count":4,"max_model_len":4096,"tokens":[151644,872,198,6023]}`)
	}))
	defer engine.Close()

	encoder := prompt.NewEncoder(prompt.Options{Deadline: 5 * time.Second})
	defer func() { _ = encoder.Close() }()

	api, _ := prompt.APIForPath("/v1/chat/completions")
	body := []byte(`{"model":"qwen3","messages":[{"role":"user","content":"hi"}]}`)
	for _, url := range []string{engine.URL, ""} {
		encoding, err := encoder.Encode(context.Background(), &prompt.Request{
			API: api, Model: "qwen3", Body: body, Engine: prompt.Engine{BaseURL: url},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(encoding.Source, encoding.Count, encoding.Tokens)
		for _, d := range encoding.Degraded {
			fmt.Printf("  not from %s: %s\n", d.Source, d.Reason)
		}
		body = []byte(`{"model":"qwen3","messages":[{"role":"user","content":"bye"}]}`)
	}
	// Output:
	// tokenize 4 [151644 872 198 6023]
	//   not from render: endpoint not available
	// bytes 3 []
	//   not from render: no engine to ask
	//   not from tokenize: no engine to ask
}
