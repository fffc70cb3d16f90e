package local_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// copyModel copies a small model's files to a new directory.
func copyModel(t testing.TB, name, to string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o750))
	require.NoError(t, os.CopyFS(to, os.DirFS(filepath.Join(models, name))))
	return to
}

// edit changes fields of a JSON file; nil takes one away.
func edit(t testing.TB, path string, fields map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var v map[string]any
	require.NoError(t, json.Unmarshal(text, &v))
	for k, f := range fields {
		if v[k] = f; f == nil {
			delete(v, k)
		}
	}
	text, err = json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func load(dir string) (*local.Source, error) {
	return local.New(local.Options{Models: map[string]local.Model{"m": {Dir: dir}}, Reload: -1})
}

func TestModelTypes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config  map[string]any
		want    string // in the error; "" for none
		anyType bool
	}{
		"served":                {map[string]any{"model_type": "qwen3_moe"}, "", false},
		"harmony":               {map[string]any{"model_type": "gpt_oss"}, "harmony", false},
		"harmony, insisted":     {map[string]any{"model_type": "gpt_oss"}, "harmony", true},
		"by architecture":       {map[string]any{"model_type": "qwen3", "architectures": []string{"DeepseekV32ForCausalLM"}}, "DeepSeek-V3.2", false},
		"unknown":               {map[string]any{"model_type": "qwen9"}, "not known", false},
		"unknown, insisted":     {map[string]any{"model_type": "qwen9"}, "", true},
		"none":                  {map[string]any{"model_type": nil}, "not known", false},
		"tokenizer in its repo": {map[string]any{"model_type": "kimi_k2"}, "code in its repository", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyModel(t, "qwen", t.TempDir())
			edit(t, filepath.Join(dir, "config.json"), c.config)
			s, err := local.New(local.Options{Models: map[string]local.Model{"m": {Dir: dir, AnyType: c.anyType}}})
			if c.want == "" {
				require.NoError(t, err)
				require.NoError(t, s.Close())
				return
			}
			require.ErrorIs(t, err, local.ErrModelType)
			var typed *local.ModelTypeError
			require.ErrorAs(t, err, &typed)
			require.ErrorContains(t, err, c.want)
			var of *local.AssetError
			require.ErrorAs(t, err, &of)
			assert.Equal(t, "m", of.Model)
		})
	}
}

