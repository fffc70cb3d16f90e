package bedrock

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/providers/bedrock/bedrocktest"
)

// full is an answer with every kind of block.
func full() *bedrocktest.Answer {
	return &bedrocktest.Answer{
		Thinking: "Hm, ü.", Signature: "sig", Redacted: "cmVk", Text: "Ünïcödé 🙂 text",
		Calls: []bedrocktest.Call{{ID: "t1", Name: "f", Input: `{"a":"b c"}`}, {ID: "t2", Name: "g", Input: ``}},
		Usage: bedrocktest.Usage{Input: 5, Output: 7, CacheRead: 3, Cached: true}, Piece: 3,
	}
}

// short is full in fewer events.
func short() *bedrocktest.Answer {
	a := full()
	a.Piece = 10
	return a
}

func exchange(t testing.TB, c dialect.Client, body string) *dialect.Exchange {
	t.Helper()
	x, err := dialect.NewExchange(c, converse{}, []byte(body), dialect.Options{Model: claude, ID: "gen", Created: 1})
	require.NoError(t, err)
	return x
}

// clients are those of each API, with a request that streams.
func clients() map[dialect.Client]string {
	return map[dialect.Client]string{
		dialect.Chat():      `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"a"}]}`,
		dialect.Messages():  `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"a"}]}`,
		dialect.Responses(): `{"model":"m","stream":true,"input":"a"}`,
	}
}

func translate(t testing.TB, x *dialect.Exchange, stream []byte, cuts ...int) (out []byte, err error) {
	t.Helper()
	s := x.NewStream(newFrames())
	from := 0
	for _, cut := range append(cuts, len(stream)) {
		if out, err = s.Feed(out, stream[from:cut]); err != nil {
			return out, err
		}
		from = cut
	}
	return s.Finish(out)
}

func TestStreamsInAnySplit(t *testing.T) {
	stream := short().Stream()
	for c, body := range clients() {
		x := exchange(t, c, body)
		whole, err := translate(t, x, stream)
		require.NoError(t, err)
		require.Contains(t, string(whole), "🙂", c.Name())
		for cut := range stream {
			got, err := translate(t, x, stream, cut)
			require.NoError(t, err)
			require.Equal(t, string(whole), string(got), "%s, cut at %d", c.Name(), cut)
		}
		every := make([]int, len(stream))
		for i := range every {
			every[i] = i
		}
		got, err := translate(t, x, stream, every...)
		require.NoError(t, err)
		require.Equal(t, string(whole), string(got), c.Name())
	}
}

func TestStreamIsTheEvents(t *testing.T) {
	d := converse{}.NewStreamDecoder()
	var got []string
	f := newFrames()
	err := f.Feed(full().Stream(), func(name string, data []byte) error {
		return d.Decode(name, data, func(ev *dialect.Event) {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%d %d %s%s%s%s", ev.Kind, ev.Part.Kind, ev.Text, ev.Signature, ev.Part.Redacted, ev.Part.ID)))
		})
	})
	require.NoError(t, err)
	require.NoError(t, f.End(nil))
	kinds := func(k dialect.EventKind, p dialect.PartKind, text string) string {
		return strings.TrimSpace(fmt.Sprintf("%d %d %s", k, p, text))
	}
	assert.Equal(t, []string{
		kinds(dialect.Begin, 0, ""),
		kinds(dialect.PartBegin, dialect.Reasoning, ""), kinds(dialect.Delta, 0, "Hm,"), kinds(dialect.Delta, 0, " ü."), kinds(dialect.Delta, 0, "sig"), kinds(dialect.PartEnd, 0, ""),
		kinds(dialect.PartBegin, dialect.Reasoning, "cmVk"), kinds(dialect.PartEnd, 0, ""),
		kinds(dialect.PartBegin, dialect.Text, ""), kinds(dialect.Delta, 0, "Ünï"), kinds(dialect.Delta, 0, "cöd"), kinds(dialect.Delta, 0, "é 🙂"), kinds(dialect.Delta, 0, " te"), kinds(dialect.Delta, 0, "xt"), kinds(dialect.PartEnd, 0, ""),
		kinds(dialect.PartBegin, dialect.ToolCall, "t1"), kinds(dialect.Delta, 0, `{"a`), kinds(dialect.Delta, 0, `":"`), kinds(dialect.Delta, 0, "b c"), kinds(dialect.Delta, 0, `"}`), kinds(dialect.PartEnd, 0, ""),
		kinds(dialect.PartBegin, dialect.ToolCall, "t2"), kinds(dialect.PartEnd, 0, ""),
		kinds(dialect.Finish, 0, ""), kinds(dialect.Tally, 0, ""), kinds(dialect.End, 0, ""),
	}, got)
}

