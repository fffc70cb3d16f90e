package dialect

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResponsesRequest(t *testing.T) {
	body := `{
	  "instructions": "Be brief.",
	  "input": [
	    {"role": "developer", "content": "In French."},
	    {"type": "message", "role": "user", "content": [
	      {"type": "input_text", "text": "What is this?", "prompt_cache_breakpoint": {"mode": "explicit"}},
	      {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
	      {"type": "input_image", "image_url": "https://example.org/cat.png"},
	      {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"},
	      {"type": "input_audio", "input_audio": {"data": "CCCC", "format": "wav"}}]},
	    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "kvsteer-signature:sig"},
	    {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "kvsteer-redacted:red"},
	    {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": [{"type": "output_text", "text": "I look."}]},
	    {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": "{\"at\":1}"},
	    {"type": "function_call", "call_id": "c2", "name": "look", "arguments": "{}"},
	    {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
	    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_image", "image_url": "data:image/png;base64,DDDD"}]},
	    {"role": "user", "content": "Sure?"},
	    {"role": "system", "content": "Shorter."},
	    {"role": "user", "content": "And?"}
	  ],
	  "model": "m1",
	  "tools": [{"type": "function", "name": "look", "description": "looks", "parameters": {"type": "object"}, "strict": true}],
	  "tool_choice": {"type": "function", "name": "look"},
	  "parallel_tool_calls": false,
	  "max_output_tokens": 100, "temperature": 0.50, "top_p": 0.9, "stream": true,
	  "reasoning": {"effort": "low", "summary": "auto"},
	  "text": {"format": {"type": "json_schema", "name": "f", "schema": {"type":"object"}, "strict": false}, "verbosity": "low"},
	  "store": false, "background": false, "include": ["reasoning.encrypted_content"],
	  "user": "u", "safety_identifier": "s", "truncation": "disabled", "metadata": {"k": "v"}, "previous_response_id": null
	}`
	r, err := Responses().DecodeRequest([]byte(body))
	require.NoError(t, err)
	no, yes := false, true
	assert.Equal(t, &Request{
		Model: "m1",
		System: []Part{
			{Kind: Text, Text: "Be brief."},
			{Kind: Text, Text: "In French."},
		},
		Messages: []Message{
			{Role: User, Parts: []Part{
				{Kind: Text, Text: "What is this?", Cache: json.RawMessage(`{"type":"ephemeral"}`)},
				{Kind: Image, Media: Media{Type: "image/png", Data: "AAAA", Detail: "low"}},
				{Kind: Image, Media: Media{URL: "https://example.org/cat.png"}},
				{Kind: Document, Name: "a.pdf", Media: Media{Type: "application/pdf", Data: "BBBB"}},
				{Kind: Audio, Media: Media{Type: "audio/wav", Data: "CCCC"}},
			}},
			{Role: Assistant, Parts: []Part{
				{Kind: Reasoning, Text: "Hm.", Signature: "sig"},
				{Kind: Reasoning, Redacted: "red"},
				{Kind: Text, Text: "I look."},
				{Kind: ToolCall, ID: "c1", Name: "look", Text: `{"at":1}`},
				{Kind: ToolCall, ID: "c2", Name: "look", Text: `{}`},
			}},
			{Role: User, Parts: []Part{
				{Kind: ToolResult, ID: "c1", Parts: []Part{{Kind: Text, Text: "a cat"}}},
				{Kind: ToolResult, ID: "c2", Parts: []Part{{Kind: Image, Media: Media{Type: "image/png", Data: "DDDD"}}}},
			}},
			{Role: User, Parts: []Part{{Kind: Text, Text: "Sure?"}}},
			{Role: System, Parts: []Part{{Kind: Text, Text: "Shorter."}}},
			{Role: User, Parts: []Part{{Kind: Text, Text: "And?"}}},
		},
		Tools:       []Tool{{Name: "look", Description: "looks", Schema: json.RawMessage(`{"type": "object"}`), Strict: &yes}},
		Choice:      &ToolChoice{Kind: ChoiceTool, Name: "look"},
		Parallel:    &no,
		MaxTokens:   100,
		Temperature: "0.50", TopP: "0.9",
		Stream: true, IncludeUsage: true,
		Thinking: &Thinking{Effort: "low"},
		Format:   &Format{Schema: json.RawMessage(`{"type":"object"}`), Name: "f", Strict: &no},
		User:     "s",
		Rest: []Member{
			{Name: "verbosity", From: "responses", Raw: json.RawMessage(`"low"`)},
			{Name: "metadata", From: "responses", Raw: json.RawMessage(`{"k": "v"}`)},
		},
	}, r)
}

