package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func loadSmall(t *testing.T, name string, m Model) *assets {
	t.Helper()
	o := Options{}.withDefaults()
	m.Dir = "testdata/models/" + name
	a, err := load(m, &o)
	require.NoError(t, err)
	return a
}

// What the engine finds out about a template at its start decides how it converts
// /v1/messages.
func TestProbe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model    Model
		template string // "" for the model's own
		merge    bool
		effort   string
	}{
		"qwen":       {effort: "none"}, // shows that thinking is switched off
		"llama":      {effort: "low"},  // shows nothing: none is as good as ignored
		"fast":       {effort: "none", merge: true},
		"gemma":      {effort: "none"},
		"given":      {model: Model{DisabledThinking: "max"}, effort: "max"},
		"refuses":    {template: `{% if reasoning_effort == 'none' %}{{ raise_exception('no') }}{% endif %}{{ reasoning_effort }}`, effort: "low"},
		"as another": {template: `{{ 'high' if reasoning_effort in ['none', 'high'] else reasoning_effort }}`, effort: "low"},
		"generation": {template: `{% generation %}{{ reasoning_effort }}{% endgeneration %}`, effort: "none", merge: true},
		"clock":      {template: `{{ strftime_now('%Y') }}{{ reasoning_effort }}`, effort: "none", merge: true},
		"clock, if":  {template: `{% if strftime_now is defined %}{{ strftime_now('%Y') }}{% endif %}{{ reasoning_effort }}`, effort: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := name
			switch name {
			case "qwen", "llama", "fast", "gemma":
			default:
				of = "qwen"
			}
			c.model.ChatTemplate = c.template
			a := loadSmall(t, of, c.model)
			assert.Equal(t, c.merge, a.mergeSystem, "system messages to the front")
			assert.Equal(t, c.effort, a.noThinking)
		})
	}
}

// Added tokens of tokenizer_config.json: flags win, ids must be those that the
// library would give.
func TestAddedTokens(t *testing.T) {
	t.Parallel()
	const file = `{"model":{"vocab":{"a":0,"b":1,"</s>":2}},"added_tokens":[{"id":3,"content":"<x>","normalized":false,"special":true}]}`
	for name, c := range map[string]struct {
		config string
		b      *blueprint
		want   string // the added tokens; "" for an error
	}{
		"nothing":            {`{}`, nil, `3 <x> s`},
		"same":               {`{"added_tokens_decoder":{"3":{"content":"<x>","special":true}}}`, nil, `3 <x> s`},
		"flags":              {`{"added_tokens_decoder":{"3":{"content":"<x>","lstrip":true}}}`, nil, `3 <x> ln`},
		"one more":           {`{"added_tokens_decoder":{"4":{"content":"<y>"}}}`, nil, `3 <x> s; 4 <y> n`},
		"of the vocabulary":  {`{"added_tokens_decoder":{"1":{"content":"b"}}}`, nil, `3 <x> s; 1 b n`},
		"another id":         {`{"added_tokens_decoder":{"9":{"content":"<y>"}}}`, nil, ""},
		"another id, there":  {`{"added_tokens_decoder":{"4":{"content":"<x>"}}}`, nil, ""},
		"no id":              {`{"added_tokens_decoder":{"x":{"content":"<y>"}}}`, nil, ""},
		"special":            {`{"eos_token":"</s>"}`, nil, `3 <x> s; 2 </s> s`},
		"special, new":       {`{"pad_token":"[PAD]"}`, nil, `3 <x> s; 4 [PAD] s`},
		"special, with dict": {`{"pad_token":{"content":"[PAD]","lstrip":true}}`, nil, `3 <x> s; 4 [PAD] lns`},
		"more specials":      {`{"extra_special_tokens":["<y>"],"image_token":"<i>"}`, nil, `3 <x> s; 4 <i> s; 5 <y> s`},
		"same twice":         {`{"pad_token":"<y>","image_token":"<y>"}`, nil, `3 <x> s; 4 <y> s`},
		"twice, other flags": {`{"pad_token":{"content":"<y>","single_word":true},"image_token":"<y>"}`, nil, ""},
		"older name":         {`{"additional_special_tokens":["<y>"]}`, nil, `3 <x> s; 4 <y> s`},
		"both names": {
			`{"extra_special_tokens":{"image_token":"<i>"},"additional_special_tokens":["<y>"]}`, nil, `3 <x> s; 4 <i> s; 5 <y> s`,
		},
		"both as lists":   {`{"extra_special_tokens":["<i>"],"additional_special_tokens":["<y>"]}`, nil, `3 <x> s; 4 <i> s`},
		"both, one empty": {`{"extra_special_tokens":{},"additional_special_tokens":["<y>"]}`, nil, `3 <x> s; 4 <y> s`},
		"both, older null": {
			`{"extra_special_tokens":{"image_token":"<i>"},"additional_special_tokens":null}`, nil, `3 <x> s; 4 <i> s`,
		},
		"reset": {
			`{"eos_token":"<x>","added_tokens_decoder":{"3":{"content":"<x>","lstrip":true,"special":true}}}`, &blueprint{resets: true},
			`3 <x> s`,
		},
		"anew":             {`{}`, &blueprint{}, `3 <x> s`},
		"anew, listed":     {`{"added_tokens_decoder":{"3":{"content":"<y>"}}}`, &blueprint{}, `3 <y> n`},
		"anew, with a gap": {`{"added_tokens_decoder":{"4":{"content":"<y>"}}}`, &blueprint{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var top map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(file), &top))
			tc, err := parseTokenizerConfig([]byte(c.config), nil)
			require.NoError(t, err)
			tc.finish(nil)
			got, _, err := mergeAdded(top, tc, c.b)
			if c.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, sprint(got))
		})
	}
}

