package dialect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chunk is an event of a chat stream with this delta.
func chunk(delta string) string {
	return `data: {"id":"c","model":"m","choices":[{"index":0,"delta":` + delta + "}]}\n\n"
}

func TestStreamHoldsBackWithinBounds(t *testing.T) {
	open := chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`)
	begin := chunk(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{\"x\":\""}}]}`)
	more := chunk(`{"tool_calls":[{"index":1,"function":{"arguments":"` + strings.Repeat("x", 64<<10) + `"}}]}`)
	x := streamExchange(t, Messages(), Chat())

	s := x.NewStream(nil)
	out, err := s.Feed(nil, []byte(open+begin))
	require.NoError(t, err)
	var bad *BodyError
	fed := 0
	for err == nil && fed < 2*maxChatHeld {
		fed += len(more)
		out, err = s.Feed(out, []byte(more))
	}
	require.ErrorAs(t, err, &bad)
	assert.LessOrEqual(t, fed, maxChatHeld+len(more)+partCost)
	assert.NotContains(t, string(out), "message_stop")
	after, again := s.Feed(out, []byte(chunk(`{"content":"x"}`)))
	assert.Equal(t, err, again, "a broken stream stays broken")
	assert.Equal(t, out, after)

	t.Run("what is delivered is not held", func(t *testing.T) {
		s := x.NewStream(nil)
		_, err := s.Feed(nil, []byte(open))
		for i := 0; err == nil && i < 2*maxChatHeld/(64<<10); i++ {
			_, err = s.Feed(nil, []byte(strings.Replace(more, `"index":1`, `"index":0`, 1)))
		}
		require.NoError(t, err)
	})
	t.Run("parts that hold nothing", func(t *testing.T) {
		s := x.NewStream(nil)
		_, err := s.Feed(nil, []byte(open))
		n := 0
		for ; err == nil && n < maxChatHeld; n++ {
			_, err = s.Feed(nil, []byte(chunk(`{"content":"a"}`)+chunk(`{"refusal":"b"}`)))
		}
		require.ErrorAs(t, err, &bad)
		assert.Less(t, n, maxChatHeld/partCost)
	})
	t.Run("calls", func(t *testing.T) {
		s := x.NewStream(nil)
		var err error
		n := 0
		for ; err == nil && n < 2*maxCalls; n++ {
			_, err = s.Feed(nil, fmt.Appendf(nil, chunk(`{"tool_calls":[{"index":%d,"id":"%d","function":{"name":"f","arguments":"{}"}}]}`), n, n))
		}
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, maxCalls+1, n)
	})
}