func TestResponsesRefusals(t *testing.T) {
	for body, field := range map[string]string{
		`{"model":"m","input":"a","previous_response_id":"resp_1"}`:                                                    "previous_response_id",
		`{"model":"m","input":"a","conversation":"c"}`:                                                                 "conversation",
		`{"model":"m","input":"a","prompt":{"id":"p"}}`:                                                                "prompt",
		`{"model":"m","input":"a","background":true}`:                                                                  "background",
		`{"model":"m","input":"a","store":true}`:                                                                       "store",
		`{"model":"m","input":"a","top_logprobs":2}`:                                                                   "top_logprobs",
		`{"model":"m","input":"a","include":["message.output_text.logprobs"]}`:                                         "include",
		`{"model":"m","input":"a","context_management":[{"type":"compaction"}]}`:                                       "context_management",
		`{"model":"m","input":"a","tools":[{"type":"web_search"}]}`:                                                    "tools[0]",
		`{"model":"m","input":"a","tools":[{"type":"function","name":"f"},{"type":"mcp"}]}`:                            "tools[1]",
		`{"model":"m","input":"a","tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}}`:                    "tool_choice",
		`{"model":"m","input":"a","text":{"format":{"type":"grammar"}}}`:                                               "text.format.type",
		`{"model":"m","input":[{"type":"item_reference","id":"m"}]}`:                                                   "input[0]",
		`{"model":"m","input":[{"type":"web_search_call","id":"m"}]}`:                                                  "input[0].type",
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]}`:                     "input[0].content[0].file_id",
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"f"}]}]}`:                      "input[0].content[0].file_id",
		`{"model":"m","input":[{"role":"user","content":[{"type":"x"}]}]}`:                                             "input[0].content[0].type",
		`{"model":"m","input":[{"role":"system","content":[{"type":"input_image","image_url":"https://a.example"}]}]}`: "input[0].content",
	} {
		_, err := Responses().DecodeRequest([]byte(body))
		var u *UnsupportedError
		if assert.ErrorAs(t, err, &u, body) {
			assert.Equal(t, field, u.Field, body)
			assert.NotEmpty(t, u.Reason)
		}
	}
	for body, field := range map[string]string{
		`[]`:                          "",
		`{"input":"a"}`:               "model",
		`{"model":"m"}`:               "input",
		`{"model":7,"input":"a"}`:     "model",
		`{"model":"m","input":7}`:     "input",
		`{"model":"m","input":["a"]}`: "input[0]",
		`{"model":"m","input":[{"role":"tool","content":"a"}]}`:                                                     "input[0].role",
		`{"model":"m","input":[{"role":"user","content":7}]}`:                                                       "input[0].content",
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png,x"}]}]}`: "input[0].content[0].image_url",
		`{"model":"m","input":[{"type":"function_call","name":"f","arguments":"{}"}]}`:                              "input[0].call_id",
		`{"model":"m","input":"a","tools":[{"type":"function"}]}`:                                                   "tools[0].name",
		`{"model":"m","input":"a","stream":"yes"}`:                                                                  "stream",
		`{"model":"m","input":"a","max_output_tokens":-1}`:                                                          "max_output_tokens",
		`{"model":"m","input":"a","temperature":"hot"}`:                                                             "temperature",
	} {
		_, err := Responses().DecodeRequest([]byte(body))
		var b *BodyError
		if assert.ErrorAs(t, err, &b, body) {
			assert.Equal(t, field, b.Field, body)
		}
	}
}

