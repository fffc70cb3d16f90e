package bedrock

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/providers"
)

const (
	claude = "anthropic.claude-sonnet-4-5-20250929-v1:0"
	nova   = "amazon.nova-pro-v1:0"
	llama  = "us.meta.llama3-3-70b-instruct-v1:0"
)

// sent is what a chat request becomes.
func sent(t *testing.T, model, body string) (out string, warned []string, err error) {
	t.Helper()
	x, err := dialect.NewExchange(dialect.Chat(), converse{}, []byte(body), dialect.Options{Model: model})
	if err != nil {
		return "", nil, err
	}
	require.True(t, json.Valid(x.Body()), "%s", x.Body())
	for _, w := range x.Warnings() {
		warned = append(warned, w.Field)
	}
	return string(x.Body()), warned, nil
}

func TestRequests(t *testing.T) {
	const user = `"messages":[{"role":"user","content":"a"}]`
	const wireUser = `"messages":[{"role":"user","content":[{"text":"a"}]}]`
	const tools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g"}}]`
	const wireTools = `"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}},{"toolSpec":{"name":"g","inputSchema":{"json":{"type":"object","properties":{}}}}}]`
	const png = `data:image/png;base64,aGk=`
	for name, c := range map[string]struct{ model, body, want string }{
		"plain": {claude, `{` + user + `}`, `{` + wireUser + `}`},
		"sampling": {
			llama, `{` + user + `,"max_tokens":9,"temperature":0.50,"top_p":0.9,"stop":["x","y"]}`,
			`{` + wireUser + `,"inferenceConfig":{"maxTokens":9,"temperature":0.5,"topP":0.9,"stopSequences":["x","y"]}}`,
		},
		"tools":          {claude, `{` + user + `,` + tools + `,"tool_choice":"required"}`, `{` + wireUser + `,"toolConfig":{` + wireTools + `,"toolChoice":{"any":{}}}}`},
		"one tool":       {claude, `{` + user + `,` + tools + `,"tool_choice":{"type":"function","function":{"name":"f"}}}`, `{` + wireUser + `,"toolConfig":{` + wireTools + `,"toolChoice":{"tool":{"name":"f"}}}}`},
		"no tool":        {claude, `{` + user + `,` + tools + `,"tool_choice":"none"}`, `{` + wireUser + `}`},
		"one at a time":  {claude, `{` + user + `,` + tools + `,"parallel_tool_calls":false}`, `{` + wireUser + `,"toolConfig":{` + wireTools + `},"additionalModelRequestFields":{"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}}`},
		"schema":         {nova, `{` + user + `,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}}}`, `{` + wireUser + `,"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"name":"s","schema":"{\"type\":\"object\"}"}}}}}`},
		"tier":           {claude, `{` + user + `,"service_tier":"priority"}`, `{` + wireUser + `,"serviceTier":{"type":"priority"}}`},
		"effort of gpt":  {"openai.gpt-oss-120b-1:0", `{` + user + `,"reasoning_effort":"minimal"}`, `{` + wireUser + `,"additionalModelRequestFields":{"reasoning_effort":"low"}}`},
		"effort of nova": {"amazon.nova-2-lite-v1:0", `{` + user + `,"reasoning_effort":"high"}`, `{` + wireUser + `,"additionalModelRequestFields":{"reasoningConfig":{"type":"enabled","maxReasoningEffort":"high"}}}`},
		"image": {
			claude, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"` + png + `"}}]}]}`,
			`{"messages":[{"role":"user","content":[{"text":"a"},{"image":{"format":"png","source":{"bytes":"aGk="}}}]}]}`,
		},
		"turns": {claude, `{"messages":[
			{"role":"system","content":"s"},
			{"role":"user","content":"a"},{"role":"user","content":"  "},{"role":"user","content":"b"},
			{"role":"assistant","content":"c","tool_calls":[{"id":"t.1","type":"function","function":{"name":"f","arguments":"{\"n\":9007199254740993}"}},{"id":"t2","type":"function","function":{"name":"g","arguments":""}}]},
			{"role":"tool","tool_call_id":"t.1","content":"r1"},{"role":"tool","tool_call_id":"t2","content":""},
			{"role":"user","content":"d"}],` + tools + `}`, `{
			"system":[{"text":"s"}],
			"messages":[
				{"role":"user","content":[{"text":"a"},{"text":"b"}]},
				{"role":"assistant","content":[{"text":"c"},{"toolUse":{"toolUseId":"t_1_5623811943af8912","name":"f","input":{"n":9007199254740993}}},{"toolUse":{"toolUseId":"t2","name":"g","input":{}}}]},
				{"role":"user","content":[{"toolResult":{"toolUseId":"t_1_5623811943af8912","content":[{"text":"r1"}]}},{"toolResult":{"toolUseId":"t2","content":[]}},{"text":"d"}]}],
			"toolConfig":{` + wireTools + `}}`},
		"the assistant first": {claude, `{"messages":[{"role":"assistant","content":"a "}]}`, `{"messages":[{"role":"user","content":[{"text":"."}]},{"role":"assistant","content":[{"text":"a"}]}]}`},
		"instructions only":   {claude, `{"messages":[{"role":"system","content":"a"}]}`, `{"messages":[{"role":"user","content":[{"text":"a"}]}]}`},
	} {
		got, _, err := sent(t, c.model, `{"model":"asked",`+strings.TrimPrefix(c.body, "{"))
		require.NoError(t, err, name)
		// Numbers beyond 2^53 survive: JSONEq alone would not see it.
		assert.Equal(t, strings.Count(c.want, "9007199254740993"), strings.Count(got, "9007199254740993"), name)
		if !assert.JSONEq(t, c.want, got, name) {
			t.Log(got)
		}
	}
}

func TestRequestsOfClaudesAPI(t *testing.T) {
	x, err := dialect.NewExchange(dialect.Messages(), converse{}, []byte(`{"model":"asked","max_tokens":4000,"top_k":5,
		"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}}],
		"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}],
		"messages":[
			{"role":"user","content":[
				{"type":"document","title":"My file_v1.pdf","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}},
				{"type":"document","title":"My file v1","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}},
				{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]},
			{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"sig"},{"type":"redacted_thinking","data":"cmVk"},{"type":"tool_use","id":"t","name":"f","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"no","cache_control":{"type":"ephemeral"}}]}]}]}`),
		dialect.Options{Model: claude})
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"system":[{"text":"s"},{"cachePoint":{"type":"default","ttl":"1h"}}],
		"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object"}}}},{"cachePoint":{"type":"default"}}]},
		"messages":[
			{"role":"user","content":[
				{"document":{"format":"pdf","name":"My file v1","source":{"bytes":"aGk="}}},
				{"document":{"format":"pdf","name":"My file v1 2","source":{"bytes":"aGk="}}},
				{"text":"a"},{"cachePoint":{"type":"default"}}]},
			{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Hm.","signature":"sig"}}},{"reasoningContent":{"redactedContent":"cmVk"}},{"toolUse":{"toolUseId":"t","name":"f","input":{}}}]},
			{"role":"user","content":[{"toolResult":{"toolUseId":"t","status":"error","content":[{"text":"no"}]}},{"cachePoint":{"type":"default"}}]}],
		"inferenceConfig":{"maxTokens":4000},"additionalModelRequestFields":{"top_k":5}}`, string(x.Body()))
}

func TestRefusals(t *testing.T) {
	const user = `"messages":[{"role":"user","content":"a"}]`
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}]`
	const called = `"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"t","content":"r"}]`
	for body, field := range map[string]string{
		`{` + user + `,"response_format":{"type":"json_object"}}`: "response_format",
		`{` + called + `}`: "tools",
		`{` + called + `,` + tools + `,"tool_choice":"none"}`:      "tool_choice",
		`{` + user + `,` + tools + `,"parallel_tool_calls":false}`: "parallel_tool_calls",
		`{` + user + `,"stop":" "}`:                                "stop",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}]}]}`:                       "messages",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/tiff;base64,aGk="}}]}]}`:                     "messages",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,!"}}]}]}`:                         "messages",
		`{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.zip","file_data":"data:application/zip;base64,aGk="}}]}]}`: "messages",
	} {
		_, _, err := sent(t, llama, `{"model":"asked",`+strings.TrimPrefix(body, "{"))
		var u *dialect.UnsupportedError
		if assert.ErrorAs(t, err, &u, body) {
			assert.Equal(t, field, u.Field, body)
			assert.Equal(t, "converse", u.Service, body)
		}
	}
}

