// Package hftok computes token ids with Hugging Face's own Rust tokenizers,
// through github.com/daulet/tokenizers. It is a module of its own, because it
// needs cgo and a static library, libtokenizers.a.
//
// Package kvcache/prompt/tokenizer does the same in pure Go, faster, for the BPE
// tokenizers that nearly all language models have. Take this package for the
// types which that one refuses (Unigram, WordPiece, precompiled normalizers), or
// to check that one: both have the same Encode, so that one stands in for the
// other.
//
// # The library
//
// A clone of this repository builds it from source with cargo, once, into the
// user's cache:
//
//	export CGO_LDFLAGS="$(make -s hftok-lib)"
//	go build ./...
//
// Without it a build with cgo ends in "cannot find -ltokenizers". Without cgo
// (CGO_ENABLED=0) the package compiles, and [Load] returns an error that wraps
// [errors.ErrUnsupported].
//
// # Trust
//
// A tokenizer.json is read by code that isn't Go: load files that you would also
// give to an engine, not what a client sends. Memory of the library does not
// count towards GOMEMLIMIT; a tokenizer takes some ten times the size of its file.
package hftok
