package providers

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func parse(t testing.TB, body string) jsonscan.Object {
	t.Helper()
	o, err := jsonscan.Parse([]byte(body), 0)
	require.NoError(t, err)
	return o
}

func TestTakes(t *testing.T) {
	all := []prompt.API{prompt.Chat, prompt.Completions, prompt.Messages, prompt.Responses, prompt.Embeddings}
	for name, c := range map[string]struct {
		p    Provider
		m    Model
		want []prompt.API
	}{
		"OpenAI":              {Provider{Kind: OpenAI{}}, Model{}, []prompt.API{prompt.Chat, prompt.Completions, prompt.Messages, prompt.Responses}},
		"compatible":          {Provider{Kind: OpenAI{}, URL: "https://x.test/v1"}, Model{}, []prompt.API{prompt.Chat, prompt.Completions, prompt.Messages, prompt.Responses}},
		"Anthropic":           {Provider{Kind: Anthropic{}}, Model{}, []prompt.API{prompt.Chat, prompt.Messages, prompt.Responses}},
		"for embeddings":      {Provider{Kind: OpenAI{}}, Model{APIs: []prompt.API{prompt.Embeddings}}, []prompt.API{prompt.Embeddings}},
		"for completions":     {Provider{Kind: OpenAI{}}, Model{APIs: []prompt.API{prompt.Completions}}, []prompt.API{prompt.Completions}},
		"provider with all":   {Provider{Kind: OpenAI{}, APIs: all}, Model{APIs: all}, all},
		"one without chat":    {Provider{Kind: OpenAI{}, APIs: []prompt.API{prompt.Completions}}, Model{}, []prompt.API{prompt.Completions}},
		"has no such API":     {Provider{Kind: Anthropic{}}, Model{APIs: []prompt.API{prompt.Embeddings}}, nil},
		"Gemini's embeddings": {Provider{Kind: Gemini{}}, Model{APIs: []prompt.API{prompt.Embeddings}}, []prompt.API{prompt.Embeddings}},
	} {
		t.Run(name, func(t *testing.T) {
			c.p.Name, c.m.Name = "p", "m"
			c.p.Models = []Model{c.m}
			o := newSet(t, Options{}, c.p).Offers("m")[0]
			var got []prompt.API
			for _, a := range all {
				ok, why := o.Takes(a, jsonscan.Object{})
				if ok {
					got = append(got, a)
				} else {
					assert.Equal(t, whyAPI, why)
				}
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestTakesByCapabilities(t *testing.T) {
	no := Capabilities{SupportNo, SupportNo, SupportNo, SupportNo, SupportNo, SupportNo}
	with := func(c Capabilities) *Offer {
		return newSet(t, Options{}, Provider{Name: "p", Kind: OpenAI{}, Models: []Model{{Name: "m", Capabilities: c}}}).Offers("m")[0]
	}
	none, unknown := with(no), with(Capabilities{})
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"image_url"}]}`:                                             "",
		`{"messages":[{"content":[{"type":"text"},{"type":"image_url"}]}]}`:                                whyImages,
		`{"messages":[{"content":"a"},{"content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}`: whyImages,
		`{"input":[{"content":[{"type":"input_image"}]}]}`:                                                 whyImages,
		`{"messages":[{"content":[{"type":"document"}]}]}`:                                                 whyDocuments,
		`{"messages":[{"content":[{"type":"input_audio"}]}]}`:                                              whyAudio,
		`{"tools":[{"type":"function"}]}`:                                                                  whyTools,
		`{"tools":[]}`:                                                                                     "",
		`{"response_format":{"type":"json_schema"}}`:                                                       whySchema,
		`{"text":{"format":{"type":"json_schema"}}}`:                                                       whySchema,
		`{"output_config":{"format":{"type":"json_schema"}}}`:                                              whySchema,
		`{"response_format":{"type":"json_object"}}`:                                                       "",
		`{"messages":7,"tools":"x","input":"y","response_format":null}`:                                    "",
		`{"messages":[7,null,{"content":[null,{"type":1},{"type":"tool_result","content":"image"}]}]}`:     "",
	} {
		ok, why := none.Takes(chat, parse(t, body))
		assert.Equal(t, want, why, body)
		assert.Equal(t, want == "", ok, body)
		ok, why = unknown.Takes(chat, parse(t, body))
		assert.True(t, ok, why)
	}
}
