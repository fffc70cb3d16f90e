package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSealedIDs(t *testing.T) {
	const signature = "CiQB+/aé=="
	sealed := sealedID("call_1", signature)
	assert.Regexp(t, `^[a-zA-Z0-9_-]+$`, sealed, "Anthropic takes no other letters")
	id, got := unsealedID(sealed)
	assert.Equal(t, "call_1", id)
	assert.Equal(t, signature, got)

	assert.Equal(t, "call_1", sealedID("call_1", ""))
	assert.Equal(t, "call_1", sealedID("call_1", strings.Repeat("x", maxSignature+1)))
	for _, id := range []string{"", "call_1", "call_1" + markCall, "call_1" + markCall + "ä", "call_1" + markCall + "A"} {
		plain, none := unsealedID(id)
		assert.Equal(t, id, plain)
		assert.Empty(t, none)
	}
}

func TestGeminiNames(t *testing.T) {
	for model, want := range map[string]gemini{
		"gpt-5": {}, "gemini-2.5-pro": {signs: true}, "google/gemini-3-pro-preview": {signs: true, strict: true},
		"Gemini-3.5-flash": {signs: true, strict: true}, "gemini-flash-latest": {signs: true, strict: true}, "gemini-1.5-pro": {signs: true},
	} {
		assert.Equal(t, want, geminiOf(model), model)
	}
}

const (
	signedCalls = `[{"index":0,"id":"function-call-7","type":"function","function":{"name":"f","arguments":"{\"a\":1}"},` +
		`"extra_content":{"google":{"thought_signature":"Ci+/=="}}},` +
		`{"index":1,"id":"function-call-8","type":"function","function":{"name":"g","arguments":"{}"}}]`
	signedAnswer = `{"id":"1","model":"gemini-3-pro","choices":[{"index":0,"message":{"role":"assistant","tool_calls":` + signedCalls +
		`},"finish_reason":"tool_calls"}]}`
)

// A turn with a call of Gemini's goes to the client and back, and Gemini gets its signature
// and its ids again: as a whole answer and as a stream.
func TestGeminiGetsItsSignaturesBack(t *testing.T) {
	for _, c := range []Client{Messages(), Responses(), Chat()} {
		for _, stream := range []bool{false, true} {
			x, err := NewExchange(c, Chat(), []byte(toolQuestion(c, stream)), Options{Model: "gemini-3-pro"})
			require.NoError(t, err)
			var turn string
			if stream {
				in := "data: " + `{"id":"1","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":` + signedCalls +
					`},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
				out, err := translate(x, []byte(in), false, nil)
				require.NoError(t, err)
				require.Empty(t, brokenLine(out))
				turn = streamedTurn(t, c, out)
			} else {
				out, err := x.Answer([]byte(signedAnswer))
				require.NoError(t, err)
				turn = wholeTurn(t, c, out)
			}
			x, err = NewExchange(c, Chat(), []byte(toolAnswer(c, turn)), Options{Model: "gemini-3-pro"})
			require.NoError(t, err, turn)
			sent := string(x.Body())
			assert.Contains(t, sent, `"extra_content":{"google":{"thought_signature":"Ci+/=="}}`, c.Name())
			assert.Equal(t, 1, strings.Count(sent, "thought_signature"), "the second of parallel calls has none")
			assert.Contains(t, sent, `"id":"function-call-7"`)
			assert.Contains(t, sent, `"tool_call_id":"function-call-7"`)
			assert.Empty(t, x.Warnings())

			// Another service gets neither, and the client is told.
			x, err = NewExchange(c, Chat(), []byte(toolAnswer(c, turn)), Options{Model: "gpt-5"})
			require.NoError(t, err)
			assert.NotContains(t, string(x.Body()), "extra_content")
			assert.NotContains(t, string(x.Body()), markCall)
			assert.Len(t, x.Warnings(), 1)
			x, err = NewExchange(c, Messages(), []byte(toolAnswer(c, turn)), Options{Model: "claude-sonnet-4-6"})
			require.NoError(t, err)
			assert.Contains(t, string(x.Body()), `"tool_use_id":"function-call-7"`)
			assert.NotContains(t, string(x.Body()), markCall)
			assert.Len(t, x.Warnings(), 1)
		}
	}
}

// Calls of other services have no signature: Gemini is asked not to look for one.
func TestGeminiGoesOnWithCallsOfOthers(t *testing.T) {
	turn := `{"type":"tool_use","id":"toolu_1","name":"f","input":{}},{"type":"tool_use","id":"toolu_2","name":"g","input":{}}`
	for model, want := range map[string]int{"gemini-3-pro": 1, "gemini-2.5-flash": 0, "gpt-5": 0} {
		x, err := NewExchange(Messages(), Chat(), []byte(toolAnswer(Messages(), turn)), Options{Model: model})
		require.NoError(t, err)
		assert.Equal(t, want, strings.Count(string(x.Body()), `"thought_signature":"`+skipSignature+`"`), model)
		assert.Len(t, x.Warnings(), want, model)
	}
}

// toolQuestion is a request with two tools; toolAnswer goes on with the service's turn.
func toolQuestion(c Client, stream bool) string {
	suffix := `}`
	if stream {
		suffix = `,"stream":true}`
	}
	switch c.Name() {
	case messagesName:
		return `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a"}],"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}]` + suffix
	case responsesName:
		return `{"model":"m","input":"a","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]` + suffix
	default:
		return `{"model":"m","messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]` + suffix
	}
}