func TestResponsesWarns(t *testing.T) {
	r, err := Responses().DecodeRequest([]byte(`{"model":"m","truncation":"auto","stream_options":{"include_obfuscation":true},"reasoning":{"context":"x"},
	  "tools":[{"type":"function","name":"f","output_schema":{"type":"object"},"async":false}],"input":[
	  {"type":"reasoning","summary":[{"type":"summary_text","text":"x"}],"encrypted_content":"gAAAAAB"},
	  {"role":"assistant","phase":"commentary","content":[{"type":"output_text","text":"a","annotations":[{"type":"url_citation"}]}]}]}`))
	require.NoError(t, err)
	var fields []string
	for _, w := range r.Warnings {
		fields = append(fields, w.Field)
	}
	assert.ElementsMatch(t, []string{
		"truncation", "stream_options.include_obfuscation", "input[0].encrypted_content", "input[1]", "input[1].content[0]", "reasoning", "tools[0]",
	}, fields)
	// Reasoning that another service sealed would be refused by this one: it is left out.
	require.Len(t, r.Messages, 1)
	assert.Equal(t, []Part{{Kind: Text, Text: "a"}}, r.Messages[0].Parts)
}

// responsesAnswers are answers of every form.
func responsesAnswers() map[string]*Answer {
	usage := Usage{Known: true, Input: 10, CacheRead: 4, CacheWrite: 1, CachedKnown: true, Output: 5, Reasoning: 2, ReasoningKnown: true}
	return map[string]*Answer{
		"text":          {ID: "chatcmpl-1", Model: "up", Created: 7, Parts: []Part{{Kind: Text, Text: "Hé \"you\"\n"}}, Stop: StopEnd, Usage: usage},
		"unknown usage": {ID: "1", Parts: []Part{{Kind: Text, Text: "a"}}, Stop: StopEnd},
		"partly known":  {ID: "1", Parts: []Part{{Kind: Text, Text: "a"}}, Stop: StopEnd, Usage: Usage{Known: true, Input: 1, Output: 2}},
		"no id":         {Parts: []Part{{Kind: Text, Text: "a"}}, Stop: StopEnd},
		"empty":         {ID: "1", Stop: StopEnd, Usage: usage},
		"texts":         {ID: "1", Parts: []Part{{Kind: Text, Text: "a"}, {Kind: Text, Text: "b"}}, Stop: StopEnd, Usage: usage},
		"length":        {ID: "1", Parts: []Part{{Kind: Text, Text: "a"}}, Stop: StopLength, Usage: usage},
		"filter":        {ID: "1", Parts: []Part{{Kind: Text, Text: "a"}}, Stop: StopFilter, Usage: usage},
		"refusal":       {ID: "1", Parts: []Part{{Kind: Text, Text: "Well."}, {Kind: Refusal, Text: "No."}}, Stop: StopRefusal, Usage: usage},
		"declined":      {ID: "1", Parts: []Part{{Kind: Text, Text: "No"}}, Stop: StopRefusal, Usage: usage},
		"tools": {ID: "1", Parts: []Part{
			{Kind: Reasoning, Text: "Hm.", Signature: "s"},
			{Kind: Reasoning, Redacted: "r"},
			{Kind: Text, Text: "I look."},
			{Kind: ToolCall, ID: "c1", Name: "f", Text: `{"a":1}`},
			{Kind: ToolCall, ID: "c2", Name: "g", Text: ``},
			{Kind: Text, Text: "So."},
		}, Stop: StopTools, Usage: usage},
	}
}

// eventsOf are those of a stream with an answer, in pieces of n bytes.
func eventsOf(a *Answer, n int) []Event {
	list := []Event{{Kind: Begin, ID: a.ID, Model: a.Model, Created: a.Created}, {Kind: Keep}}
	for _, p := range a.Parts {
		list = append(list, Event{Kind: PartBegin, Part: Part{Kind: p.Kind, ID: p.ID, Name: p.Name, Redacted: p.Redacted}})
		for s := p.Text; s != ""; {
			k := min(n, len(s))
			list = append(list, Event{Kind: Delta, Text: s[:k]})
			s = s[k:]
		}
		if p.Signature != "" {
			list = append(list, Event{Kind: Delta, Signature: p.Signature})
		}
		list = append(list, Event{Kind: PartEnd})
	}
	return append(list, Event{Kind: Finish, Stop: a.Stop}, Event{Kind: Tally, Usage: a.Usage}, Event{Kind: End})
}