func TestWarnings(t *testing.T) {
	const user = `"messages":[{"role":"user","content":"a"}]`
	for body, field := range map[string]string{
		`{` + user + `,"temperature":1.5}`:         "temperature",
		`{` + user + `,"reasoning_effort":"high"}`: "reasoning",
		`{` + user + `,"seed":7}`:                  "seed",
		`{` + user + `,"user":"u"}`:                "user",
		`{"messages":[{"role":"user","content":"a"},{"role":"system","content":"s"},{"role":"user","content":"b"}]}`: "messages[].role",
		`{"messages":[{"role":"user","name":"n","content":"a"}]}`:                                                    "messages[].name",
	} {
		_, warned, err := sent(t, llama, `{"model":"asked",`+strings.TrimPrefix(body, "{"))
		require.NoError(t, err, body)
		assert.Contains(t, warned, field, body)
	}
}

// The service reads S3 as the gateway, so what a client names there is refused but below
// what the operator lists.
func TestMediaInS3(t *testing.T) {
	k := New(Options{Region: "r-1", Credentials: StaticKeys("a", "b", ""), S3: []string{"s3://public/", "s3://shared/img/"}})
	require.NoError(t, k.Check(&providers.Provider{}))
	listed := k.CodecOf(nova)
	plain, _ := New(Options{Region: "r-1"}).Codec()
	for url, allowed := range map[string]bool{
		"s3://public/a.JPG": true, "s3://shared/img/x/b.jpg": true,
		"s3://shared/b.jpg": false, "s3://shared/img.jpg": false, "s3://publicity/a.jpg": false, "s3://tenant-a/secret.jpg": false,
		"s3://public/../tenant-a/secret.jpg": false, "s3://shared/img/./../b.jpg": false, "S3://public/a.jpg": false,
		"https://x.test/a.jpg": false, "file:///a.jpg": false,
	} {
		for _, kind := range []dialect.PartKind{dialect.Image, dialect.Document, dialect.Audio} {
			media := map[dialect.PartKind]string{dialect.Image: "image/jpeg", dialect.Document: "text/plain", dialect.Audio: "audio/wav"}[kind]
			p := dialect.Part{Kind: kind, Media: dialect.Media{Type: media, URL: url}}
			for _, parts := range [][]dialect.Part{{p}, {{Kind: dialect.ToolResult, ID: "t", Parts: []dialect.Part{p}}}} {
				if parts[0].Kind == dialect.ToolResult && kind == dialect.Audio {
					continue
				}
				r := &dialect.Request{Model: nova, Tools: []dialect.Tool{{Name: "f"}}, Messages: []dialect.Message{
					{Role: dialect.User, Parts: []dialect.Part{{Kind: dialect.Text, Text: "a"}}},
					{Role: dialect.Assistant, Parts: []dialect.Part{{Kind: dialect.ToolCall, ID: "t", Name: "f"}}},
					{Role: dialect.User, Parts: parts},
				}}
				_, err := plain.EncodeRequest(r, nil, func(dialect.Warning) {})
				var u *dialect.UnsupportedError
				require.ErrorAs(t, err, &u, url)
				assert.NotContains(t, err.Error(), url)
				body, err := listed.EncodeRequest(r, nil, func(dialect.Warning) {})
				if !allowed {
					require.ErrorAs(t, err, &u, url)
					continue
				}
				require.NoError(t, err, url)
				assert.Contains(t, string(body), `"source":{"s3Location":{"uri":"`+url+`"}}`)
			}
		}
	}
	for _, prefix := range []string{"", "/", "s3://", "s3:///", "s3://bucket", "s3://bucket/a", "https://x.test/"} {
		k := New(Options{Region: "r-1", Credentials: StaticKeys("a", "b", ""), S3: []string{prefix}})
		require.ErrorContains(t, k.Check(&providers.Provider{}), "Options.S3", prefix)
	}
}