func toolAnswer(c Client, turn string) string {
	ids := callIDs(turn)
	switch c.Name() {
	case messagesName:
		return `{"model":"m","max_tokens":9,"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}],"messages":[{"role":"user","content":"a"},` +
			`{"role":"assistant","content":[` + turn + `]},{"role":"user","content":[` +
			`{"type":"tool_result","tool_use_id":"` + ids[0] + `","content":"1"},{"type":"tool_result","tool_use_id":"` + ids[1] + `","content":"2"}]}]}`
	case responsesName:
		return `{"model":"m","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}],"input":[{"role":"user","content":"a"},` + turn +
			`,{"type":"function_call_output","call_id":"` + ids[0] + `","output":"1"},{"type":"function_call_output","call_id":"` + ids[1] + `","output":"2"}]}`
	default:
		return `{"model":"m","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],"messages":[` +
			`{"role":"user","content":"a"},{"role":"assistant","tool_calls":[` + turn + `]},` +
			`{"role":"tool","tool_call_id":"` + ids[0] + `","content":"1"},{"role":"tool","tool_call_id":"` + ids[1] + `","content":"2"}]}`
	}
}

// callIDs are the ids of the calls in a list of the client's.
func callIDs(turn string) (ids []string) {
	var list []map[string]any
	if err := json.Unmarshal([]byte("["+turn+"]"), &list); err != nil {
		panic(err)
	}
	for _, call := range list {
		for _, name := range []string{"call_id", "id"} {
			if id, ok := call[name].(string); ok {
				ids = append(ids, id)
				break
			}
		}
	}
	return ids
}

// wholeTurn is what the client hands back of an answer: the list of its blocks, items or calls.
func wholeTurn(t *testing.T, c Client, out []byte) string {
	t.Helper()
	var a struct {
		Content json.RawMessage
		Output  json.RawMessage
		Choices []struct {
			Message struct {
				Calls json.RawMessage `json:"tool_calls"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(out, &a))
	list := a.Content
	switch c.Name() {
	case responsesName:
		list = a.Output
	case chatName:
		list = a.Choices[0].Message.Calls
	}
	return strings.Trim(string(list), "[]")
}

// streamedTurn is wholeTurn for a stream.
func streamedTurn(t *testing.T, c Client, out string) string {
	t.Helper()
	if c.Name() == responsesName {
		return wholeTurn(t, c, finalResponse(t, out))
	}
	service, ok := c.(Service)
	require.True(t, ok)
	a := assemble(service, []byte(out))
	require.NoError(t, a.bad)
	return wholeTurn(t, c, c.EncodeAnswer(nil, &a.Answer, &AnswerOptions{}))
}

// finalResponse is the response object that a stream ends with.
func finalResponse(t *testing.T, out string) []byte {
	t.Helper()
	last := out[strings.LastIndex(out, "data: ")+len("data: "):]
	var ev struct{ Response json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(last), &ev))
	return ev.Response
}