func TestBrokenStreams(t *testing.T) {
	x := exchange(t, dialect.Chat(), clients()[dialect.Chat()])
	stream := short().Stream()
	for i := range stream { // a byte that fell over anywhere is noticed: nothing is checked twice
		bad := bytes.Clone(stream)
		bad[i] ^= 0x20
		out, err := translate(t, x, bad)
		require.Error(t, err, "byte %d", i)
		require.NotContains(t, string(out), "[DONE]", "byte %d", i)
	}
	for i := range stream { // and a stream that broke off has no end
		out, err := translate(t, x, stream[:i])
		if err == nil {
			require.Contains(t, string(out), "[DONE]", "after %d", i)
		} else {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "after %d", i)
			require.NotContains(t, string(out), "[DONE]", "after %d", i)
		}
	}
	for _, n := range []uint32{0, 15, maxMessage + 1, 1<<32 - 1} {
		bad := binary.BigEndian.AppendUint32(nil, n)
		_, err := translate(t, x, append(bad, make([]byte, 64)...))
		require.Error(t, err)
	}
	_, err := translate(t, x, []byte("<html><body>502</body></html>"))
	require.Error(t, err)
}

func TestErrorsWithinStreams(t *testing.T) {
	for name, want := range map[string]dialect.FailureKind{
		"internalServerException": dialect.FailServer, "modelStreamErrorException": dialect.FailServer, "throttlingException": dialect.FailRate,
		"validationException": dialect.FailRequest, "serviceUnavailableException": dialect.FailOverloaded, "newException": dialect.FailServer,
	} {
		var got *dialect.Failure
		err := converse{}.NewStreamDecoder().Decode(name, []byte(`{"message":"m"}`), func(ev *dialect.Event) { got = ev.Failure })
		require.NoError(t, err)
		assert.Equal(t, &dialect.Failure{Kind: want, Type: name, Message: "m"}, got)
	}
	// Blocks that overlap, and events that can't be read, break a stream.
	for _, frames := range [][2]string{
		{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{"}}}`},
		{"messageStop", `[]`},
	} {
		err := converse{}.NewStreamDecoder().Decode(frames[0], []byte(frames[1]), func(*dialect.Event) {})
		var b *dialect.BodyError
		assert.ErrorAs(t, err, &b, frames[1])
	}
}

func FuzzFrames(f *testing.F) {
	f.Add(full().Stream(), uint64(1))
	f.Add([]byte{0, 0, 0, 16, 0, 0, 0, 0, 5, 194, 72, 235, 125, 152, 200, 255}, uint64(2))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		x := exchange(t, dialect.Chat(), clients()[dialect.Chat()])
		whole, err := translate(t, x, stream)
		r := rand.New(rand.NewPCG(seed, 1))
		var cuts []int
		for at := 0; len(stream) > 0; {
			at += r.IntN(len(stream)) / 4
			if at++; at >= len(stream) {
				break
			}
			cuts = append(cuts, at)
		}
		split, err2 := translate(t, x, stream, cuts...)
		if (err == nil) != (err2 == nil) || !bytes.Equal(whole, split) {
			t.Fatalf("%v, %q\n%v, %q", err, whole, err2, split)
		}
	})
}

func BenchmarkStreamEvent(b *testing.B) {
	answer := &bedrocktest.Answer{Text: strings.Repeat("word ", 2000), Usage: bedrocktest.Usage{Input: 1, Output: 2}}
	stream := answer.Stream()
	for c, body := range clients() {
		b.Run(c.Name(), func(b *testing.B) {
			x := exchange(b, c, body)
			b.ReportAllocs()
			n := 0
			var out []byte
			for n < b.N {
				s := x.NewStream(newFrames())
				for from := 0; from < len(stream); from += 4096 {
					var err error
					if out, err = s.Feed(out[:0], stream[from:min(from+4096, len(stream))]); err != nil {
						b.Fatal(err)
					}
				}
				n += 2000
			}
		})
	}
}