func TestFamily(t *testing.T) {
	for id, want := range map[string]family{
		claude: anthropic, nova: amazon, llama: "meta", "eu." + claude: anthropic, "global.anthropic.claude-opus-4-6-v1": anthropic,
		"arn:aws:bedrock:eu-central-1:1:inference-profile/eu.anthropic.claude-3": anthropic,
		"arn:aws:bedrock:eu-central-1::foundation-model/cohere.command-r-v1:0":   cohere,
		"arn:aws:bedrock:eu-central-1:1:application-inference-profile/abc":       "",
		"": "",
	} {
		assert.Equal(t, want, familyOf(id, ""), id)
	}
	assert.Equal(t, anthropic, familyOf("arn:x/abc", "Anthropic"))
}

// What a cache served, and what it took in, is not among inputTokens, whatever the total says;
// but with models of OpenAI, whose numbers these are.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		model, in string
		want      dialect.Usage
	}{
		{claude, `null`, dialect.Usage{}},
		{claude, `{}`, dialect.Usage{}},
		{claude, `{"inputTokens":5,"outputTokens":2,"totalTokens":7}`, dialect.Usage{Known: true, Input: 5, Output: 2}},
		{claude, `{"inputTokens":5,"outputTokens":2,"totalTokens":11,"cacheReadInputTokens":3,"cacheWriteInputTokens":1}`, dialect.Usage{Known: true, Input: 9, CacheRead: 3, CacheWrite: 1, CachedKnown: true, Output: 2}},
		{claude, `{"inputTokens":5,"outputTokens":2,"totalTokens":7,"cacheReadInputTokens":3}`, dialect.Usage{Known: true, Input: 8, CacheRead: 3, CachedKnown: true, Output: 2}},
		{nova, `{"inputTokens":723,"outputTokens":2,"totalTokens":725,"cacheWriteInputTokens":2459}`, dialect.Usage{Known: true, Input: 3182, CacheWrite: 2459, CachedKnown: true, Output: 2}},
		{"arn:aws:bedrock:r:1:application-inference-profile/x", `{"inputTokens":5,"outputTokens":2,"totalTokens":7,"cacheReadInputTokens":3}`, dialect.Usage{Known: true, Input: 8, CacheRead: 3, CachedKnown: true, Output: 2}},
		{claude, `{"inputTokens":5,"outputTokens":2,"totalTokens":7,"cacheReadInputTokens":0,"cacheWriteInputTokens":0}`, dialect.Usage{Known: true, Input: 5, CachedKnown: true, Output: 2}},
		{"openai.gpt-5.6", `{"inputTokens":4995,"outputTokens":19,"totalTokens":10007,"cacheWriteInputTokens":4993}`, dialect.Usage{Known: true, Input: 4995, CacheWrite: 4993, CachedKnown: true, Output: 19}},
		{"openai.gpt-5.6", `{"inputTokens":2,"outputTokens":19,"totalTokens":5014,"cacheWriteInputTokens":4993}`, dialect.Usage{Known: true, Input: 4995, CacheWrite: 4993, CachedKnown: true, Output: 19}},
	} {
		codec := New(Options{}).CodecOf(c.model)
		a, err := codec.DecodeAnswer([]byte(`{"output":{"message":{}},"usage":` + c.in + `}`))
		require.NoError(t, err)
		assert.Equal(t, c.want, a.Usage, c.in)
		var streamed dialect.Usage
		if c.in != `null` {
			require.NoError(t, codec.NewStreamDecoder().Decode("metadata", []byte(`{"usage":`+c.in+`}`), func(ev *dialect.Event) {
				if ev.Usage.Known {
					streamed = ev.Usage
				}
			}))
		}
		assert.Equal(t, c.want, streamed, c.in)
	}
}

