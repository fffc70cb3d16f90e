package providertest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers/providertest"
)

// full says all that a model can say.
func full(first bool) providertest.Answer {
	return providertest.Answer{
		Thinking: "Let me see", Text: "Grüß Gott, schöne 🌍!", CallsFirst: first,
		Calls: []providertest.Call{{ID: "c1", Name: "weather", Arguments: `{"city":"Zürich"}`}, {ID: "c2", Name: "time", Arguments: `{}`}},
		Usage: providertest.Usage{Input: 100, CacheRead: 60, CacheWrite: 10, Output: 20, Reasoning: 5},
	}
}

// said is what a stream comes to, whatever its dialect.
type said struct {
	thinking, text, refusal, stop string
	calls                         map[int]*providertest.Call
	order                         []string // of kinds
	indexes                       []int    // of calls
}

func (s *said) kind(k string) {
	if len(s.order) == 0 || s.order[len(s.order)-1] != k {
		s.order = append(s.order, k)
	}
}

func (s *said) call(i int) *providertest.Call {
	if s.calls == nil {
		s.calls = map[int]*providertest.Call{}
	}
	if s.calls[i] == nil {
		s.calls[i] = &providertest.Call{}
	}
	return s.calls[i]
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func readChat(t *testing.T, data []string) (s said, usage any) {
	t.Helper()
	for _, d := range data {
		if d == "[DONE]" {
			continue
		}
		o := parse(t, d)
		if u := o["usage"]; u != nil {
			usage = u
		}
		delta := at(o, "choices", 0, "delta")
		if v := text(at(delta, "reasoning_content")); v != "" {
			s.kind("thinking")
			s.thinking += v
		}
		if v := text(at(delta, "content")); v != "" {
			s.kind("text")
			s.text += v
		}
		s.refusal += text(at(delta, "refusal"))
		calls, _ := at(delta, "tool_calls").([]any)
		for _, c := range calls {
			s.kind("calls")
			index, _ := at(c, "index").(float64)
			s.indexes = append(s.indexes, int(index))
			call := s.call(int(index))
			call.ID += text(at(c, "id"))
			call.Name += text(at(c, "function", "name"))
			call.Arguments += text(at(c, "function", "arguments"))
		}
		if v := text(at(o, "choices", 0, "finish_reason")); v != "" {
			s.stop = v
		}
	}
	return s, usage
}

func readMessages(t *testing.T, names, data []string) (s said, usage any) {
	t.Helper()
	open := -1
	for i, d := range data {
		o := parse(t, d)
		require.Equal(t, names[i], o["type"])
		index := -1
		if v, ok := o["index"].(float64); ok {
			index = int(v)
		}
		switch o["type"] {
		case "content_block_start":
			require.Equal(t, -1, open)
			open = index
			if at(o, "content_block", "type") == "tool_use" {
				s.kind("calls")
				*s.call(index) = providertest.Call{ID: text(at(o, "content_block", "id")), Name: text(at(o, "content_block", "name"))}
				require.Equal(t, map[string]any{}, at(o, "content_block", "input"))
			}
		case "content_block_delta":
			require.Equal(t, open, index)
			switch at(o, "delta", "type") {
			case "thinking_delta":
				s.kind("thinking")
				s.thinking += text(at(o, "delta", "thinking"))
			case "text_delta":
				s.kind("text")
				s.text += text(at(o, "delta", "text"))
			case "input_json_delta":
				s.call(index).Arguments += text(at(o, "delta", "partial_json"))
			}
		case "content_block_stop":
			require.Equal(t, open, index)
			open = -1
		case "message_delta":
			s.stop, usage = text(at(o, "delta", "stop_reason")), o["usage"]
		}
	}
	require.Equal(t, "message_start", names[0])
	require.Equal(t, "message_stop", names[len(names)-1])
	return s, usage
}

// Whatever is odd about a stream's frames, its events say the same.
func TestStreams(t *testing.T) {
	odd := map[string]providertest.Frames{
		"plain": {}, "CRLF": {CRLF: true}, "CR": {CR: true}, "no space": {NoSpace: true}, "comments": {Comments: true}, "one byte at a time": {Split: 1},
		"interleaved": {Interleave: true}, "4 MiB": {PadAt: 3, Pad: 4 << 20}, "all": {CRLF: true, NoSpace: true, Comments: true, Split: 3},
		"usage null": {Usage: providertest.UsageLastNull}, "usage absent": {Usage: providertest.UsageLastAbsent},
		"usage at the end": {Usage: providertest.UsageWithFinish}, "usage everywhere": {Usage: providertest.UsageEvery},
	}
	for _, d := range []providertest.Dialect{providertest.OpenAI, providertest.AzureOpenAI, providertest.Gemini} {
		s := start(t, d, providertest.Options{})
		for name, f := range odd {
			for _, first := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v %s %v", d, name, first), func(t *testing.T) {
					a := full(first)
					a.Frames = f
					s.Script(a)
					status, h, body := ask(t, s.BaseURL()+"/chat/completions",
						`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":`+hello+`}`)
					require.Equal(t, 200, status, body)
					require.Contains(t, h.Get("Content-Type"), "text/event-stream")
					_, data := frames(t, body)
					require.Equal(t, "[DONE]", data[len(data)-1])
					got, usage := readChat(t, data)
					require.Equal(t, []string{a.Thinking, a.Text, "tool_calls"}, []string{got.thinking, got.text, got.stop})
					calls := []providertest.Call{*got.calls[0], *got.calls[1]}
					require.Equal(t, a.Calls, calls)
					require.Equal(t, []any{100.0, 20.0, 60.0}, []any{
						at(usage, "prompt_tokens"), at(usage, "completion_tokens"),
						at(usage, "prompt_tokens_details", "cached_tokens"),
					})
					order := []string{"thinking", "text", "calls"}
					if first {
						order = []string{"thinking", "calls", "text"}
					}
					require.Equal(t, order, got.order)
					if f.PadAt > 0 {
						require.Len(t, data[f.PadAt-1], f.Pad)
					}
					lines, returns, both := strings.Count(body, "\n"), strings.Count(body, "\r"), strings.Count(body, "\r\n")
					switch {
					case f.CRLF:
						require.Equal(t, []int{lines, lines}, []int{returns, both})
					case f.CR:
						require.Zero(t, lines)
					default:
						require.Zero(t, returns)
					}
					require.Equal(t, f.Comments, strings.Contains(body, ": keep-alive"))
					require.Equal(t, f.NoSpace, !strings.Contains(body, "data: "))
					if d == providertest.OpenAI {
						require.Equal(t, f.Interleave, !slices.IsSorted(got.indexes), got.indexes)
					}
				})
			}
		}
	}
	s := start(t, providertest.Anthropic, providertest.Options{})
	for name, f := range odd {
		for _, first := range []bool{false, true} {
			t.Run(fmt.Sprintf("Anthropic %s %v", name, first), func(t *testing.T) {
				a := full(first)
				a.Frames = f
				s.Script(a)
				status, _, body := ask(t, s.URL()+claude, claudeBody(hello, `,"stream":true`))
				require.Equal(t, 200, status, body)
				names, data := frames(t, body)
				got, usage := readMessages(t, names, data)
				require.Equal(t, []string{a.Thinking, a.Text, "tool_use"}, []string{got.thinking, got.text, got.stop})
				var calls []providertest.Call
				for i := range data {
					if got.calls[i] != nil {
						calls = append(calls, *got.calls[i])
					}
				}
				require.Equal(t, a.Calls, calls)
				require.Equal(t, []any{30.0, 60.0, 10.0, 20.0}, []any{
					at(usage, "input_tokens"), at(usage, "cache_read_input_tokens"),
					at(usage, "cache_creation_input_tokens"), at(usage, "output_tokens"),
				})
			})
		}
	}
}