func TestTokenizerClasses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config map[string]any
		class  string
		err    error
	}{
		"as registered":    {nil, "Qwen2Tokenizer", nil},
		"Fast":             {map[string]any{"tokenizer_class": "Qwen2TokenizerFast"}, "Qwen2Tokenizer", nil},
		"generic":          {map[string]any{"tokenizer_class": "PreTrainedTokenizerFast"}, "TokenizersBackend", nil},
		"another":          {map[string]any{"tokenizer_class": "LlamaTokenizer"}, "LlamaTokenizer", nil},
		"not reproduced":   {map[string]any{"tokenizer_class": "CohereTokenizer"}, "", local.ErrTokenizerClass},
		"none":             {map[string]any{"tokenizer_class": nil}, "", local.ErrTokenizerClass},
		"code":             {map[string]any{"auto_map": map[string]any{"AutoTokenizer": []string{"x.Y", ""}}}, "", local.ErrTokenizerClass},
		"split specials":   {map[string]any{"split_special_tokens": true}, "", local.ErrTokenizerClass},
		"by version":       {map[string]any{"fast_tokenizer_files": []string{"tokenizer.json"}}, "", local.ErrTokenizerClass},
		"code for a model": {map[string]any{"auto_map": map[string]any{"AutoModel": "x.Y"}}, "Qwen2Tokenizer", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyModel(t, "qwen", t.TempDir())
			edit(t, filepath.Join(dir, "tokenizer_config.json"), c.config)
			s, err := load(dir)
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.class, s.Status()[0].Class)
			require.NoError(t, s.Close())
		})
	}
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(dir string) error{
		"no tokenizer":      func(dir string) error { return os.Remove(filepath.Join(dir, "tokenizer.json")) },
		"no config of it":   func(dir string) error { return os.Remove(filepath.Join(dir, "tokenizer_config.json")) },
		"tokenizer no JSON": func(dir string) error { return os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{"), 0o600) },
		"tokenizer a list":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("[]"), 0o600) },
		"tokenizer empty":   func(dir string) error { return os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte("{}"), 0o600) },
		"config no JSON":    func(dir string) error { return os.WriteFile(filepath.Join(dir, "config.json"), []byte("x"), 0o600) },
		"tokenizer config": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(`{"tokenizer_class":5}`), 0o600)
		},
		"template": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte("{% if %}"), 0o600)
		},
		"template not had": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte("{% include 'x' %}"), 0o600)
		},
		"mistral's tokenizer": func(dir string) error {
			return errors.Join(touch(dir, "consolidated.safetensors"), touch(dir, "tekken.json"))
		},
		"embedding model": func(dir string) error { return touch(dir, "modules.json") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyModel(t, "qwen", t.TempDir())
			require.NoError(t, damage(dir))
			_, err := load(dir)
			require.Error(t, err)
			var of *local.AssetError
			require.ErrorAs(t, err, &of)
		})
	}
	_, err := load(filepath.Join(t.TempDir(), "nothing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = local.New(local.Options{})
	require.ErrorContains(t, err, "Options.Models is empty")
	_, err = local.New(local.Options{Models: map[string]local.Model{"m": {Dir: models + "/qwen", TemplateKwargs: "[]"}}})
	require.ErrorContains(t, err, "must be a JSON object")
	_, err = local.New(local.Options{Models: map[string]local.Model{"m": {Dir: models + "/qwen", TemplateKwargs: `{"tools":1}`}}})
	require.ErrorContains(t, err, `must not set "tools"`)
	_, err = local.New(local.Options{Models: map[string]local.Model{"m": {Dir: models + "/qwen", ContentFormat: "x"}}})
	require.ErrorContains(t, err, "ContentFormat")
	_, err = local.New(local.Options{Models: map[string]local.Model{"m": {Dir: models + "/qwen", ChatTemplate: "{% for %}"}}})
	require.ErrorIs(t, err, jinja.ErrSyntax)
	_, err = local.New(local.Options{Models: map[string]local.Model{"m": {Dir: models + "/qwen"}}, Aliases: map[string]string{"a": "b", "m": "m"}})
	require.ErrorContains(t, err, `alias "a" is of "b"`)
	require.ErrorContains(t, err, `"m" is both`)
}

func touch(dir, name string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o600) }

const hello = `{"messages":[{"role":"user","content":"hi"}]}`

// Where a chat template comes from: a file beats tokenizer_config.json, which may
// have one or several by name.
func TestTemplates(t *testing.T) {
	t.Parallel()
	const tools = `{"messages":[{"role":"user","content":"hi"}],"tools":[{"function":{"name":"f"}}]}`
	one := func(text string) func(string) {
		return func(dir string) { write(t, dir, "chat_template.jinja", text) }
	}
	for name, c := range map[string]struct {
		prepare      func(dir string)
		model        local.Model
		plain, tools string // the text that the template makes
	}{
		"file":          {one("A"), local.Model{}, "A", "A"},
		"file, windows": {one("A\r\nB"), local.Model{}, "A\nB", "A\nB"},
		"more files": {func(dir string) {
			write(t, dir, "chat_template.jinja", "A")
			write(t, dir, "chat_templates/tool_use.jinja", "B")
			write(t, dir, "chat_templates/readme.txt", "C")
		}, local.Model{}, "A", "B"},
		"config": {func(dir string) {
			edit(t, filepath.Join(dir, "tokenizer_config.json"), map[string]any{"chat_template": "A"})
		}, local.Model{}, "A", "A"},
		"config, several": {func(dir string) {
			edit(t, filepath.Join(dir, "tokenizer_config.json"), map[string]any{"chat_template": []map[string]string{
				{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"},
			}})
		}, local.Model{}, "A", "B"},
		"given":   {one("A"), local.Model{ChatTemplate: "{{ 'G' }}"}, "G", "G"},
		"by name": {func(dir string) { write(t, dir, "chat_templates/other.jinja", "O") }, local.Model{ChatTemplate: "other"}, "O", "O"},
		"of a processor": {func(dir string) {
			edit(t, filepath.Join(dir, "tokenizer_config.json"), map[string]any{"chat_template": "A"})
			write(t, dir, "chat_template.json", `{"chat_template":"P"}`)
			write(t, dir, "preprocessor_config.json", `{}`)
		}, local.Model{}, "P", "A"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := copyModel(t, "qwen", t.TempDir())
			require.NoError(t, os.Remove(filepath.Join(dir, "chat_template.jinja")))
			c.prepare(dir)
			m := c.model
			m.Dir = dir
			s := open(t, local.Options{Models: map[string]local.Model{"m": m}})
			for body, want := range map[string]string{hello: c.plain, tools: c.tools} {
				got, err := encode(t, s, prompt.Chat, body)
				require.NoError(t, err)
				text, err := json.Marshal(map[string]string{"prompt": want})
				require.NoError(t, err)
				as, err := encode(t, s, prompt.Completions, string(text))
				require.NoError(t, err)
				assert.Equal(t, as.Tokens, got.Tokens)
			}
		})
	}
}

