package main

import (
	"testing"

	"github.com/kvsteer/kvsteer/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