func TestWholeAnswers(t *testing.T) {
	s := start(t, providertest.OpenAI, providertest.Options{}, full(false))
	_, _, body := ask(t, s.URL()+chat, `{"model":"m","messages":`+hello+`}`)
	o := parse(t, body)
	message := at(o, "choices", 0, "message")
	require.Equal(t, []any{"m", "Grüß Gott, schöne 🌍!", "Let me see", "tool_calls", `{"city":"Zürich"}`, 120.0}, []any{
		o["model"], at(message, "content"), at(message, "reasoning_content"), at(o, "choices", 0, "finish_reason"),
		at(message, "tool_calls", 0, "function", "arguments"), at(o, "usage", "total_tokens"),
	})

	s = start(t, providertest.Anthropic, providertest.Options{}, full(true))
	_, _, body = ask(t, s.URL()+claude, claudeBody(hello, ""))
	o = parse(t, body)
	require.Equal(t, []any{"thinking", "c1", "Zürich", map[string]any{}, "Grüß Gott, schöne 🌍!", "tool_use", nil}, []any{
		at(o, "content", 0, "type"), at(o, "content", 1, "id"), at(o, "content", 1, "input", "city"), at(o, "content", 2, "input"),
		at(o, "content", 3, "text"), o["stop_reason"], o["stop_sequence"],
	})
}

