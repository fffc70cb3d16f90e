//go:build !cgo

package hftok_test

import (
	"errors"
	"testing"

	"github.com/kvsteer/kvsteer/kvcache/hftok"
)

func TestUnsupported(t *testing.T) {
	if _, err := hftok.Load([]byte(`{}`)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Load returned %v", err)
	}
	if _, err := hftok.LoadFile("testdata/bpe.json"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("LoadFile returned %v", err)
	}
}
