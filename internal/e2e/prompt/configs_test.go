//go:build e2e

package prompt_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/e2e/prompt/modelfiles"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// configs are how many directories are tried; KVSTEER_E2E_CONFIGS overrides.
const configs = 250

// tokenizing is a running load_tokenizers.py.
type tokenizing struct {
	in   io.WriteCloser
	out  *bufio.Reader
	errs bytes.Buffer
}

type tokenized struct {
	// IDs of each text, with and without special tokens.
	IDs   [][2][]uint32 `json:"ids"`
	Error string        `json:"error"`
}

func startTokenizers(t *testing.T) *tokenizing {
	t.Helper()
	p := &tokenizing{}
	cmd := exec.CommandContext(t.Context(), "bash", "load_tokenizers.sh")
	cmd.Stderr = &p.errs
	var err error
	p.in, err = cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewReader(out)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = p.in.Close()
		_ = cmd.Wait()
	})
	return p
}

func (p *tokenizing) ask(t *testing.T, dir string, texts []string) tokenized {
	t.Helper()
	line, err := json.Marshal(map[string]any{"dir": dir, "texts": texts})
	require.NoError(t, err)
	_, err = p.in.Write(append(line, '\n'))
	require.NoError(t, err, "%s", &p.errs)
	reply, err := p.out.ReadBytes('\n')
	require.NoError(t, err, "%s", &p.errs)
	var v tokenized
	require.NoError(t, json.Unmarshal(reply, &v), "%s", reply)
	return v
}

var configTexts = []string{
	"hello world", "  two  spaces ", "<s>hi</s>", "foo<|im_start|>user\nx<|im_end|>", "a\n\nb", "héllo e\u0301 ñ 中文 😀",
	"foo bar FOO  <x> <x>y", " <pad> ", "<bos><eos><unk>", "", strings.Repeat("x", 40), "\t tab", "<y> foo<x>foo", "wor world <z>", "ÉCOLE Été",
}

// TestConfigs changes the small models' files at random, and compares the ids of texts
// with those of the tokenizer that vLLM makes of them. What is refused here must be
// refused by a reason; what vLLM refuses does not matter.
func TestConfigs(t *testing.T) {
	script(t, "../vllm/setup.sh")
	small, err := filepath.Abs("../../../kvcache/prompt/local/testdata/models")
	require.NoError(t, err)
	models, err := os.ReadDir(small)
	require.NoError(t, err)
	p := startTokenizers(t)
	g := modelfiles.New(uint64(env("KVSTEER_E2E_SEED", 1)))
	equal, refusedThere, refused := 0, 0, map[string]int{}
	for i := range env("KVSTEER_E2E_CONFIGS", configs) {
		model := models[g.IntN(len(models))].Name()
		dir := filepath.Join(t.TempDir(), strconv.Itoa(i))
		done, err := g.Write(filepath.Join(small, model), dir)
		require.NoError(t, err)
		src, err := local.New(local.Options{Models: map[string]local.Model{modelName: {Dir: dir}}, Reload: -1})
		if err != nil {
			refused[reasonOf(err)]++
			continue
		}
		want := p.ask(t, dir, configTexts)
		switch {
		case want.Error != "":
			refusedThere++
		case compareTexts(t, src, want.IDs, model, done):
			equal++
		default:
		}
		require.NoError(t, src.Close())
	}
	t.Logf("%d directories with equal ids of %d texts, %d refused by vLLM", equal, len(configTexts), refusedThere)
	for _, why := range slices.Sorted(maps.Keys(refused)) {
		t.Logf("refused here: %d × %s", refused[why], why)
	}
	require.Greater(t, equal, env("KVSTEER_E2E_CONFIGS", configs)/3)
}

// compareTexts compares all texts of one directory.
func compareTexts(t *testing.T, src *local.Source, want [][2][]uint32, model string, done []string) bool {
	t.Helper()
	for i, text := range configTexts {
		for k, special := range []bool{true, false} {
			body, err := json.Marshal(map[string]any{"prompt": text, "add_special_tokens": special})
			require.NoError(t, err)
			enc, err := src.Encode(t.Context(), &prompt.Request{API: prompt.Completions, Model: modelName, Body: body})
			var why prompt.ReasonError
			if len(want[i][k]) == 0 && errors.As(err, &why) {
				continue // an empty prompt
			}
			if err != nil || !slices.Equal(enc.Tokens, want[i][k]) {
				t.Errorf("%s with %v: %q, special tokens %v: vLLM %v, here %v %v", model, done, text, special, want[i][k], enc.Tokens, err)
				return false
			}
		}
	}
	return true
}

// reasonOf is why files are refused, without what differs from one to the next.
func reasonOf(err error) string {
	var asset *local.AssetError
	if errors.As(err, &asset) {
		err = asset.Err
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, fmt.Sprint(err))
}
