package policies

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/policytest"
)

const (
	page     = "../../docs/policy.md"
	header   = "apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\nmetadata: {name: example}\n"
	blockEnd = "```"
)

// block is a fenced block of the page.
type block struct {
	line int
	text string
}

// blocks are those of a language, without the indentation that they have in a list.
func blocks(t *testing.T, language string) (list []block) {
	t.Helper()
	data, err := os.ReadFile(page)
	require.NoError(t, err)
	inside, indent := false, ""
	for i, line := range strings.Split(string(data), "\n") {
		bare := strings.TrimLeft(line, " ")
		switch {
		case inside && bare == blockEnd:
			inside = false
		case inside:
			list[len(list)-1].text += strings.TrimPrefix(line, indent) + "\n"
		case bare == blockEnd+language:
			inside, indent = true, line[:len(line)-len(bare)]
			list = append(list, block{line: i + 2})
		}
	}
	return list
}

// whole is a policy of which a block shows a part.
func whole(part string) string {
	key, _, _ := strings.Cut(strings.TrimSpace(regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(part, "")), ":")
	within := func(by string) string { return regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(part, by+"$1") }
	rule := header + "spec:\n  rules:\n  - name: example\n"
	switch key {
	case "apiVersion":
		return part
	case "priority", "models", "rules":
		return header + "spec:\n" + within("  ")
	case "matches":
		if !strings.Contains(part, "\nroute:") {
			rule += "    route: {}\n"
		}
		return rule + within("    ")
	default:
		return rule + "    route:\n" + within("      ")
	}
}

// Every block is a policy with nothing wrong, and does what its lines say.
func TestPageExamples(t *testing.T) {
	t.Parallel()
	list := blocks(t, "yaml")
	require.Greater(t, len(list), 12)
	for _, b := range list {
		name := fmt.Sprintf("policy.md:%d", b.line)
		f, findings := policy.Parse(name, []byte(whole(b.text)))
		for _, found := range append(findings, policy.Check([]*policy.File{f}, policy.CheckOptions{Tags: builtin, Together: true})...) {
			// The page shows on purpose what deserves a note.
			assert.Equal(t, policy.SeverityNote, found.Severity, "%v", found)
		}
		set, err := policy.Compile(policy.Options{}, f.Specs...)
		require.NoError(t, err, "%s\n%s", name, whole(b.text))
		cases, err := casesOf(b.text)
		require.NoError(t, err)
		assert.NotEmpty(t, cases, name)
		kit := policytest.New(set)
		for _, problem := range wrong(kit, cases) {
			t.Errorf("%s: %s", name, problem)
		}
		assert.Empty(t, slices.DeleteFunc(kit.Untested(), func(part string) bool {
			return strings.Contains(part, ": when nothing is left (Reject)") || strings.Contains(part, ": stage ")
		}), "%s: no line shows these", name)
	}
}

// The blocks together have every key and every word that a policy can have.
func TestPageHasEveryKey(t *testing.T) {
	t.Parallel()
	data, err := policy.Schema()
	require.NoError(t, err)
	s := &shown{unseen: map[string]bool{}}
	require.NoError(t, json.Unmarshal(data, &s.root))
	s.expect(s.root["$defs"])
	require.Greater(t, len(s.unseen), 80)
	for _, b := range blocks(t, "yaml") {
		loader, err := yaml.NewLoader(strings.NewReader(whole(b.text)))
		require.NoError(t, err)
		for {
			var doc any
			if loader.Load(&doc) != nil {
				break
			}
			s.see(s.root, doc)
		}
	}
	// Status is not read, Wait needs a time, and NextRule needs no more than its name.
	for _, ignored := range []string{"document.status", "route.onEmpty: Wait", "onEmpty.action: NextRule"} {
		delete(s.unseen, ignored)
	}
	assert.Empty(t, slices.Sorted(maps.Keys(s.unseen)))
}

// shown follows documents through the schema.
type shown struct {
	root   map[string]any
	unseen map[string]bool
}

// expect notes each key, and each word of an enumeration, that is below defs.
func (s *shown) expect(defs any) {
	all, _ := defs.(map[string]any)
	for name, def := range all {
		d, _ := def.(map[string]any)
		properties, _ := d["properties"].(map[string]any)
		for key, value := range properties {
			s.unseen[name+"."+key] = true
			for _, word := range words(value) {
				s.unseen[name+"."+key+": "+word] = true
			}
		}
	}
}

// words are those of enumerations in a schema, not in what it refers to.
func words(n any) (list []string) {
	switch n := n.(type) {
	case []any:
		for _, v := range n {
			list = append(list, words(v)...)
		}
	case map[string]any:
		for key, v := range n {
			if key != "enum" {
				list = append(list, words(v)...)
				continue
			}
			values, _ := v.([]any)
			for _, word := range values {
				if word != policy.APIVersionKinference {
					list = append(list, fmt.Sprint(word))
				}
			}
		}
	}
	return list
}

// see marks what a document has.
func (s *shown) see(schema, doc any) {
	n, _ := schema.(map[string]any)
	if ref, ok := n["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/$defs/")
		defs, _ := s.root["$defs"].(map[string]any)
		def, _ := defs[name].(map[string]any)
		properties, _ := def["properties"].(map[string]any)
		fields, _ := doc.(map[string]any)
		for key, value := range fields {
			if property, known := properties[key]; known {
				s.mark(name+"."+key, value)
				s.see(property, value)
			}
		}
		return
	}
	alternatives, _ := n["anyOf"].([]any)
	for _, one := range alternatives {
		s.see(one, doc)
	}
	entries, _ := doc.([]any)
	for _, entry := range entries {
		s.see(n["items"], entry)
	}
}

func (s *shown) mark(key string, value any) {
	delete(s.unseen, key)
	entries, isList := value.([]any)
	if !isList {
		entries = []any{value}
	}
	for _, word := range entries {
		delete(s.unseen, fmt.Sprintf("%s: %v", key, word))
	}
}

// Go code of the page is code that is compiled.
func TestPageCode(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, path := range []string{"embed_test.go", filepath.Join("..", "policytest", "policy_test.go")} {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		sources.WriteString(strings.ReplaceAll(string(data), "\n\t", "\n"))
	}
	list := blocks(t, "go")
	require.Len(t, list, 2)
	for _, b := range list {
		assert.Contains(t, sources.String(), b.text, "policy.md:%d", b.line)
	}
}

// The explanation in the page is one that a policy gives.
func TestPageExplanation(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile(filepath.Join("testdata", "private-stays-here.txt"))
	require.NoError(t, err)
	list := blocks(t, "text")
	require.Len(t, list, 1)
	assert.Contains(t, strings.ReplaceAll(string(golden), "\r\n", "\n"), list[0].text)
}