func TestStops(t *testing.T) {
	type row struct{ chat, claude string }
	for stop, want := range map[providertest.Stop]row{
		providertest.StopDefault: {"stop", "end_turn"}, providertest.StopLength: {"length", "max_tokens"},
		providertest.StopAtText: {"stop", "stop_sequence"}, providertest.StopFilter: {"content_filter", "refusal"},
		providertest.StopPause: {"stop", "pause_turn"}, providertest.StopRefusal: {"stop", "refusal"},
	} {
		a := providertest.Answer{Text: "x", Stop: stop, StopText: "END"}
		s := start(t, providertest.OpenAI, providertest.Options{}, a)
		_, _, body := ask(t, s.URL()+chat, `{"model":"m","messages":`+hello+`}`)
		require.Equal(t, want.chat, at(parse(t, body), "choices", 0, "finish_reason"))
		s = start(t, providertest.Anthropic, providertest.Options{}, a)
		_, _, body = ask(t, s.URL()+claude, claudeBody(hello, ""))
		require.Equal(t, []any{want.claude, "END"}, []any{parse(t, body)["stop_reason"], parse(t, body)["stop_sequence"]})
	}
	s := start(t, providertest.OpenAI, providertest.Options{}, providertest.Answer{Refusal: "I can't."})
	_, _, body := ask(t, s.URL()+chat, `{"model":"m","messages":`+hello+`}`)
	require.Equal(t, []any{"I can't.", nil}, []any{at(parse(t, body), "choices", 0, "message", "refusal"), at(parse(t, body), "choices", 0, "message", "content")})
}

// Usage is where the script has it, and nowhere if it is not asked for.
func TestUsagePlaces(t *testing.T) {
	const unasked, asked = "", `,"stream_options":{"include_usage":true}`
	for name, c := range map[string]struct {
		place         providertest.UsagePlace
		options       string
		chunks        int // with usage
		choicesOfLast any
	}{
		"unasked":             {providertest.UsageLast, unasked, 0, nil},
		"asked":               {providertest.UsageLast, asked, 1, []any{}},
		"null":                {providertest.UsageLastNull, asked, 1, nil},
		"given unasked":       {providertest.UsageUnasked, unasked, 1, []any{}},
		"everywhere":          {providertest.UsageEvery, unasked, 4, nil},
		"with finish":         {providertest.UsageWithFinish, unasked, 1, nil},
		"the service is mute": {providertest.UsageLast, asked, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := providertest.Answer{Text: "one two", NoUsage: name == "the service is mute", Frames: providertest.Frames{Usage: c.place}}
			s := start(t, providertest.OpenAI, providertest.Options{}, a)
			_, _, body := ask(t, s.URL()+chat, `{"model":"m","stream":true,"messages":`+hello+c.options+`}`)
			_, data := frames(t, body)
			n := 0
			var last any
			for _, d := range data[:len(data)-1] {
				if o := parse(t, d); o["usage"] != nil {
					n++
					last = o["choices"]
				}
			}
			require.Equal(t, c.chunks, n, body)
			if c.choicesOfLast != nil {
				require.Equal(t, c.choicesOfLast, last)
			}
		})
	}
}

// The events of responses are numbered, and end with what is answered otherwise.
func TestResponses(t *testing.T) {
	s := start(t, providertest.OpenAI, providertest.Options{}, full(false), full(false), providertest.Answer{Text: "x", Stop: providertest.StopLength})
	_, _, whole := ask(t, s.URL()+"/v1/responses", `{"model":"m","input":"How are you"}`)
	_, _, body := ask(t, s.URL()+"/v1/responses", `{"model":"m","input":"How are you","stream":true}`)
	names, data := frames(t, body)
	var text, arguments string
	for i, d := range data {
		o := parse(t, d)
		require.Equal(t, []any{names[i], float64(i)}, []any{o["type"], o["sequence_number"]})
		delta, _ := o["delta"].(string)
		switch o["type"] {
		case "response.output_text.delta":
			text += delta
		case "response.function_call_arguments.delta":
			arguments += delta
		}
	}
	require.Equal(t, []string{"response.created", "response.in_progress", "response.output_item.added", "response.reasoning_summary_part.added"}, names[:4])
	require.Equal(t, "response.completed", names[len(names)-1])
	require.Equal(t, []string{"Grüß Gott, schöne 🌍!", `{"city":"Zürich"}{}`}, []string{text, arguments})
	last := parse(t, data[len(data)-1])
	for _, path := range [][]any{{"output", 1, "content", 0, "text"}, {"output", 2, "call_id"}, {"output", 3, "arguments"}, {"usage"}, {"status"}} {
		want := at(parse(t, whole), path...)
		require.NotNil(t, want, path)
		require.Equal(t, want, at(last["response"], path...))
	}
	_, _, whole = ask(t, s.URL()+"/v1/responses", `{"model":"m","input":"How are you"}`)
	require.Equal(t, []any{"incomplete", "max_output_tokens"}, []any{parse(t, whole)["status"], at(parse(t, whole), "incomplete_details", "reason")})
}