func TestDecodeAnswer(t *testing.T) {
	a, err := converse{}.DecodeAnswer([]byte(`{"output":{"message":{"role":"assistant","content":[
		{"reasoningContent":{"redactedContent":"cmVk"}},
		{"citationsContent":{"content":[{"text":"quoted"}],"citations":[{"title":"x"}]}},
		{"toolUse":{"toolUseId":"t","name":"f","input":{"n":9007199254740993}}},{"newBlock":{}}]}},
		"stopReason":"max_tokens","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`))
	require.NoError(t, err)
	assert.Equal(t, &dialect.Answer{
		Parts: []dialect.Part{
			{Kind: dialect.Reasoning, Redacted: "cmVk"},
			{Kind: dialect.Text, Text: "quoted"},
			{Kind: dialect.ToolCall, ID: "t", Name: "f", Text: `{"n":9007199254740993}`},
		},
		Stop: dialect.StopLength, Usage: dialect.Usage{Known: true, Input: 1, Output: 2},
	}, a)
	for _, body := range []string{``, `[]`, `{}`, `{"output":{}}`, `<html>`} {
		_, err := converse{}.DecodeAnswer([]byte(body))
		var b *dialect.BodyError
		require.ErrorAs(t, err, &b, body)
	}
	for reason, want := range map[string]dialect.Stop{
		"end_turn": dialect.StopEnd, "tool_use": dialect.StopTools, "max_tokens": dialect.StopLength, "stop_sequence": dialect.StopText,
		"guardrail_intervened": dialect.StopFilter, "content_filtered": dialect.StopFilter, "model_context_window_exceeded": dialect.StopLength,
		"malformed_tool_use": dialect.StopUnknown, "": dialect.StopUnknown,
	} {
		assert.Equal(t, want, stopOf(reason), reason)
	}
}

