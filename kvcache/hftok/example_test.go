//go:build cgo

package hftok_test

import (
	"errors"
	"fmt"

	"github.com/kvsteer/kvsteer/kvcache/hftok"
)

// A WordPiece tokenizer, which the pure Go package refuses.
func ExampleLoadFile() {
	tok, err := hftok.LoadFile("testdata/wordpiece.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tok.Close() }()

	ids, err := tok.Encode(nil, "The router keeps its prefix.", true)
	fmt.Println(ids, err)

	_, err = tok.Encode(nil, "a\x00b", true)
	var refused *hftok.TextError
	fmt.Println(errors.As(err, &refused), err)
	// Output:
	// [1 153 260 275 192 243 4 2] <nil>
	// true hftok: text has a NUL, at which the library would end it, at byte 1
}
