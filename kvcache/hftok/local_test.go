package hftok_test

import (
	"github.com/kvsteer/kvsteer/kvcache/hftok"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// Files that the pure Go tokenizer refuses are served by this package's; all
// others are left to the former, which is faster.
var _ = local.Options{
	Unsupported: func(tokenizerJSON []byte) (local.Tokenizer, error) { return hftok.Load(tokenizerJSON) },
}