// The two files may both list further special tokens if they are the same.
func TestOlderSpecialTokensAgree(t *testing.T) {
	t.Parallel()
	const older = `{"additional_special_tokens":["a", "b"]}`
	for config, refused := range map[string]bool{
		`{}`: false,
		`{"additional_special_tokens":["a","b"]}`:                    false,
		`{"additional_special_tokens":[]}`:                           true,
		`{"extra_special_tokens":["a","b"]}`:                         true,
		`{"additional_special_tokens":[],"added_tokens_decoder":{}}`: false,
	} {
		_, err := parseTokenizerConfig([]byte(config), []byte(older))
		assert.Equal(t, refused, errors.Is(err, ErrTokenizerClass), "%s", config)
	}
}

// Tokens of added_tokens.json that tokenizer.json lacks are added by transformers, unless
// tokenizer_config.json lists tokens: they are refused.
func TestOlderAddedTokens(t *testing.T) {
	t.Parallel()
	const file = `{"model":{"vocab":{"a":0}},"added_tokens":[{"id":1,"content":"<x>","special":true}]}`
	var top map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(file), &top))
	for _, c := range []struct {
		config, older string
		refused       bool
	}{
		{`{}`, ``, false},
		{`{}`, `{"<x>":1}`, false},
		{`{}`, `{"<x>":1,"foo":2}`, true},
		{`{}`, `{"<x>":2}`, true},
		{`{"added_tokens_decoder":{}}`, `{"foo":2}`, false},
	} {
		tc, err := parseTokenizerConfig([]byte(c.config), nil)
		require.NoError(t, err)
		require.NoError(t, tc.readOlderAdded([]byte(c.older)))
		tc.finish(nil)
		_, _, err = mergeAdded(top, tc, nil)
		assert.Equal(t, c.refused, errors.Is(err, ErrTokenizerClass), "%s %s", c.config, c.older)
	}
	tc, err := parseTokenizerConfig([]byte(`{}`), nil)
	require.NoError(t, err)
	require.Error(t, tc.readOlderAdded([]byte(`[]`)))
}

// special_tokens_map.json counts only where tokenizer_config.json lists no tokens.
func TestOlderSpecialTokens(t *testing.T) {
	t.Parallel()
	older := []byte(`{"eos_token":{"content":"</s>","lstrip":false},"pad_token":"<p>"}`)
	names := func(config string, defaults ...namedToken) map[string]string {
		c, err := parseTokenizerConfig([]byte(config), older)
		require.NoError(t, err)
		c.finish(defaults)
		out := map[string]string{}
		for _, n := range c.named {
			out[n.name] = n.token.Content
		}
		return out
	}
	assert.Equal(t, map[string]string{"eos_token": "</s>", "pad_token": "<p>"}, names(`{"eos_token":"<e>"}`))
	assert.Equal(t, map[string]string{"eos_token": "<e>"}, names(`{"eos_token":"<e>","added_tokens_decoder":{}}`))
	assert.Equal(t, map[string]string{"bos_token": "<b>"}, names(`{"eos_token":null,"added_tokens_decoder":{}}`,
		namedToken{"bos_token", "<b>"}, namedToken{"eos_token", "<e>"}), "null takes a default away")
}

// sprint writes tokens with a letter for each flag: single_word, lstrip, rstrip,
// normalized, special.
func sprint(tokens []addedToken) string {
	out := make([]string, 0, len(tokens))
	for _, a := range tokens {
		flags := ""
		for i, set := range [...]bool{a.SingleWord, a.Lstrip, a.Rstrip, a.Normalized, a.Special} {
			if set {
				flags += "wlrns"[i : i+1]
			}
		}
		out = append(out, fmt.Sprintf("%d %s %s", a.ID, a.Content, flags))
	}
	return strings.Join(out, "; ")
}
