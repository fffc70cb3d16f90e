package dialect

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOpenAIReasons(t *testing.T) {
	for name, want := range map[string]bool{
		"o1": true, "o3-mini": true, "O4-mini": true, "openai/o3": true, "gpt-5": true, "gpt-5.1": true,
		"gpt-5-mini-2025-08-07": true, "openai/gpt-5-nano": true, "gpt-5.1-chat-latest": true,
		"gpt-5-chat-latest": false, "gpt-4.1": false, "gpt-4o": false, "gpt-oss-120b": false, "gpt-": false,
		"o": false, "omni": false, "olmo-2": false, "qwen3": false, "": false,
	} {
		assert.Equal(t, want, openAIReasons(name), name)
	}
}

// OpenAI's models that reason answer 400 to what others take.
func TestChatSamplingOfModelsThatReason(t *testing.T) {
	const sampling, stop = `"temperature":0.7,"top_p":0.9`, `"stop_sequences":["END"]`
	for name, c := range map[string]struct {
		model, members string
		old            bool
		refused        bool
		has            []string
		warnings       []string
	}{
		"sampling":              {"o4-mini", sampling, false, false, nil, []string{"temperature", "top_p"}},
		"sampling, gpt":         {"openai/gpt-5", sampling, false, false, nil, []string{"temperature", "top_p"}},
		"one of two":            {"gpt-5-mini", `"top_p":0.9`, false, false, nil, []string{"top_p"}},
		"zero":                  {"o3", `"temperature":0`, false, false, nil, []string{"temperature"}},
		"what it is anyhow":     {"gpt-5", `"temperature":1,"top_p":1.0`, false, false, nil, nil},
		"stop":                  {"o3", stop, false, true, nil, nil},
		"no sequence":           {"o3", `"stop_sequences":[]`, false, false, nil, nil},
		"another model":         {"gpt-4.1", sampling + "," + stop, false, false, []string{"temperature", "top_p", "stop"}, nil},
		"a chat model":          {"gpt-5-chat-latest", sampling + "," + stop, false, false, []string{"temperature", "top_p", "stop"}, nil},
		"a service of old ways": {"gpt-5", sampling + "," + stop, true, false, []string{"temperature", "top_p", "stop"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			body := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],` + c.members + `}`
			x, err := NewExchange(Messages(), Chat(), []byte(body), Options{Model: c.model, Request: RequestOptions{OldMaxTokens: c.old}})
			if c.refused {
				var u *UnsupportedError
				require.ErrorAs(t, err, &u)
				assert.Equal(t, "stop", u.Field)
				return
			}
			require.NoError(t, err)
			for _, field := range []string{"temperature", "top_p", "stop"} {
				check := assert.NotContains
				for _, has := range c.has {
					if has == field {
						check = assert.Contains
					}
				}
				check(t, string(x.Body()), `"`+field+`":`)
			}
			var warned []string
			for _, w := range x.Warnings() {
				warned = append(warned, w.Field)
			}
			assert.Equal(t, c.warnings, warned)
		})
	}
}
