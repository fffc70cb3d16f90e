//go:build !cgo

package hftok

import (
	"errors"
	"fmt"
)

type native struct{}

// supported says why the package can't work.
func supported() error {
	return fmt.Errorf("hftok: built without cgo, which the Rust tokenizers need; "+
		"use package kvcache/prompt/tokenizer or build with CGO_ENABLED=1: %w", errors.ErrUnsupported)
}

func open([]byte) (native, error) { return native{}, supported() }

func sizeOf(native) int { return 0 }

func encode(native, string, bool) ([]uint32, error) { return nil, supported() }

func free(native) {}