func TestResponsesStreamIsTheAnswer(t *testing.T) {
	o := &AnswerOptions{Model: "asked", ID: "gen", Created: 9, Body: []byte(`{"instructions":"Be brief.","temperature":0.5,"tools":[{"type":"function","name":"f"}],"truncation":"auto"}`)}
	for name, a := range responsesAnswers() {
		t.Run(name, func(t *testing.T) {
			whole := Responses().EncodeAnswer(nil, a, o)
			require.True(t, json.Valid(whole), "%s", whole)
			var stream []byte
			e := Responses().NewStreamEncoder(o)
			for _, ev := range eventsOf(a, 400) {
				stream = e.Append(stream, &ev)
			}
			last := checkResponsesStream(t, stream)
			assert.JSONEq(t, string(whole), string(last))
			assert.Empty(t, e.Append(nil, &Event{Kind: Delta, Text: "late"}), "nothing follows the end")
		})
	}
}

// checkResponsesStream holds a stream to the API's grammar and returns the last response.
func checkResponsesStream(t *testing.T, stream []byte) json.RawMessage {
	t.Helper()
	type item struct {
		ID, Type, Status, Arguments string
		Content, Summary            []struct{ Type, Text, Refusal string }
	}
	type event struct {
		Type                            string
		SequenceNumber                  int64  `json:"sequence_number"`
		OutputIndex                     int    `json:"output_index"`
		ContentIndex                    int    `json:"content_index"`
		ItemID                          string `json:"item_id"`
		Delta, Text, Refusal, Arguments string
		Item                            item
		Response                        json.RawMessage
	}
	var (
		last     json.RawMessage
		seq      int64
		open     *item
		items    int
		said     strings.Builder
		contents int
		over     bool
	)
	for frame := range strings.SplitSeq(strings.TrimSuffix(string(stream), "\n\n"), "\n\n") {
		if strings.HasPrefix(frame, ":") {
			continue
		}
		require.False(t, over, "after the last event: %s", frame)
		head, data, ok := strings.Cut(frame, "\ndata: ")
		require.True(t, ok, frame)
		var ev event
		require.NoError(t, json.Unmarshal([]byte(data), &ev), data)
		assert.Equal(t, "event: "+ev.Type, head)
		assert.Equal(t, seq, ev.SequenceNumber)
		seq++
		if ev.ItemID != "" {
			require.NotNil(t, open, frame)
			assert.Equal(t, open.ID, ev.ItemID)
			assert.Equal(t, items, ev.OutputIndex)
		}
		switch ev.Type {
		case "response.created":
			assert.Equal(t, int64(0), ev.SequenceNumber)
		case "response.in_progress":
			assert.Equal(t, int64(1), ev.SequenceNumber)
		case "response.output_item.added":
			require.Nil(t, open)
			assert.Equal(t, items, ev.OutputIndex)
			assert.Equal(t, "in_progress", ev.Item.Status)
			open, contents = &ev.Item, 0
			said.Reset()
		case "response.content_part.added", "response.reasoning_summary_part.added":
			assert.Equal(t, contents, ev.ContentIndex)
			said.Reset()
		case "response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta", "response.reasoning_summary_text.delta":
			assert.NotEmpty(t, ev.Delta)
			said.WriteString(ev.Delta)
		case "response.output_text.done", "response.refusal.done", "response.function_call_arguments.done", "response.reasoning_summary_text.done":
			assert.Equal(t, said.String(), ev.Text+ev.Refusal+ev.Arguments)
		case "response.content_part.done":
			contents++
		case "response.reasoning_summary_part.done":
		case "response.output_item.done":
			require.NotNil(t, open, frame)
			assert.Equal(t, open.ID, ev.Item.ID)
			assert.Equal(t, open.Type, ev.Item.Type)
			assert.Equal(t, items, ev.OutputIndex)
			items++
			open = nil
		case "response.completed", "response.incomplete", "response.failed":
			over, last = true, ev.Response
		default:
			t.Errorf("unknown event: %s", ev.Type)
		}
	}
	require.True(t, over, "the stream has no last event")
	return last
}

