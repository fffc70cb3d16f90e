package kvsteer

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is not the usage chunk is forwarded as it comes, however it is split, and that is
// not forwarded at all: of an answer that ends within an event nothing else is held back.
func TestOnlyWhatMayBeUsageIsHeldBack(t *testing.T) {
	t.Parallel()
	const (
		content = `data: {"id":"x","choices":[{"delta":{"content":"a \"choices\":[] b"}}]}` + "\n\n"
		spaced  = `data: {"choices" : [ {"index":0} ]}` + "\n\n"
		usage   = `data: {"id":"x","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}` + "\n\n"
		done    = "data: [DONE]"
	)
	for _, size := range []int{1, 2, 7, 1000} {
		for _, crlf := range []bool{false, true} {
			in, want := []byte(content+": alive\n\n"+spaced+usage+done), []byte(content+": alive\n\n"+spaced+done)
			if crlf {
				in, want = bytes.ReplaceAll(in, []byte("\n"), []byte("\r\n")), bytes.ReplaceAll(want, []byte("\n"), []byte("\r\n"))
			}
			a := newAnswer(&Selection{router: &Router{opts: defaultOptions()}}, eventAnswer, nil)
			a.swallow, a.sel.ended = true, true
			var out []byte
			for part := range slices.Chunk(in, size) {
				out = append(out, a.Pass(part)...)
			}
			require.Equal(t, string(want), string(out), "in parts of %d, before the end", size)
			require.Empty(t, a.End())
		}
	}
	for event, held := range map[string]bool{
		"": true, "da": true, "data:": true, "data: ": true, "data: {": true, `data: {"choices":`: true, `data: {"choices": [`: true,
		`data: {"choices":[]`: true, `data: {"usage":{}`: true, "id: 7\ndata: {": true, ": data: 7\n": true, `data: {"choices":null,"x":{"choices":[`: true,
		`data: {"choices":[{`: false, `data: {"choices":[ 7`: false, "data: [": false, "data:x": false,
	} {
		require.Equal(t, held, mayBeUsage([]byte(event)), event)
	}
	require.True(t, mayBeUsage([]byte("data: {"+fmt.Sprintf("%*s", maxDoubt, "")+`"choices":[{`)))
}

// A long event passes in parts, each byte once.
func TestALongEventIsForwardedOnce(t *testing.T) {
	t.Parallel()
	in := append([]byte(`data: {"choices":[{"text":"`), bytes.Repeat([]byte("0123456789"), 1<<20)...)
	in = append(in, "\"}]}\n\ndata: [DONE]\n\n"...)
	a := newAnswer(&Selection{router: &Router{opts: defaultOptions()}}, eventAnswer, nil)
	a.swallow, a.sel.ended = true, true
	var out []byte
	for part := range slices.Chunk(in, 32<<10) {
		out = append(out, a.Pass(part)...)
	}
	out = append(out, a.End()...)
	require.True(t, bytes.Equal(in, out), "%d bytes became %d", len(in), len(out))
}
