//go:build cgo

package hftok_test

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/hftok"
)

// Close while others encode: each call gets either the right ids or ErrClosed,
// and Close returns only when none is inside the library.
func TestCloseDuringEncode(t *testing.T) {
	const workers, rounds = 4, 30
	text := strings.Repeat("The router keeps its prefix. ", 50)
	want, err := load(t, "bpe").Encode(nil, text, true)
	require.NoError(t, err)
	data, err := os.ReadFile("testdata/bpe.json")
	require.NoError(t, err)
	for range rounds {
		tok, err := hftok.Load(data)
		require.NoError(t, err)
		var wg sync.WaitGroup
		running := make(chan struct{}, workers)
		for range workers {
			wg.Go(func() {
				for first := true; ; first = false {
					got, err := tok.Encode(nil, text, true)
					if err != nil {
						assert.ErrorIs(t, err, hftok.ErrClosed)
						return
					}
					if !slices.Equal(want, got) {
						t.Errorf("wrong ids")
						return
					}
					if first {
						running <- struct{}{}
					}
				}
			})
		}
		for range workers {
			<-running
		}
		for range 2 {
			wg.Go(func() { assert.NoError(t, tok.Close()) })
		}
		wg.Wait()
		require.NoError(t, tok.Close())
	}
}

// Tokenizers that are closed, and tokenizers that are forgotten, give their
// memory back.
func TestMemoryComesBack(t *testing.T) {
	if resident(t) == 0 {
		t.Skip("this system does not tell how much memory a process has")
	}
	const (
		warm   = 20
		cycles = 500
		// growth is what the resident memory may grow by, in bytes: less than a
		// tenth of what the tokenizers of all cycles take.
		growth = 40 << 20
	)
	data, err := os.ReadFile("testdata/bpe.json")
	require.NoError(t, err)
	for name, end := range map[string]func(*hftok.Tokenizer){
		"closed":    func(tok *hftok.Tokenizer) { require.NoError(t, tok.Close()) },
		"forgotten": func(*hftok.Tokenizer) {},
	} {
		t.Run(name, func(t *testing.T) {
			cycle := func() {
				tok, err := hftok.Load(data)
				require.NoError(t, err)
				_, err = tok.Encode(nil, strings.Repeat("The router keeps its prefix. ", 100), true)
				require.NoError(t, err)
				end(tok)
			}
			for range warm {
				cycle()
			}
			settle()
			before := resident(t)
			for i := range cycles {
				cycle()
				if i%warm == 0 {
					settle()
				}
			}
			settle()
			assert.Eventually(t, func() bool {
				settle()
				return resident(t)-before < growth
			}, 30*time.Second, 10*time.Millisecond, "from %d to %d bytes", before, resident(t))
		})
	}
}

// settle lets the garbage collector find what is unreachable, and run its
// clean-ups.
func settle() {
	for range 3 {
		runtime.GC()
		runtime.Gosched()
	}
}

// resident is the process's memory in bytes, 0 where that can't be told.
func resident(t testing.TB) int64 {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	data, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	fields := strings.Fields(string(data))
	require.Greater(t, len(fields), 1)
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
}
