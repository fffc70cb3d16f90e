package dialect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// chatBody is what a chat service gets, and the fields that were warned of.
func chatBody(t *testing.T, c Client, body string) (sent string, warned []string, err error) {
	t.Helper()
	x, err := NewExchange(c, Chat(), []byte(body), Options{})
	if err != nil {
		return "", nil, err
	}
	for _, w := range x.Warnings() {
		warned = append(warned, w.Field)
	}
	return string(x.Body()), warned, nil
}

func TestChatWithoutTools(t *testing.T) {
	for choice, ok := range map[string]bool{
		`"auto"`: true, `"none"`: true, `"required"`: false, `{"type":"function","name":"f"}`: false,
	} {
		sent, _, err := chatBody(t, Responses(), `{"model":"m","input":"hi","parallel_tool_calls":true,"tool_choice":`+choice+`}`)
		if !ok {
			var refused *UnsupportedError
			require.ErrorAs(t, err, &refused, choice)
			assert.Equal(t, "tool_choice", refused.Field)
			continue
		}
		require.NoError(t, err, choice)
		assert.NotContains(t, sent, "tool", choice)
	}
	sent, _, err := chatBody(t, Responses(), `{"model":"m","input":"hi","parallel_tool_calls":false,"tool_choice":"auto","tools":[{"type":"function","name":"f"}]}`)
	require.NoError(t, err)
	assert.Contains(t, sent, `"tool_choice":"auto","parallel_tool_calls":false`)
}

func TestChatTakesSoMuch(t *testing.T) {
	long, most := strings.Repeat("n", 65), strings.Repeat("n", 64)
	for members, field := range map[string]string{
		`"stop_sequences":["1","2","3","4"]`:                             "",
		`"stop_sequences":["1","2","3","4","5"]`:                         "stop",
		`"tools":[{"name":"` + most + `","input_schema":{}}]`:            "",
		`"tools":[{"name":"a"},{"name":"` + long + `"}]`:                 "tools[1].name",
		`"tools":[{"name":"a"}],"tool_choice":{"type":"any"}`:            "",
		`"tools":[],"tool_choice":{"type":"any"}`:                        "tool_choice",
		`"tool_choice":{"type":"tool","name":"f"}`:                       "tool_choice",
		`"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`: "",
	} {
		_, _, err := chatBody(t, Messages(), messagesBody(members))
		if field == "" {
			require.NoError(t, err, members)
			continue
		}
		var refused *UnsupportedError
		require.ErrorAs(t, err, &refused, members)
		assert.Equal(t, field, refused.Field)
	}
}

func TestChatSaysThatAdaptiveThinkingIsLost(t *testing.T) {
	sent, warned, err := chatBody(t, Messages(), messagesBody(`"thinking":{"type":"adaptive"}`))
	require.NoError(t, err)
	assert.NotContains(t, sent, "reasoning_effort")
	assert.Equal(t, []string{"thinking"}, warned)

	sent, warned, err = chatBody(t, Messages(), messagesBody(`"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`))
	require.NoError(t, err)
	assert.Contains(t, sent, `"reasoning_effort":"high"`)
	assert.Empty(t, warned)
}

// An answer of no tokens is not one of as many as the gateway likes.
func TestLimitsOfNothing(t *testing.T) {
	for body, c := range map[string]Client{
		`{"model":"m","messages":[{"role":"user","content":"a"}],"max_tokens":0}`:             Chat(),
		`{"model":"m","messages":[{"role":"user","content":"a"}],"max_completion_tokens":0}`:  Chat(),
		`{"model":"m","messages":[{"role":"user","content":"a"}],"max_completion_tokens":-1}`: Chat(),
		`{"model":"m","input":"a","max_output_tokens":0}`:                                     Responses(),
	} {
		_, err := NewExchange(c, Messages(), []byte(body), Options{})
		var wrong *BodyError
		require.ErrorAs(t, err, &wrong, body)
		assert.Contains(t, wrong.Field, "max_")
	}
}

// Gemini's endpoint counts what the model thought in the total only.
func TestChatUsageWithThoughtsApart(t *testing.T) {
	for report, want := range map[string]Usage{
		`{"completion_tokens":1,"prompt_tokens":9,"total_tokens":103}`: {Known: true, Input: 9, Output: 94, Reasoning: 93, ReasoningKnown: true},
		`{"prompt_tokens":9,"total_tokens":103}`:                       {Known: true, Input: 9, Output: 94, Reasoning: 94, ReasoningKnown: true},
		`{"completion_tokens":1,"prompt_tokens":9,"total_tokens":20,"completion_tokens_details":{"reasoning_tokens":10}}`: {
			Known: true, Input: 9, Output: 11, Reasoning: 10, ReasoningKnown: true,
		},
		// Within: nothing is added.
		`{"completion_tokens":11,"prompt_tokens":9,"total_tokens":20,"completion_tokens_details":{"reasoning_tokens":10}}`: {
			Known: true, Input: 9, Output: 11, Reasoning: 10, ReasoningKnown: true,
		},
		`{"completion_tokens":1,"prompt_tokens":9,"total_tokens":5}`:                                                       {Known: true, Input: 9, Output: 1},
		`{"completion_tokens":1,"total_tokens":50}`:                                                                        {Known: true, Output: 1},
		`{"completion_tokens":9223372036854775807,"prompt_tokens":9223372036854775807,"total_tokens":9223372036854775807}`: {Known: true, Input: 1<<63 - 1, Output: 1<<63 - 1},
	} {
		a, err := Chat().DecodeAnswer([]byte(`{"choices":[{"message":{"content":"a"}}],"usage":` + report + `}`))
		require.NoError(t, err)
		assert.Equal(t, want, a.Usage, report)

		var got Usage
		d := Chat().NewStreamDecoder()
		for _, frame := range []string{chunk(`{"content":"a"}`), `{"choices":[],"usage":` + report + `}`, "[DONE]"} {
			frame = strings.TrimSpace(strings.TrimPrefix(frame, "data: "))
			require.NoError(t, d.Decode("", []byte(frame), func(ev *Event) {
				if ev.Kind == Finish {
					got = ev.Usage
				}
			}))
		}
		assert.Equal(t, want, got, report)
	}
}
