package sse

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// got is an Event that outlives the callback.
type got struct {
	raw, name, data              string
	hasData, truncated, oversize bool
}

// run feeds the parts and merges adjacent pieces of oversize events, whose cuts
// depend on the split.
func run(s *Scanner, parts ...string) []got {
	var all []got
	add := func(e Event) {
		g := got{string(e.Raw), string(e.Name), string(e.Data), e.HasData, e.Truncated, e.Oversize}
		if n := len(all); n > 0 && g.oversize && all[n-1].oversize {
			all[n-1].raw += g.raw
			return
		}
		all = append(all, g)
	}
	for _, p := range parts {
		b := []byte(p)
		s.Feed(b, add)
		for i := range b { // the caller may reuse its buffer
			b[i] = 'X'
		}
	}
	s.Flush(add)
	return all
}

func each(s string) []string { return strings.Split(s, "") }

func data(raw, d string) got { return got{raw: raw, data: d, hasData: true} }

func TestScanner(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in   string
		want []got
	}{
		"LF":             {"data: a\n\ndata: b\n\n", []got{data("data: a\n\n", "a"), data("data: b\n\n", "b")}},
		"CRLF":           {"data: a\r\n\r\ndata: b\r\n\r\n", []got{data("data: a\r\n\r\n", "a"), data("data: b\r\n\r\n", "b")}},
		"CR":             {"data: a\r\rdata: b\r\r", []got{data("data: a\r\r", "a"), data("data: b\r\r", "b")}},
		"mixed":          {"data: a\r\n\ndata: b\n\r\n", []got{data("data: a\r\n\n", "a"), data("data: b\n\r\n", "b")}},
		"CR, then LF":    {"data: a\r\r\ndata: b\n\n", []got{data("data: a\r\r", "a"), data("\ndata: b\n\n", "b")}},
		"no space":       {"data:a\n\n", []got{data("data:a\n\n", "a")}},
		"two spaces":     {"data:  a \n\n", []got{data("data:  a \n\n", " a ")}},
		"no colon":       {"data\n\n", []got{data("data\n\n", "")}},
		"lines":          {"data: a\ndata:\ndata:b\n\n", []got{data("data: a\ndata:\ndata:b\n\n", "a\n\nb")}},
		"name":           {"event: x\ndata: a\nid: 7\nretry: 1\n\n", []got{{raw: "event: x\ndata: a\nid: 7\nretry: 1\n\n", name: "x", data: "a", hasData: true}}},
		"name only":      {"event: ping\n\n", []got{{raw: "event: ping\n\n", name: "ping"}}},
		"byte order":     {"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []got{data("\xef\xbb\xbfdata: a\n\n", "a"), {raw: "\xef\xbb\xbfdata: b\n\n"}}},
		"comments":       {": hi\n\n:\ndata: a\n: in between\n\n", []got{{raw: ": hi\n"}, {raw: "\n"}, {raw: ":\n"}, data("data: a\n: in between\n\n", "a")}},
		"comment CRLF":   {": hi\r\n\r\ndata: a\r\n\r\n", []got{{raw: ": hi\r\n"}, {raw: "\r\n"}, data("data: a\r\n\r\n", "a")}},
		"blank lines":    {"\n\r\n\ndata: a\n\n\n", []got{{raw: "\n"}, {raw: "\r\n"}, {raw: "\n"}, data("data: a\n\n", "a"), {raw: "\n"}}},
		"unknown fields": {"foo: 1\nDATA: x\ndata : y\n\n", []got{{raw: "foo: 1\nDATA: x\ndata : y\n\n"}}},
		"cut":            {"data: a\n\ndata: [DONE]\n", []got{data("data: a\n\n", "a"), {raw: "data: [DONE]\n", data: "[DONE]", hasData: true, truncated: true}}},
		"cut in a line":  {"data: a", []got{{raw: "data: a", data: "a", hasData: true, truncated: true}}},
		"cut at CR":      {"data: a\r", []got{{raw: "data: a\r", data: "a", hasData: true, truncated: true}}},
		"ends with CR":   {"data: a\r\n\r", []got{data("data: a\r\n\r", "a")}},
		"empty":          {"", nil},
		"characters":     {"data: é中😀\n\n", []got{data("data: é中😀\n\n", "é中😀")}},
		"NUL and 0xff":   {"data: \x00\xff\n\n", []got{data("data: \x00\xff\n\n", "\x00\xff")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, run(&Scanner{}, c.in), "whole")
			assert.Equal(t, c.want, run(&Scanner{}, each(c.in)...), "byte by byte")
			for k := range len(c.in) + 1 {
				assert.Equal(t, c.want, run(&Scanner{}, c.in[:k], "", c.in[k:]), "cut at %d", k)
			}
		})
	}
}

