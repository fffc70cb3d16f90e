package local_test

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// shown is how the templates of these tests show an image, and its id.
const (
	shown   = "<think>"
	shownID = 703
)

const (
	// mediaParts is a template that takes parts, mediaStrings one that takes strings.
	mediaParts = `{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}` +
		`{% elif part.type == 'image' %}` + shown + `{% endif %}{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
	mediaStrings = `{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`
)

// withMedia makes a model of LLaVA's type of a small model's files: its images are
// the token <think>.
func withMedia(t testing.TB, template string, config map[string]any, change func(*local.Model)) *local.Source {
	t.Helper()
	dir := copyModel(t, "qwen", t.TempDir())
	fields := map[string]any{"model_type": "llava", "architectures": []string{"LlavaForConditionalGeneration"}, "image_token_index": shownID}
	maps.Copy(fields, config)
	edit(t, dir+"/config.json", fields)
	write(t, dir, "chat_template.jinja", template)
	m := local.Model{Dir: dir}
	if change != nil {
		change(&m)
	}
	return open(t, local.Options{Models: map[string]local.Model{"m": m}})
}

const (
	picture = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	another = `{"type":"image_url","image_url":{"url":"https://a.example/b.png","detail":"low"}}`
)

func textPart(s string) string { return `{"type":"text","text":"` + s + `"}` }

func userSays(parts ...string) string {
	return `{"messages":[{"role":"system","content":"Say what you see."},{"role":"user","content":[` + strings.Join(parts, ",") + `]}]}`
}

func begin(t testing.TB, s *local.Source, api prompt.API, body string) (prompt.Encoding, error) {
	t.Helper()
	return s.Prefix(t.Context(), request(t, api, []byte(body)))
}

// A prompt's beginning has the ids that the text would have without an image, up to
// where it is; what the image is does not matter.
func TestPrefix(t *testing.T) {
	t.Parallel()
	s := withMedia(t, mediaParts, nil, nil)
	whole, err := encode(t, s, prompt.Chat, `{"messages":[{"role":"system","content":"Say what you see."},{"role":"user","content":"Look at this:`+shown+`!"}]}`)
	require.NoError(t, err)
	want := whole.Tokens[:len(whole.Tokens)-2]
	for want[len(want)-1] != shownID {
		want = want[:len(want)-1]
	}
	want = want[:len(want)-1]

	for name, body := range map[string]string{
		"one":       userSays(textPart("Look at this:"), picture, textPart("!")),
		"two":       userSays(textPart("Look at this:"), picture, another, textPart("What else?")),
		"other":     userSays(textPart("Look at this:"), another),
		"extra":     userSays(textPart("Look at this:"), `{"type":"image_url","image_url":{"url":"u"},"cache_control":{"type":"ephemeral"}}`),
		"processed": strings.TrimSuffix(userSays(textPart("Look at this:"), picture), "}") + `,"mm_processor_kwargs":{"size":1}}`,
	} {
		_, err = encode(t, s, prompt.Chat, body)
		require.EqualError(t, err, "multimodal parts", name)
		enc, beginErr := begin(t, s, prompt.Chat, body)
		require.NoError(t, beginErr, name)
		assert.Equal(t, prompt.SourcePrefix, enc.Source, name)
		assert.Equal(t, want, enc.Tokens, name)
		assert.Greater(t, enc.Count, len(enc.Tokens)+500, name)
		assert.Equal(t, s.Assets("m"), enc.Assets, name)
	}
}

// What vLLM made of these requests begins as is computed here.
func TestPrefixGolden(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile("testdata/media/chat_template.jinja")
	require.NoError(t, err)
	s := withMedia(t, string(template), nil, nil)
	equal := 0
	for _, r := range records(t, "media") {
		api, known := prompt.APIForPath(r.API)
		require.True(t, known)
		enc, err := begin(t, s, api, string(r.Body))
		if err != nil || r.IDs == nil {
			continue // truncated, for example, or refused by the engine
		}
		require.Less(t, len(enc.Tokens), len(r.IDs), "%s", r.Body)
		require.Equal(t, r.IDs[:len(enc.Tokens)], enc.Tokens, "%s", r.Body)
		require.Equal(t, uint32(shownID), r.IDs[len(enc.Tokens)], "%s", r.Body)
		equal++
	}
	t.Logf("%d begin as the engine's", equal)
	assert.Greater(t, equal, 60)
}

// The same conversation begins alike in all APIs.
func TestPrefixByAPI(t *testing.T) {
	t.Parallel()
	s := withMedia(t, mediaParts, nil, nil)
	chat, err := begin(t, s, prompt.Chat, userSays(textPart("Look:"), picture))
	require.NoError(t, err)
	block := `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}`
	messages, err := begin(t, s, prompt.Messages,
		`{"max_tokens":9,"system":"Say what you see.","messages":[{"role":"user","content":[`+textPart("Look:")+`,`+block+`]}]}`)
	require.NoError(t, err)
	assert.Equal(t, chat, messages)
	responses, err := begin(t, s, prompt.Responses, `{"instructions":"Say what you see.","input":[{"role":"user","content":[`+
		`{"type":"input_text","text":"Look:"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AAAA"}]}]}`)
	require.NoError(t, err)
	assert.Equal(t, chat, responses)

	// What a tool shows is shown by the user, behind what the tool says.
	tool, err := begin(t, s, prompt.Messages, `{"max_tokens":9,"messages":[{"role":"user","content":"Go."},`+
		`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}}]},`+
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[`+block+`,`+textPart("done")+`]}]}]}`)
	require.NoError(t, err)
	text, err := encode(t, s, prompt.Chat, `{"messages":[{"role":"user","content":"Go."},{"role":"assistant","content":"","tool_calls":[`+
		`{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"done"},`+
		`{"role":"user","content":"`+shown+`"}]}`)
	require.NoError(t, err)
	assert.Equal(t, text.Tokens[:len(tool.Tokens)], tool.Tokens)
	assert.Equal(t, uint32(shownID), text.Tokens[len(tool.Tokens)])
}

func TestPrefixPassesOn(t *testing.T) {
	t.Parallel()
	const unknown = "placeholders of the model's media are not known"
	body := userSays(textPart("Look:"), picture)
	for name, c := range map[string]struct {
		source *local.Source
		api    prompt.API
		body   string
		want   string
	}{
		"text":         {withMedia(t, mediaParts, nil, nil), prompt.Chat, userSays(textPart("a")), prompt.ErrNotApplicable.Error()},
		"completion":   {withMedia(t, mediaParts, nil, nil), prompt.Completions, `{"prompt":"a"}`, prompt.ErrNotApplicable.Error()},
		"text model":   {one(t, "qwen", nil), prompt.Chat, body, unknown},
		"no token":     {withMedia(t, mediaParts, map[string]any{"model_type": "qwen2_vl"}, nil), prompt.Chat, body, unknown},
		"no index":     {withMedia(t, mediaParts, map[string]any{"image_token_index": nil}, nil), prompt.Chat, body, unknown},
		"not shown":    {withMedia(t, `{{ messages[0].content }}`, nil, nil), prompt.Chat, body, unknown},
		"never shown":  {withMedia(t, `{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}`, nil, nil), prompt.Chat, body, unknown},
		"at the start": {withMedia(t, shown+mediaParts, nil, nil), prompt.Chat, body, "empty prompt"},
		"no template":  {withMedia(t, ``, nil, func(m *local.Model) { m.ChatTemplate = "" }), prompt.Chat, body, "model has no chat template"},
		"video":        {withMedia(t, mediaParts, nil, nil), prompt.Chat, userSays(`{"type":"video_url","video_url":{"url":"u"}}`), unknown},
		"audio":        {withMedia(t, mediaParts, nil, nil), prompt.Chat, userSays(`{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}`), unknown},
		"truncated":    {withMedia(t, mediaParts, nil, nil), prompt.Chat, strings.TrimSuffix(body, "}") + `,"truncate_prompt_tokens":5}`, "truncated prompt"},
		"embeddings":   {withMedia(t, mediaParts, nil, nil), prompt.Chat, userSays(`{"type":"image_embeds","image_embeds":"AA"}`), prompt.ErrNotApplicable.Error()},
		"no url":       {withMedia(t, mediaParts, nil, nil), prompt.Chat, userSays(`{"type":"image_url","image_url":"u"}`), prompt.ErrNotApplicable.Error()},
		"both":         {withMedia(t, mediaParts, nil, nil), prompt.Chat, userSays(`{"type":"image_url","image_url":{"url":"u"},"text":"a"}`), prompt.ErrNotApplicable.Error()},
		"SGLang":       {withMedia(t, mediaParts, nil, func(m *local.Model) { m.SGLang = true }), prompt.Chat, body, prompt.ErrNotApplicable.Error()},
		"unknown":      {withMedia(t, mediaStrings, nil, nil), 0, body, prompt.ErrNotApplicable.Error()},
	} {
		_, err := begin(t, c.source, c.api, c.body)
		assert.EqualError(t, err, c.want, name)
	}
}
