package policy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/policy"
)

var updateSchema = flag.Bool("update-schema", false, "write docs/policy-schema.json anew")

const schemaFile = "../docs/policy-schema.json"

func TestSchemaIsCurrent(t *testing.T) {
	want, err := policy.Schema()
	require.NoError(t, err)
	if *updateSchema {
		require.NoError(t, os.WriteFile(schemaFile, want, 0o600))
	}
	got, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, bytes.ReplaceAll(got, []byte("\r\n"), []byte("\n"))),
		"docs/policy-schema.json is not what the tables in parse_*.go say: run go generate ./policy")
}

// Every key is explained, so that editors and docs/policy.md can.
func TestSchemaExplainsEveryKey(t *testing.T) {
	v := loadSchema(t)
	for name, def := range v.defs {
		for key, s := range properties(def) {
			assert.NotEmpty(t, s["description"], "%s.%s", name, key)
		}
	}
	assert.Greater(t, len(v.defs), 15)
}

// What the parser takes the schema takes, and the reverse: documents with one thing
// changed at a time.
func TestSchemaAndParserAgree(t *testing.T) {
	v := loadSchema(t)
	text, err := os.ReadFile(filepath.Join("testdata", "schema", "every-key.yaml"))
	require.NoError(t, err)
	var doc any
	require.NoError(t, yaml.Unmarshal(text, &doc))
	require.Empty(t, v.problem(v.root, doc), "the schema refuses the file with every key")
	_, findings := policy.Parse("f", text)
	require.Empty(t, findings, "the parser refuses the file with every key")

	n := 0
	mutate(doc, func(where string) {
		if n++; n%slowness != 0 {
			return
		}
		data, err := json.Marshal(doc)
		require.NoError(t, err)
		var plain any // as a validator reads it
		require.NoError(t, json.Unmarshal(data, &plain))
		file, findings := policy.Parse("f.json", data)
		problem := v.problem(v.root, plain)
		twice := strings.HasSuffix(where, "fasterBy[]") // two durations: what no schema can say in few words
		if failed(findings) && problem == "" && !twice {
			t.Errorf("%s: the schema takes what the parser does not: %v", where, findings)
		}
		// The schema may refuse what Check does, where it can tell.
		if problem != "" && !failed(findings) && !failed(policy.Check([]*policy.File{file}, policy.CheckOptions{})) {
			t.Errorf("%s: the schema refuses what is right: %s", where, problem)
		}
	})
	require.Greater(t, n, 500)
}

// The file with every key has every key: else the test above proves little.
func TestEveryKeyIsTried(t *testing.T) {
	v := loadSchema(t)
	text, err := os.ReadFile(filepath.Join("testdata", "schema", "every-key.yaml"))
	require.NoError(t, err)
	var doc any
	require.NoError(t, yaml.Unmarshal(text, &doc))
	used := map[string]bool{}
	keysOf(doc, used)
	for name, def := range v.defs {
		for key := range properties(def) {
			if key != "status" || name == "onEmpty" {
				assert.True(t, used[key], "%s.%s is not in the file", name, key)
			}
		}
	}
}

func TestSchemaTakesPublishedPolicies(t *testing.T) {
	v := loadSchema(t)
	folders := []string{"testdata/published", "../../shared/policies", "../examples/policies"}
	n := 0
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.yaml"))
		require.NoError(t, err)
		for _, name := range files {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			var doc any
			require.NoError(t, yaml.Unmarshal(text, &doc), name)
			assert.Empty(t, v.problem(v.root, doc), name)
			n++
		}
	}
	require.NotZero(t, n)
}

func failed(findings []policy.Finding) bool {
	return slices.ContainsFunc(findings, func(f policy.Finding) bool { return f.Severity == policy.SeverityError })
}

// mutate changes one thing in the document at a time, calls fn, and changes it back.
func mutate(n any, fn func(where string)) {
	mutateIn(n, "", fn)
}

func mutateIn(n any, at string, fn func(where string)) {
	values := []any{
		nil, "", "x", "Local", "70%", "2s", true, 0, 7, 0.5, -1,
		[]any{},
		[]any{"x"},
		[]any{[]any{}},
		map[string]any{},
		map[string]any{"greaterThan": 1},
		map[string]any{"name": "x"},
	}
	switch n := n.(type) {
	case map[string]any:
		n["unknown"] = 1
		fn(at + ": a key more")
		delete(n, "unknown")
		for key, old := range n {
			if at == "" && key != "spec" || at == ".spec" && key == "status" {
				continue // which document it is, and what is not read
			}
			for _, v := range values {
				n[key] = v
				fn(at + "." + key)
			}
			delete(n, key)
			fn(at + "." + key + " missing")
			n[key] = old
			mutateIn(old, at+"."+key, fn)
		}
	case []any:
		for i, old := range n {
			for _, v := range values {
				n[i] = v
				fn(at + "[]")
			}
			n[i] = old
			mutateIn(old, at+"[]", fn)
		}
	}
}

func keysOf(n any, used map[string]bool) {
	switch n := n.(type) {
	case map[string]any:
		for key, v := range n {
			used[key] = true
			keysOf(v, used)
		}
	case []any:
		for _, v := range n {
			keysOf(v, used)
		}
	}
}