func TestOtherEndpoints(t *testing.T) {
	s := start(t, providertest.OpenAI, providertest.Options{Models: []string{"m", "e"}})
	_, _, body := ask(t, s.URL()+"/v1/completions", `{"model":"m","prompt":"a b","stream":true}`)
	_, data := frames(t, body)
	require.Equal(t, "Hello", at(parse(t, data[0]), "choices", 0, "text"))
	_, _, body = ask(t, s.URL()+"/v1/completions", `{"model":"m","prompt":"a b"}`)
	require.Equal(t, []any{"Hello there.", 2.0}, []any{at(parse(t, body), "choices", 0, "text"), at(parse(t, body), "usage", "prompt_tokens")})
	_, _, body = ask(t, s.URL()+"/v1/embeddings", `{"model":"e","input":["a","bb"]}`)
	require.Equal(t, []any{1.0, 2.0}, []any{at(parse(t, body), "data", 0, "embedding", 0), at(parse(t, body), "data", 1, "embedding", 0)})
	_, _, body = ask(t, s.URL()+"/v1/embeddings", `{"model":"e","input":"a","encoding_format":"base64"}`)
	require.Equal(t, "AACAPwAAAAAAAIA/AAAAvw==", at(parse(t, body), "data", 0, "embedding"))

	get := func(s *providertest.Server, method, path, contentType, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, strings.NewReader(body))
		require.NoError(t, err)
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Anthropic-Version", "2023-06-01")
		resp, err := client(t).Do(r)
		require.NoError(t, err)
		defer func() { _ = resp.Body.Close() }()
		data, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(data)
	}
	status, list := get(s, http.MethodGet, "/v1/models", "", "")
	require.Equal(t, []any{200, "m", "e"}, []any{status, at(parse(t, list), "data", 0, "id"), at(parse(t, list), "data", 1, "id")})
	status, _ = get(s, http.MethodGet, "/v1/models/x", "", "")
	require.Equal(t, 404, status)

	const form = "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.jsonl\"\r\n\r\n{}\n\r\n--b--\r\n"
	status, file := get(s, http.MethodPost, "/v1/files", "multipart/form-data; boundary=b", form)
	require.Equal(t, 200, status, file)
	id := text(parse(t, file)["id"])
	require.Equal(t, []any{"f.jsonl", "batch", 3.0}, []any{parse(t, file)["filename"], parse(t, file)["purpose"], parse(t, file)["bytes"]})
	_, content := get(s, http.MethodGet, "/v1/files/"+id+"/content", "", "")
	require.Equal(t, "{}\n", content)
	status, batch := get(s, http.MethodPost, "/v1/batches", "application/json", `{"input_file_id":"`+id+`","endpoint":"/v1/chat/completions"}`)
	require.Equal(t, 200, status, batch)
	_, again := get(s, http.MethodGet, "/v1/batches/"+text(parse(t, batch)["id"]), "", "")
	require.Equal(t, batch, again)
	status, _ = get(s, http.MethodDelete, "/v1/files/"+id, "", "")
	require.Equal(t, 200, status)
	status, _ = get(s, http.MethodGet, "/v1/files/"+id, "", "")
	require.Equal(t, 404, status)
	status, _ = get(s, http.MethodPost, "/v1/files", "text/plain", "x")
	require.Equal(t, 400, status)

	s = start(t, providertest.Anthropic, providertest.Options{Models: []string{"c"}})
	_, list = get(s, http.MethodGet, "/v1/models", "", "")
	require.Equal(t, []any{"c", "c", false}, []any{at(parse(t, list), "data", 0, "id"), parse(t, list)["first_id"], parse(t, list)["has_more"]})
}

// What is to be written in pieces goes over the wire so.
func TestPieces(t *testing.T) {
	for split, want := range map[int]string{1: "\r\n1\r\nd\r\n1\r\na\r\n1\r\nt\r\n", 4: "\r\n4\r\ndata\r\n4\r\n: {\"\r\n"} {
		s := start(t, providertest.OpenAI, providertest.Options{}, providertest.Answer{Text: "x", Frames: providertest.Frames{Split: split}})
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL(), "http://"))
		require.NoError(t, err)
		body := `{"model":"m","stream":true,"messages":` + hello + `}`
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", chat, len(body), body)
		require.NoError(t, err)
		answer, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.Contains(t, string(answer), want)
	}
}