func TestResponsesAnswer(t *testing.T) {
	a := responsesAnswers()["tools"]
	got := Responses().EncodeAnswer(nil, a, &AnswerOptions{Model: "asked", Created: 9})
	assert.JSONEq(t, `{"id":"resp_1","object":"response","created_at":9,"status":"completed","error":null,"incomplete_details":null,"model":"asked",
	  "output":[
	    {"id":"rs_1_0","type":"reasoning","status":"completed","summary":[{"type":"summary_text","text":"Hm."}],"encrypted_content":"kvsteer-signature:s"},
	    {"id":"rs_1_1","type":"reasoning","status":"completed","summary":[],"encrypted_content":"kvsteer-redacted:r"},
	    {"id":"msg_1_2","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[],"logprobs":[]}]},
	    {"id":"fc_1_3","type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{\"a\":1}"},
	    {"id":"fc_1_4","type":"function_call","status":"completed","call_id":"c2","name":"g","arguments":"{}"},
	    {"id":"msg_1_5","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"So.","annotations":[],"logprobs":[]}]}],
	  "background":false,"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,
	  "previous_response_id":null,"reasoning":{"effort":null,"summary":null},"store":false,"temperature":null,"text":{"format":{"type":"text"}},
	  "tool_choice":"auto","tools":[],"top_p":null,"truncation":"disabled","user":null,
	  "usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4,"cache_write_tokens":1},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":15}}`, string(got))
	for name, want := range map[string]string{
		"length":        `"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"}`,
		"filter":        `"status":"incomplete","error":null,"incomplete_details":{"reason":"content_filter"}`,
		"declined":      `"status":"incomplete","error":null,"incomplete_details":{"reason":"content_filter"}`,
		"refusal":       `"status":"completed","error":null,"incomplete_details":null`,
		"unknown usage": `"usage":null`,
		"partly known":  `"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}`, // absent is not zero
		"no id":         `"id":"resp_gen"`,
	} {
		got := Responses().EncodeAnswer(nil, responsesAnswers()[name], &AnswerOptions{ID: "gen"})
		assert.Contains(t, string(got), want, name)
	}
}

func TestResponsesStreamFails(t *testing.T) {
	for kind, code := range map[FailureKind]string{
		FailContent: "content_filter", FailContext: "context_length_exceeded", FailServer: "server_error", FailOverloaded: "server_is_overloaded",
	} {
		e := Responses().NewStreamEncoder(&AnswerOptions{})
		var out []byte
		for _, ev := range []Event{
			{Kind: Begin, ID: "1"},
			{Kind: PartBegin, Part: Part{Kind: Text}},
			{Kind: Delta, Text: "a"},
			{Kind: Fail, Failure: &Failure{Kind: kind, Message: "why"}},
			{Kind: Delta, Text: "b"},
			{Kind: End},
		} {
			out = e.Append(out, &ev)
		}
		last := checkResponsesStream(t, out)
		assert.Contains(t, string(last), `"status":"failed","error":{"code":"`+code+`","message":"why"}`)
		assert.NotContains(t, string(out), "response.completed")
	}
	// Before anything else, it is an event of its own.
	out := Responses().NewStreamEncoder(&AnswerOptions{}).Append(nil, &Event{Kind: Fail, Failure: &Failure{Kind: FailOverloaded, Message: "why"}})
	assert.Equal(t, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"server_is_overloaded\",\"message\":\"why\",\"param\":null}\n\n", string(out))
}

func TestResponsesStreamBreaksOff(t *testing.T) {
	e := Responses().NewStreamEncoder(&AnswerOptions{})
	var out []byte
	all := eventsOf(responsesAnswers()["tools"], 3)
	for _, ev := range all[:len(all)-1] { // all but End
		out = e.Append(out, &ev)
	}
	assert.NotContains(t, string(out), `"type":"response.completed"`, "there is no false end")
}

