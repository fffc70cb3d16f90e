package doctor

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

const modelDirs = "../../../../kvcache/prompt/local/testdata/models"

// spoilt is a copy of a model's files with one changed.
func spoilt(t *testing.T, file, from, to string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(modelDirs, "qwen"))))
	name := filepath.Join(dir, file)
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(b), from)
	require.NoError(t, os.WriteFile(name, []byte(strings.ReplaceAll(string(b), from, to)), 0o600))
	return dir
}

// engineWith is a fake engine that renders prompts as one with these files.
func engineWith(t *testing.T, dir string) fleet.Worker {
	t.Helper()
	source, err := local.New(local.Options{Models: map[string]local.Model{fleettest.DefaultModel: {Dir: dir}}, Reload: -1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = source.Close() })
	return behind(t, engine(t), func(w http.ResponseWriter, r *http.Request) bool {
		path, render := strings.CutSuffix(r.URL.Path, "/render")
		api, known := prompt.APIForPath(path)
		if !render || !known {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		e := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{source}, NoRender: true, NoTokenize: true})
		defer e.Close()
		enc, err := e.Encode(r.Context(), &prompt.Request{API: api, Model: fleettest.DefaultModel, Body: body})
		if err != nil || !enc.Source.Exact() {
			w.WriteHeader(http.StatusBadRequest)
			return true
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"token_ids": enc.Tokens})
		return true
	})
}

// filesOf examines one worker and returns what is said of files: in general, and as
// compared with the engine.
func filesOf(t *testing.T, w fleet.Worker, dir string) (general, compared Finding) {
	t.Helper()
	r := oneWorker(t, w, func(o *Options) {
		o.Probe = false // the fake engine computes other ids than it renders here
		o.Files = map[string]local.Model{fleettest.DefaultModel: {Dir: dir}}
	})
	require.Len(t, r.Files, 1)
	for _, f := range r.Workers[0].Checks {
		if f.Check == "files" {
			return r.Files[0], f
		}
	}
	t.Fatal("no finding about files")
	return Finding{}, Finding{}
}

func TestFilesAreTheEngines(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(modelDirs, "qwen")
	general, compared := filesOf(t, engineWith(t, dir), dir)
	assert.Equal(t, OK, general.Status)
	assert.Contains(t, general.Summary, dir)
	assert.Contains(t, general.Summary, "qwen3")
	assert.Equal(t, OK, compared.Status, compared.Summary)
	assert.Contains(t, compared.Summary, "token for token")
	assert.Equal(t, general.Facts["assets"], compared.Facts["assets"])
	assert.NotEmpty(t, general.Facts["assets"])
}

func TestFilesAreOthers(t *testing.T) {
	t.Parallel()
	w := engineWith(t, filepath.Join(modelDirs, "qwen"))
	general, compared := filesOf(t, w, spoilt(t, "chat_template.jinja", "assistant", "system"))
	assert.Equal(t, OK, general.Status)
	assert.Equal(t, Fault, compared.Status)
	assert.Regexp(t, `probe "chat, one message": token \d+ is \d+ ".*" here \(of \d+\), \d+ ".*" in the engine`, compared.Summary)
	assert.NotEqual(t, compared.Facts["local"], compared.Facts["engine"])
	assert.Positive(t, compared.Facts["position"])
}

func TestFilesAreRefused(t *testing.T) {
	t.Parallel()
	w := engine(t).Worker()
	for name, c := range map[string]struct{ dir, says string }{
		"no folder":    {filepath.Join(t.TempDir(), "none"), "refused: "},
		"empty folder": {t.TempDir(), "refused: "},
		"unknown type": {spoilt(t, "config.json", `"qwen3"`, `"gpt_oss"`), "refused: "},
		"other class":  {spoilt(t, "tokenizer_config.json", `"Qwen2Tokenizer"`, `"OddTokenizer"`), "refused: "},
		"broken":       {spoilt(t, "tokenizer.json", `{`, `[`), "refused: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			general, compared := filesOf(t, w, c.dir)
			assert.Equal(t, Fault, general.Status)
			assert.Contains(t, general.Summary, c.says)
			assert.NotEmpty(t, general.Advice)
			assert.Equal(t, Skipped, compared.Status)
		})
	}
}

func TestFilesCannotBeCompared(t *testing.T) {
	t.Parallel()
	w := engine(t, func(c *fleettest.Config) { c.Render, c.NoTokenize = false, true }).Worker()
	_, compared := filesOf(t, w, filepath.Join(modelDirs, "qwen"))
	assert.Equal(t, Warning, compared.Status)
	assert.Contains(t, compared.Summary, "nothing to compare with: endpoint not available")
}

func TestFilesOfAModelThatNobodyServes(t *testing.T) {
	t.Parallel()
	r := oneWorker(t, engine(t).Worker(), func(o *Options) {
		o.Files = map[string]local.Model{"other": {Dir: filepath.Join(modelDirs, "qwen")}}
	})
	require.Len(t, r.Files, 1)
	assert.Equal(t, Warning, r.Files[0].Status)
	assert.Contains(t, r.Files[0].Summary, "no worker serves a model of that name")
}
