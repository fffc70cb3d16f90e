package jinja_test

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// goldenOptions has the clock that the goldens were made with.
func goldenOptions() jinja.Options {
	return jinja.Options{Now: func() time.Time { return time.Date(2026, 3, 5, 7, 8, 9, 123456000, time.UTC) }}
}

func load(t testing.TB, name string, v any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(z).Decode(v))
}

func dict(t testing.TB, text string) *jinja.Dict {
	t.Helper()
	v, err := jinja.FromJSON([]byte(text))
	require.NoError(t, err)
	d, ok := v.(*jinja.Dict)
	require.True(t, ok)
	return d
}

// TestGoldenTemplates compares real templates with what Python made of them.
func TestGoldenTemplates(t *testing.T) {
	var contexts []string
	load(t, "contexts.json.gz", &contexts)
	var golden map[string]struct {
		Variables []string `json:"variables"`
		Format    string   `json:"format"`
		Results   []string `json:"results"`
	}
	load(t, "golden.json.gz", &golden)
	require.NotEmpty(t, golden)
	for name, want := range golden {
		t.Run(name, func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("testdata", "templates", name+".jinja"))
			require.NoError(t, err)
			tmpl, err := jinja.Compile(string(source), goldenOptions())
			require.NoError(t, err)
			require.Equal(t, want.Variables, tmpl.Variables())
			require.Equal(t, want.Format, tmpl.ContentFormat().String())
			require.Equal(t, strings.Contains(string(source), "strftime_now("), tmpl.UsesClock())
			for i, text := range contexts {
				out, err := tmpl.Render(context.Background(), nil, dict(t, text))
				switch expect := want.Results[i]; {
				case expect == "!raised":
					require.ErrorIs(t, err, jinja.ErrRaised, "context %d", i)
				case strings.HasPrefix(expect, "!"):
					require.ErrorIs(t, err, jinja.ErrRuntime, "context %d: Python has %s", i, expect)
				default:
					require.NoError(t, err, "context %d", i)
					sum := sha256.Sum256(out)
					require.Equal(t, expect, hex.EncodeToString(sum[:]), "context %d: %s", i, out)
				}
			}
		})
	}
}

// TestGoldenLanguage compares small templates, which use all of the language.
func TestGoldenLanguage(t *testing.T) {
	var golden struct {
		Vars  string `json:"vars"`
		Cases []struct {
			Source string   `json:"source"`
			Text   string   `json:"text"`
			Error  []string `json:"error"`
		} `json:"cases"`
	}
	load(t, "language.json.gz", &golden)
	vars := dict(t, golden.Vars)
	require.Greater(t, len(golden.Cases), 1000)
	refused := 0
	for _, c := range golden.Cases {
		want, err := hex.DecodeString(c.Text)
		require.NoError(t, err)
		tmpl, err := jinja.Compile(c.Source, goldenOptions())
		var out []byte
		if err == nil {
			out, err = tmpl.Render(context.Background(), nil, vars)
		}
		switch {
		case errors.Is(err, jinja.ErrUnsupported):
			refused++ // an address in the text, or one of the few things left out
		case c.Error != nil:
			require.Error(t, err, "%s: Python has %v", c.Source, c.Error)
			require.Equal(t, c.Error[0] == "raised", errors.Is(err, jinja.ErrRaised), c.Source)
		default:
			require.NoError(t, err, c.Source)
			require.Equal(t, string(want), string(out), c.Source)
		}
	}
	require.Less(t, refused, len(golden.Cases)/50)
}