func TestResponsesStreamIsBounded(t *testing.T) {
	e := Responses().NewStreamEncoder(&AnswerOptions{})
	e.Append(nil, &Event{Kind: PartBegin, Part: Part{Kind: Text}})
	piece := strings.Repeat("x", 1<<20)
	var out []byte
	for range maxResponse>>20 + 1 {
		if out = e.Append(out[:0], &Event{Kind: Delta, Text: piece}); strings.Contains(string(out[:min(len(out), 64)]), "response.failed") {
			return
		}
	}
	t.Fatal("an answer without end is held")
}

func FuzzResponses(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":"a"}`))
	f.Add([]byte(`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{"},{"type":"function_call_output","call_id":"c","output":"x"}],"tools":[{"type":"function","name":"f"}]}`))
	f.Add([]byte(`{"model":"m","input":[{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}],"encrypted_content":"kvsteer-signature:a"}],"text":{"format":{"type":"json_object"}},"reasoning":{"effort":"none"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := Responses().DecodeRequest(body)
		if err != nil {
			var u *UnsupportedError
			var b *BodyError
			if r != nil || !errors.As(err, &u) && !errors.As(err, &b) {
				t.Fatalf("error %v with %v", err, r)
			}
			return
		}
		for _, s := range []Service{Chat(), Messages()} {
			x, err := NewExchange(Responses(), s, body, Options{})
			if err != nil {
				continue
			}
			if !json.Valid(x.Body()) {
				t.Fatalf("%s: %s", s.Name(), x.Body())
			}
			if a := Responses().EncodeAnswer(nil, &Answer{Parts: []Part{{Kind: Text, Text: string(body)}}}, &x.answer); !json.Valid(a) {
				t.Fatalf("%s", a)
			}
		}
	})
}

// What answers repeat of a request is on one line, however the client wrote it.
func TestResponsesStreamOfAnIndentedRequest(t *testing.T) {
	indented := `{
	"model": "m",
	"input": "hi",
	"instructions": "Be\nbrief",
	"metadata": {
		"a b": "c  d"
	},
	"reasoning": {
		"effort": "low"
	},
	"text": {
		"format": {
			"type": "text"
		}
	},
	"tool_choice": {
		"type": "function",
		"name": "f"
	},
	"tools": [
		{
			"type": "function",
			"name": "f"
		}
	],
	"stream": true
}`
	for _, body := range []string{indented, strings.ReplaceAll(indented, "\n", "\r\n"), strings.ReplaceAll(indented, "\n", "\r")} {
		x, err := NewExchange(Responses(), Chat(), []byte(body), Options{})
		require.NoError(t, err)
		out, err := x.AnswerStream([]byte(`{"id":"1","choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`))
		require.NoError(t, err)
		require.Empty(t, brokenLine(string(out)))
		last := checkResponsesStream(t, out)
		assert.Contains(t, string(last), `"metadata":{"a b":"c  d"}`)
		assert.Contains(t, string(last), `"tools":[{"type":"function","name":"f"}]`)
		assert.Contains(t, string(last), `"tool_choice":{"type":"function","name":"f"}`)
	}
	assert.Equal(t, "[]", oneLine([]byte("[\n"), "[]"))
}

func TestResponsesGivesEmptyArguments(t *testing.T) {
	a := &Answer{ID: "1", Parts: []Part{{Kind: ToolCall, ID: "c", Name: "f", Text: " "}}, Stop: StopTools}
	assert.Contains(t, string(Responses().EncodeAnswer(nil, a, &AnswerOptions{})), `"arguments":"{}"`)
	e := Responses().NewStreamEncoder(&AnswerOptions{})
	var out []byte
	a.Parts[0].Text = ""
	a.Events(func(ev *Event) { out = e.Append(out, ev) })
	assert.Contains(t, string(checkResponsesStream(t, out)), `"arguments":"{}"`)
	assert.Contains(t, string(out), `"delta":"{}"`)
}