// An event must not wait for the next one: that would be a token's delay.
func TestScannerIsPrompt(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"data: a\n\n", "data: a\r\n\r\n", "data: a\r\r", ": alive\n", ": alive\r\n"} {
		var s Scanner
		n := 0
		for _, p := range each(in + in) {
			s.Feed([]byte(p), func(e Event) { n += len(e.Raw) })
		}
		assert.Equal(t, 2*len(in), n, "%q", in)
		assert.Zero(t, s.Buffered(), "%q", in)
	}
}

func TestDone(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"data: [DONE]\n\n": true, "data:[DONE]\r\n\r\n": true, "data: [DONE] \n\n": true,
		"data: {\"x\":\"[DONE]\"}\n\n": false, ": [DONE]\n": false, "data: [done]\n\n": false,
	} {
		var s Scanner
		s.Feed([]byte(in), func(e Event) { assert.Equal(t, want, e.Done(), "%q", in) })
	}
}

func TestLongLine(t *testing.T) {
	t.Parallel()
	const size = 4 << 20
	in := "data: " + strings.Repeat("x", size) + "\n\ndata: b\n\n"
	for _, step := range []int{1500, 32 << 10, len(in)} {
		var s Scanner
		var parts []string
		for rest := in; rest != ""; {
			k := min(step, len(rest))
			parts, rest = append(parts, rest[:k]), rest[k:]
		}
		all := run(&s, parts...)
		require.Len(t, all, 2)
		assert.Len(t, all[0].data, size)
		assert.Equal(t, data("data: b\n\n", "b"), all[1])
		assert.Zero(t, s.Oversized())
		for _, p := range parts[:len(parts)-1] {
			s.Feed([]byte(p), func(Event) {})
		}
		s.Feed([]byte(in[(len(parts)-1)*step:]), func(Event) {})
		assert.LessOrEqual(t, cap(s.buf), keepBuffer, "a stream goes on with little memory")
	}
}

func TestOversize(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("y", 200)
	for _, nl := range []string{"\n", "\r\n", "\r"} {
		first := "data: a" + nl + nl
		big := "event: e" + nl + "data: " + long + nl + ": c" + nl + "data: z" + nl + nl
		comment := ":" + long + nl
		in := first + big + comment + "data: b" + nl + nl
		want := []got{
			data(first, "a"), {raw: big + comment, oversize: true}, data("data: b"+nl+nl, "b"),
		}
		for k := range len(in) + 1 {
			s := Scanner{MaxEvent: 64}
			assert.Equal(t, want, run(&s, in[:k], in[k:]), "%q cut at %d", nl, k)
			assert.Equal(t, 2, s.Oversized())
		}
		s := Scanner{MaxEvent: 64}
		assert.Equal(t, want, run(&s, each(in)...))
	}
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s := Scanner{MaxEvent: 1 << 10}
	p := bytes.Repeat([]byte("z"), 512)
	passed := 0
	for range 1000 {
		s.Feed(p, func(e Event) { passed += len(e.Raw) })
		require.LessOrEqual(t, s.Buffered(), 1<<10)
	}
	assert.Equal(t, 1000*512, passed+s.Buffered())
	assert.LessOrEqual(t, cap(s.buf), 4<<10)
	assert.Equal(t, 1, s.Oversized())
}