func TestStreamRefusesCallsThatGoOnAfterTheirEnd(t *testing.T) {
	s := streamExchange(t, Messages(), Chat()).NewStream(nil)
	in := chunk(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}`) +
		chunk(`{"tool_calls":[{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]}`) +
		chunk(`{"tool_calls":[{"index":0,"function":{"arguments":",1"}}]}`)
	_, err := s.Feed(nil, []byte(in))
	var bad *BodyError
	require.ErrorAs(t, err, &bad)
}

func TestStreamRefusesLongEvents(t *testing.T) {
	x := streamExchange(t, Messages(), Chat())
	x.maxEvent = 1 << 10
	s := x.NewStream(nil)
	out, err := s.Feed(nil, []byte(chunk(`{"content":"a"}`)))
	require.NoError(t, err)
	long := chunk(`{"content":"` + strings.Repeat("y", 4<<10) + `"}`)
	for i := 0; i < len(long) && err == nil; i++ {
		out, err = s.Feed(out, []byte{long[i]})
	}
	var bad *BodyError
	require.ErrorAs(t, err, &bad)
	assert.NotContains(t, string(out), "yy")
	assert.NotContains(t, string(out), "message_stop")
}

// TestStreamLongLine: a data line of 4 MiB passes.
func TestStreamLongLine(t *testing.T) {
	text := strings.Repeat("z", 4<<20)
	x := streamExchange(t, Messages(), Chat())
	out, err := translate(x, []byte(chunk(`{"content":"`+text+`"}`)+"data: [DONE]\n\n"), false, func(n int) int { return min(n, 64<<10) })
	require.NoError(t, err)
	a := assemble(Messages(), []byte(out))
	require.True(t, a.whole)
	assert.Equal(t, text, a.Parts[0].Text)
}

// TestStreamNothingAfterTheEnd: neither the service nor a second end adds to what is whole.
func TestStreamNothingAfterTheEnd(t *testing.T) {
	for _, end := range []string{"data: [DONE]\n\n", "data: {\"error\":{\"message\":\"x\"}}\n\n"} {
		s := streamExchange(t, Messages(), Chat()).NewStream(nil)
		out, err := s.Feed(nil, []byte(chunk(`{"content":"a"}`)+end))
		require.NoError(t, err)
		more, err := s.Feed(nil, []byte(chunk(`{"content":"b"}`)+": x\n\n"+end+"data: garbage\n\n"))
		require.NoError(t, err)
		assert.Empty(t, more)
		more, err = s.Finish(nil)
		require.NoError(t, err)
		assert.Empty(t, more)
		assert.Equal(t, s.Ended(), s.Failure() == nil)
		assert.NotEmpty(t, out)
	}
}

func TestStreamUsageIsTheLastReport(t *testing.T) {
	s := streamExchange(t, Messages(), Chat()).NewStream(nil)
	usage := `data: {"id":"c","choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}` + "\n\n"
	_, err := s.Feed(nil, []byte(chunk(`{"content":"a"}`)+fmt.Sprintf(usage, 5, 1)+fmt.Sprintf(usage, 5, 3)+
		`data: {"id":"c","choices":[],"usage":null}`+"\n\ndata: [DONE]\n\n"))
	require.NoError(t, err)
	assert.Equal(t, Usage{Known: true, Input: 5, Output: 3}, s.Usage())
}

// TestAnswerStreamIsTheAnswer: a whole answer as a stream says the same.
func TestAnswerStreamIsTheAnswer(t *testing.T) {
	n := 0
	for _, c := range readCorpus(t) {
		in, ok := c.get("service answer")
		x, err := c.exchange()
		if !ok || err != nil {
			continue
		}
		client, service := c.codecs()
		a, err := service.DecodeAnswer([]byte(in))
		require.NoError(t, err)
		out, err := x.AnswerStream([]byte(in))
		require.NoError(t, err)
		got := readStream(client, string(out))
		require.NoError(t, got.bad, c.name)
		require.True(t, got.whole, c.name)
		require.Empty(t, brokenLine(string(out)), c.name)
		want := &assembled{Answer: *a}
		assert.Equal(t, want.end(client.Name()), got.end(client.Name()), c.name)
		whole := want.said()
		for k, v := range got.said() {
			if !strings.HasPrefix(k, "call ") { // arguments that aren't JSON stay as they are in a stream
				assert.Equal(t, whole[k], v, c.name)
			}
		}
		n++
	}
	assert.Greater(t, n, 40)
}

// TestStreamCountsOnlyWhatIsHeld: what was handed on is no longer held.
func TestStreamCountsOnlyWhatIsHeld(t *testing.T) {
	s := streamExchange(t, Messages(), Chat()).NewStream(nil)
	call := func(i int, args string) []byte {
		return fmt.Appendf(nil, chunk(`{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"f","arguments":"%s"}}]}`), i, i, args)
	}
	text := strings.Repeat("x", maxChatHeld/4)
	_, err := s.Feed(nil, call(0, `{\"x\":\"`))
	for i := 1; err == nil && i < 8; i++ {
		if _, err = s.Feed(nil, call(i, `{\"x\":\"`+text)); err == nil { // it waits
			_, err = s.Feed(nil, call(i-1, `\"}`)) // until the one before it ends
		}
	}
	require.NoError(t, err)
}

// TestChatEncoderGivesEmptyArguments: clients parse arguments, and nothing is not JSON.
func TestChatEncoderGivesEmptyArguments(t *testing.T) {
	e := Chat().NewStreamEncoder(&AnswerOptions{ID: "1"})
	var out []byte
	a := Answer{Parts: []Part{{Kind: ToolCall, ID: "a", Name: "f"}, {Kind: ToolCall, ID: "b", Name: "f", Text: `{"x":1}`}}, Stop: StopTools}
	a.Events(func(ev *Event) { out = e.Append(out, ev) })
	got := assemble(Chat(), out)
	require.Len(t, got.Parts, 2)
	assert.Equal(t, "{}", got.Parts[0].Text)
	assert.Equal(t, `{"x":1}`, got.Parts[1].Text)
	assert.Contains(t, string(out), `"id":"chatcmpl-1"`)
}

// unendingDecoder goes on after its end, as a codec may whose service does.
type unendingDecoder struct{ fails bool }

func (d unendingDecoder) Decode(_ string, data []byte, emit func(*Event)) error {
	if string(data) == "end" {
		emit(&Event{Kind: Begin})
		if d.fails {
			emit(&Event{Kind: Fail, Failure: &Failure{Kind: FailServer}})
		}
		emit(&Event{Kind: Finish})
		emit(&Event{Kind: End})
		emit(&Event{Kind: End})
		return nil
	}
	return &BodyError{Reason: "goes on"}
}

type unendingService struct {
	Service

	fails bool
}

func (s unendingService) NewStreamDecoder() StreamDecoder { return unendingDecoder{fails: s.fails} }

func TestStreamEndsOnce(t *testing.T) {
	for _, fails := range []bool{false, true} {
		x := streamExchange(t, Chat(), unendingService{Service: Messages(), fails: fails})
		s := x.NewStream(nil)
		out, err := s.Feed(nil, []byte("data: end\n\ndata: more\n\n"))
		require.NoError(t, err)
		out, err = s.Finish(out)
		require.NoError(t, err)
		assert.Equal(t, fails, s.Failure() != nil)
		assert.Equal(t, fails, !s.Ended())
		want := 1
		if fails {
			want = 0
		}
		assert.Equal(t, want, strings.Count(string(out), "[DONE]"))
	}
}

// TestChatEncoderKeepsThoughtsWithinBounds: what is too long to be kept for its signature
// still reaches the client.
func TestChatEncoderKeepsThoughtsWithinBounds(t *testing.T) {
	for _, tt := range []struct {
		pieces int
		signed bool
	}{{1, true}, {2 * maxThought / (64 << 10), false}} {
		e := Chat().NewStreamEncoder(&AnswerOptions{})
		out := e.Append(nil, &Event{Kind: Begin, ID: "c"})
		out = e.Append(out, &Event{Kind: PartBegin, Part: Part{Kind: Reasoning}})
		piece := strings.Repeat("r", 64<<10)
		for range tt.pieces {
			out = e.Append(out, &Event{Kind: Delta, Text: piece})
		}
		out = e.Append(out, &Event{Kind: Delta, Signature: "sig"})
		out = e.Append(out, &Event{Kind: PartEnd})
		assert.Equal(t, tt.signed, strings.Contains(string(out), "thinking_blocks"))
		got := assemble(Chat(), out)
		require.Len(t, got.Parts, 1)
		assert.Len(t, got.Parts[0].Text, tt.pieces*len(piece))
	}
}