func TestNoTemplate(t *testing.T) {
	t.Parallel()
	dir := copyModel(t, "qwen", t.TempDir())
	require.NoError(t, os.Remove(filepath.Join(dir, "chat_template.jinja")))
	s := open(t, local.Options{Models: map[string]local.Model{"m": {Dir: dir}}})
	assert.False(t, s.Status()[0].Template)
	_, err := encode(t, s, prompt.Chat, hello)
	require.EqualError(t, err, "model has no chat template")
	_, err = encode(t, s, prompt.Completions, `{"prompt":"a"}`)
	require.NoError(t, err)
}

func TestHubLayout(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	dir := local.HubDir(root, "org/name")
	assert.Equal(t, filepath.Join(root, "models--org--name"), dir)
	copyModel(t, "qwen", filepath.Join(dir, "snapshots", "abc"))
	copyModel(t, "fast", filepath.Join(dir, "snapshots", "def"))
	write(t, dir, "refs/main", "abc\n")
	write(t, dir, "refs/pr/1", "def")
	class := func(revision string) string {
		s := open(t, local.Options{Models: map[string]local.Model{"m": {Dir: dir, Revision: revision}}})
		return s.Status()[0].Class
	}
	assert.Equal(t, "Qwen2Tokenizer", class(""))
	assert.Equal(t, "Qwen2Tokenizer", class("abc"))
	assert.Equal(t, "TokenizersBackend", class("def"))
	assert.Equal(t, "TokenizersBackend", class("pr/1"))
	for _, revision := range []string{"none", "../snapshots/abc", "/", "a//b", ".."} {
		_, err := local.New(local.Options{Models: map[string]local.Model{"m": {Dir: dir, Revision: revision}}})
		require.ErrorIs(t, err, local.ErrRevision, revision)
	}
}

// Aliases share the base model's files; an equal directory has an equal hash.
func TestAliases(t *testing.T) {
	t.Parallel()
	s := open(t, local.Options{
		Models:  map[string]local.Model{"m": {Dir: models + "/qwen"}, "copy": {Dir: copyModel(t, "qwen", t.TempDir())}, "other": {Dir: models + "/fast"}},
		Aliases: map[string]string{"adapter": "m"},
	})
	byName := map[string]prompt.Encoding{}
	for _, name := range []string{"m", "copy", "other", "adapter"} {
		r := request(t, prompt.Chat, []byte(hello))
		r.Model = name
		enc, err := s.Encode(t.Context(), r)
		require.NoError(t, err)
		byName[name] = enc
	}
	assert.Equal(t, byName["m"], byName["adapter"])
	assert.Equal(t, byName["m"].Assets, byName["copy"].Assets)
	assert.NotEqual(t, byName["m"].Assets, byName["other"].Assets)
	assert.Equal(t, byName["m"].Assets, s.Assets("adapter"))
	assert.Empty(t, s.Assets("nobody"))
	text, found := s.Token("adapter", 0)
	assert.True(t, found)
	assert.Equal(t, "!", text)
	_, found = s.Token("adapter", 1<<30)
	assert.False(t, found)
	_, found = s.Token("nobody", 0)
	assert.False(t, found)
	status := s.Status()
	require.Len(t, status, 3)
	assert.Equal(t, "copy", status[0].Model)
	assert.Equal(t, byName["m"].Assets, status[1].Assets)
	assert.Equal(t, "qwen3", status[1].Type)
}
