//go:build cgo

package hftok

import "github.com/daulet/tokenizers"

type native = *tokenizers.Tokenizer

// supported reports that the package works.
func supported() error { return nil }

func open(data []byte) (native, error) { return tokenizers.FromBytes(data) }

func sizeOf(n native) int { return int(n.VocabSize()) }

// encode asks for ids only. The variant without "Err" returns nothing both for
// nothing and for a failure.
func encode(n native, text string, addSpecial bool) ([]uint32, error) {
	out, err := n.EncodeWithOptionsErr(text, addSpecial)
	return out.IDs, err
}

func free(n native) { _ = n.Close() } // which always returns nil
