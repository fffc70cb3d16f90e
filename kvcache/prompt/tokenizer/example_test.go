package tokenizer_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer"
)

func ExampleLoad() {
	data, err := os.ReadFile("testdata/bytes.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := tokenizer.Load(data, tokenizer.Options{})
	if errors.Is(err, tokenizer.ErrUnsupported) {
		fmt.Println("have the engine tokenize:", err)
		return
	}
	ids, err := t.Encode(nil, "<|user|>the router's cache", false)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range ids {
		token, _ := t.Token(id)
		fmt.Printf("%q ", token)
	}
	// Output: "<|user|>" "t" "he" "Ġr" "outer" "'s" "Ġcache"
}