func TestFeedAllocs(t *testing.T) {
	in := []byte("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n")
	var s Scanner
	n := 0
	count := func(e Event) { n += len(e.Data) }
	s.Feed(in[:10], count)
	s.Feed(in[10:], count)
	if a := testing.AllocsPerRun(100, func() {
		s.Feed(in, count)
		s.Feed(in[:10], count)
		s.Feed(in[10:], count)
	}); a > 0 {
		t.Errorf("%v allocations", a)
	}
}

// reference is the parsing algorithm of the HTML standard, on the whole stream.
func reference(in string) (names, datas []string) {
	in = strings.TrimPrefix(in, "\xef\xbb\xbf")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	var name string
	var lines []string
	for {
		line, rest, ok := strings.Cut(in, "\n")
		if !ok {
			return names, datas
		}
		in = rest
		if line == "" {
			if lines != nil {
				names, datas = append(names, name), append(datas, strings.Join(lines, "\n"))
			}
			name, lines = "", nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			lines = append(lines, value)
		}
	}
}

// FuzzSSE: whatever the split, the raw bytes add up to the stream, the events are
// the same, and they are those of the standard.
func FuzzSSE(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\n: c\n\ndata: b\ndata: c\r\r\nevent: x\rdata\r\r"), []byte{3, 1, 7}, uint16(0))
	f.Add([]byte("\xef\xbb\xbf: x\n\ndata: [DONE]\n\n"), []byte{1}, uint16(64))
	f.Add([]byte("data: "+strings.Repeat("q", 100)+"\n\n:"+strings.Repeat("q", 100)+"\ndata: 1\n\n"), []byte{9, 200}, uint16(64))
	f.Fuzz(func(t *testing.T, in, cuts []byte, limit uint16) {
		var parts []string
		rest := string(in)
		for i := 0; len(rest) > 0 && len(cuts) > 0; i++ {
			k := min(int(cuts[i%len(cuts)])+1, len(rest))
			parts, rest = append(parts, rest[:k]), rest[k:]
		}
		parts = append(parts, rest)
		a, b := Scanner{MaxEvent: int(limit)}, Scanner{MaxEvent: int(limit)}
		whole, split := run(&a, string(in)), run(&b, parts...)
		if !slices.Equal(whole, split) {
			t.Fatalf("split matters:\n%+v\n%+v", whole, split)
		}
		if a.Oversized() != b.Oversized() {
			t.Fatalf("oversize %d, %d", a.Oversized(), b.Oversized())
		}
		var raw strings.Builder
		var names, datas []string
		for _, g := range whole {
			raw.WriteString(g.raw)
			if g.hasData && !g.truncated {
				names, datas = append(names, g.name), append(datas, g.data)
			}
		}
		if raw.String() != string(in) {
			t.Fatalf("bytes changed: %q", raw.String())
		}
		if a.Oversized() > 0 {
			return
		}
		wantNames, wantDatas := reference(string(in))
		// A CR that ends the stream completes an event here, and there too.
		if fmt.Sprintf("%q%q", names, datas) != fmt.Sprintf("%q%q", wantNames, wantDatas) {
			t.Fatalf("got  %q %q\nwant %q %q", names, datas, wantNames, wantDatas)
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	in := []byte(strings.Repeat("data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n", 40))
	for _, step := range []int{100, len(in)} {
		b.Run(fmt.Sprint(step), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			var s Scanner
			for b.Loop() {
				for at := 0; at < len(in); at += step {
					s.Feed(in[at:min(at+step, len(in))], func(Event) {})
				}
			}
		})
	}
}
