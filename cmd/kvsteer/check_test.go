package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

const (
	cleanPolicy = `apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: clean}
spec:
  rules:
  - {name: chat, matches: [{model: chat}], route: {}}
`
	wrongPolicy = `apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: wrong}
spec:
  rules:
  - {name: chat, matches: [{mdel: chat}], route: {}}
`
	doubtfulPolicy = `apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: doubtful}
spec:
  rules:
  - {name: chat, matches: [{}], route: {}}
`
	taggedPolicy = `apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: tagged}
spec:
  rules:
  - {name: easy, matches: [{tag: complexity-low}, {tag: poem}], route: {}}
`
)

// policyFiles writes files into a directory of their own, by their names.
func policyFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

func check(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = dispatch(context.Background(), commands(), append([]string{"check"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCheckExitCodes(t *testing.T) {
	t.Parallel()
	dir := policyFiles(t, map[string]string{
		"clean.yaml": cleanPolicy, "wrong.yaml": wrongPolicy, "doubtful.yaml": doubtfulPolicy, "tagged.yaml": taggedPolicy,
		"broken.yaml": "spec: [", "large.yaml": strings.Repeat("#", policy.MaxFileBytes+1), "other.yaml": "apiVersion: v1\nkind: ConfigMap\n",
		"sub/deep/more.yml": cleanPolicy, "sub/as.json": `{"apiVersion":"kvsteer.dev/v1alpha1","kind":"InferencePolicy","metadata":{"name":"j"},"spec":{"rules":[{"name":"r","route":{}}]}}`,
		"sub/notes.txt": "nothing", "sub/.hidden/bad.yaml": "[", "empty/notes.txt": "nothing",
	})
	cases := map[string]struct {
		args []string // of them, names without - and with a dot or slash are below dir
		code int
		out  string
	}{
		"clean":               {[]string{"./clean.yaml"}, 0, "1 policy in 1 file: 0 errors, 0 warnings\n"},
		"clean, strictly":     {[]string{"-strict", "./clean.yaml"}, 0, "0 warnings\n"},
		"an error":            {[]string{"./clean.yaml", "./wrong.yaml"}, 1, `wrong.yaml:6:29: error: spec.rules[0].matches[0].mdel: an item of matches has no key "mdel"; did you mean "model"? [unknown-key]`},
		"a warning":           {[]string{"./doubtful.yaml"}, 0, "doubtful.yaml:6:28: warning: "},
		"a warning, strictly": {[]string{"-strict", "./doubtful.yaml"}, 1, "0 errors, 1 warning\n"},
		"missing":             {[]string{"./clean.yaml", "./missing.yaml"}, 2, "missing.yaml: error: can't be read"},
		"no YAML":             {[]string{"./broken.yaml"}, 2, "broken.yaml:2:1: error: not YAML"},
		"too large":           {[]string{"./large.yaml"}, 2, "[file-too-large]"},
		"nothing to check":    {[]string{"./other.yaml"}, 0, "there is no policy in any file"},
		"nothing, strictly":   {[]string{"-strict", "./other.yaml"}, 1, "there is no policy in any file"},
		"a directory":         {[]string{"./sub"}, 0, "2 policies in 2 files: 0 errors"},
		"twice":               {[]string{"./sub", "./sub/as.json"}, 0, "2 policies in 2 files"},
		"notes are silent":    {[]string{"./clean.yaml", "./other.yaml"}, 0, "0 errors, 0 warnings (1 note: -notes)\n"},
		"notes":               {[]string{"-notes", "./clean.yaml", "./other.yaml"}, 0, "other.yaml:1:1: note: "},
		"together":            {[]string{"-together", "./doubtful.yaml", "./tagged.yaml"}, 0, "tagged.yaml:6:5: warning: spec.rules[0]: the rule is never reached"},
		"tags":                {[]string{"-tags", "builtin, poem", "./tagged.yaml"}, 0, "0 errors, 0 warnings\n"},
		"an unknown tag":      {[]string{"-tags", "builtin,poems", "./tagged.yaml"}, 1, `no classifier produces the tag "poem"; did you mean "poems"?`},
		"no tags":             {[]string{"-tags=", "./tagged.yaml"}, 1, "2 errors"},
		"no files below":      {[]string{"./empty"}, 2, ""},
		"no arguments":        {nil, 2, ""},
		"unknown flag":        {[]string{"-stict", "./clean.yaml"}, 2, ""},
		"schema":              {[]string{"-schema"}, 0, `"$schema": "https://json-schema.org/draft/2020-12/schema"`},
		"help":                {[]string{"-h"}, 0, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := []string{}
			for _, a := range c.args {
				if rest, ok := strings.CutPrefix(a, "./"); ok {
					a = filepath.Join(dir, filepath.FromSlash(rest))
				}
				args = append(args, a)
			}
			code, out, errs := check(args...)
			require.Equal(t, c.code, code, "%s%s", out, errs)
			require.Contains(t, out, c.out)
			if code == 2 && c.out == "" {
				require.NotEmpty(t, errs)
			}
		})
	}
}

func TestCheckWantsFlagsFirst(t *testing.T) {
	t.Parallel()
	dir := policyFiles(t, map[string]string{"clean.yaml": cleanPolicy})
	code, _, stderr := check(dir, "-strict")
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "-strict comes after a file; flags go before files")
}

func TestCheckSaysWhenTagsAreNotChecked(t *testing.T) {
	t.Parallel()
	dir := policyFiles(t, map[string]string{"tagged.yaml": taggedPolicy, "clean.yaml": cleanPolicy})
	_, _, errs := check(filepath.Join(dir, "tagged.yaml"))
	require.Contains(t, errs, "-tags")
	_, _, errs = check(filepath.Join(dir, "clean.yaml"))
	require.Empty(t, errs)
	_, _, errs = check("-tags", "builtin", filepath.Join(dir, "tagged.yaml"))
	require.Empty(t, errs)
}

func TestCheckPrintsJSON(t *testing.T) {
	t.Parallel()
	dir := policyFiles(t, map[string]string{"wrong.yaml": wrongPolicy})
	code, out, errs := check("-json", dir, filepath.Join(dir, "missing.yaml"))
	require.Equal(t, exitUnreadable, code)
	require.Empty(t, errs)
	var got struct {
		Files, Policies, Errors, Warnings int
		Findings                          []map[string]any
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, []int{1, 1, 2, 0}, []int{got.Files, got.Policies, got.Errors, got.Warnings})
	require.Len(t, got.Findings, 2)
	require.Equal(t, "unreadable", got.Findings[0]["code"])
	require.Equal(t, map[string]any{
		"file": filepath.Join(dir, "wrong.yaml"), "line": 6.0, "column": 29.0, "policy": "wrong", "path": "spec.rules[0].matches[0].mdel",
		"severity": "error", "code": "unknown-key", "message": `an item of matches has no key "mdel"`, "suggestion": `did you mean "model"?`,
	}, got.Findings[1])
	code, out, _ = check("-json", filepath.Join("..", "..", "policy", "testdata", "schema", "every-key.yaml"))
	require.Zero(t, code)
	require.NotContains(t, out, "null", "no findings are an empty list")
}

func TestCheckReadsStandardInput(t *testing.T) {
	t.Parallel()
	run := checkRun{stdin: strings.NewReader(wrongPolicy)}
	require.NoError(t, run.read(t.Context(), []string{"-"}))
	run.check()
	require.Equal(t, exitFailed, run.code())
	require.Equal(t, "-", run.findings[0].File)
}

// The files that define names need not come first.
func TestCheckKnowsManifests(t *testing.T) {
	t.Parallel()
	dir := policyFiles(t, map[string]string{
		"a.yaml": strings.Replace(cleanPolicy, "route: {}", "route: {select: [{type: Provider, order: [clod]}]}", 1),
		"b.yaml": "apiVersion: kinference.buoyant.io/v1alpha1\nkind: InferenceProvider\nmetadata: {name: cloud}\n",
	})
	code, out, _ := check(dir)
	require.Equal(t, exitFailed, code)
	require.Contains(t, out, `a.yaml:6:86: error: spec.rules[0].route.select[0].order[0]: no provider is named "clod"; did you mean "cloud"? [unknown-name]`)
}