func TestFailureNames(t *testing.T) {
	for _, c := range []struct{ header, body string }{
		{"ThrottlingException:http://internal.amazon.com/", `{"message":"m"}`},
		{"", `{"__type":"com.amazon.coral.availability#ThrottlingException","Message":"m"}`},
		{"", `{"code":"ThrottlingException","message":"m"}`},
	} {
		h := http.Header{}
		h.Set("X-Amzn-Errortype", c.header)
		assert.Equal(t, &dialect.Failure{Kind: dialect.FailRate, Status: 400, Type: "ThrottlingException", Message: "m"},
			converse{}.DecodeFailure(400, h, []byte(c.body)), c.body)
	}
	// All of them are a 403, and clients can bring about the last one only.
	for name, dead := range map[string]bool{
		"UnrecognizedClientException": true, "InvalidSignatureException": true, "ExpiredTokenException": true,
		"InvalidClientTokenId": true, "MissingAuthenticationTokenException": true, "AccessDeniedException": false,
	} {
		f := converse{}.DecodeFailure(http.StatusForbidden, http.Header{"X-Amzn-Errortype": {name}}, []byte(`{"message":"m"}`))
		assert.Equal(t, dialect.FailAuth, f.Kind, name)
		assert.Equal(t, dead, f.Credential, name)
	}
	f := converse{}.DecodeFailure(http.StatusServiceUnavailable, http.Header{}, []byte("<html>"))
	assert.Equal(t, dialect.FailOverloaded, f.Kind)
	assert.Empty(t, f.Message)
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":"a"}]}`), claude)
	f.Add([]byte(`{"model":"m","messages":[{"role":"assistant","content":"a","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{"}}]}],"tools":[{"type":"function","function":{"name":"f"}}],"top_k":3,"reasoning_effort":"low"}`), nova)
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		x, err := dialect.NewExchange(dialect.Chat(), converse{}, body, dialect.Options{Model: model})
		if err != nil {
			var u *dialect.UnsupportedError
			var b *dialect.BodyError
			if !errors.As(err, &u) && !errors.As(err, &b) {
				t.Fatal(err)
			}
			return
		}
		if !json.Valid(x.Body()) {
			t.Fatalf("%s", x.Body())
		}
	})
}

func TestDocumentNames(t *testing.T) {
	w := &writer{}
	for _, c := range [][2]string{
		{"report.pdf", "report"},
		{"report.docx", "report 2"},
		{"../../etc/pass_wd", "etc pass wd"},
		{"Übersicht  (1) [a]-b.txt", "bersicht (1) [a]-b"},
		{"", "Document"},
		{"___", "Document 2"},
	} {
		assert.Equal(t, c[1], w.documentName(c[0]), c[0])
	}
	assert.LessOrEqual(t, len(w.documentName(strings.Repeat("x", 500))), 200)
}

func TestToolIDs(t *testing.T) {
	assert.Equal(t, "toolu_01-x", toolID("toolu_01-x"))
	a, b := toolID("a.b"), toolID("a:b")
	assert.NotEqual(t, a, b)
	assert.Equal(t, a, toolID("a.b"))
	for _, id := range []string{"", "a.b", strings.Repeat("x", 200), base64.StdEncoding.EncodeToString([]byte("\xff\xfe"))} {
		got := toolID(id)
		assert.NotEmpty(t, got)
		assert.LessOrEqual(t, len(got), 64)
		assert.Regexp(t, `^[a-zA-Z0-9_-]+$`, got)
	}
}

// Results of tools come first, and a mark stays behind what it was behind.
func TestResultsComeFirst(t *testing.T) {
	mark := json.RawMessage(`{"type":"ephemeral"}`)
	r := &dialect.Request{Model: claude, Tools: []dialect.Tool{{Name: "f"}}, Messages: []dialect.Message{
		{Role: dialect.User, Parts: []dialect.Part{{Kind: dialect.Text, Text: "a"}}},
		{Role: dialect.Assistant, Parts: []dialect.Part{{Kind: dialect.ToolCall, ID: "t", Name: "f"}}},
		{Role: dialect.User, Parts: []dialect.Part{{Kind: dialect.Text, Text: "b", Cache: mark}, {Kind: dialect.Text, Text: "c"}}},
		{Role: dialect.User, Parts: []dialect.Part{{Kind: dialect.ToolResult, ID: "t", Cache: mark}}},
	}}
	body, err := converse{}.EncodeRequest(r, nil, func(dialect.Warning) {})
	require.NoError(t, err)
	assert.Contains(t, string(body), `{"role":"user","content":[{"toolResult":{"toolUseId":"t","content":[]}},{"cachePoint":{"type":"default"}},`+
		`{"text":"b"},{"cachePoint":{"type":"default"}},{"text":"c"}]}`)
}
