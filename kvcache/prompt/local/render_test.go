package local_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

func TestTemplateFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ template, want string }{
		"raises":  {`{{ raise_exception(messages[0].content) }}`, "chat template refused the request"},
		"fails":   {`{{ messages[0].content.x.y }}`, "chat template failed on the request"},
		"endless": {`{{ 'a' * 10**10 }}`, "chat template exceeded a limit"},
		"nothing": {`{{ '' }}`, "empty prompt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := one(t, "qwen", func(m *local.Model) { m.ChatTemplate = c.template })
			_, err := encode(t, s, prompt.Chat, hello)
			var why prompt.ReasonError
			require.ErrorAs(t, err, &why)
			assert.Equal(t, c.want, string(why))
		})
	}
}

// The end of the caller's context ends a render.
func TestCanceled(t *testing.T) {
	t.Parallel()
	s := one(t, "qwen", func(m *local.Model) {
		m.ChatTemplate = `{% for i in range(2000) %}{% for k in range(2000) %}{% set x = i * k %}{% endfor %}{% endfor %}`
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Encode(ctx, request(t, prompt.Chat, []byte(hello)))
	require.ErrorIs(t, err, context.Canceled)
}

// A final message is continued where it ends, also if the template trims it.
func TestContinue(t *testing.T) {
	t.Parallel()
	const body = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"the router "}],` +
		`"continue_final_message":true,"add_generation_prompt":false}`
	for name, c := range map[string]struct{ template, want string }{
		"as it is":  {`{% for m in messages %}[{{ m.content }}]{% endfor %}`, `[a][the router `},
		"trimmed":   {`{% for m in messages %}[{{ m.content | trim }}]{% endfor %}`, `[a][the router`},
		"moved":     {`{{ messages[1].content }}|{{ messages[0].content }}`, `the router `},
		"left out":  {`{{ messages[0].content }}`, ""},
		"not named": {`{% for m in messages %}{{ m.values() | list }}{% endfor %}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := one(t, "qwen", func(m *local.Model) { m.ChatTemplate, m.ContentFormat = c.template, "string" })
			got, err := encode(t, s, prompt.Chat, body)
			if c.want == "" {
				require.EqualError(t, err, "final message can't be continued")
				return
			}
			require.NoError(t, err)
			want, err := encode(t, s, prompt.Completions, `{"prompt":"`+c.want+`"}`)
			require.NoError(t, err)
			assert.Equal(t, want.Tokens, got.Tokens)
		})
	}
}

// What templates print of the clock is in the model's time zone, and said in its
// status.
func TestDated(t *testing.T) {
	t.Parallel()
	s := one(t, "qwen", func(m *local.Model) { m.ChatTemplate = `{{ strftime_now('%H') }}` })
	assert.True(t, s.Status()[0].Dated)
	_, err := encode(t, s, prompt.Chat, hello)
	require.NoError(t, err)
	assert.False(t, one(t, "qwen", nil).Status()[0].Dated)
}
