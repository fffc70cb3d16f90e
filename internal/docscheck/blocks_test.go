package docscheck

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/policy"
	providersfile "github.com/kvsteer/kvsteer/providers/file"
	keyfile "github.com/kvsteer/kvsteer/tenancy/file"
	pricefile "github.com/kvsteer/kvsteer/tenancy/price/file"
	quotafile "github.com/kvsteer/kvsteer/tenancy/quota/file"
)

// fence is a fenced block of a page.
type fence struct {
	line     int
	language string
	text     string
	marker   string // the comment right above it, "" if there is none
}

var (
	opening = regexp.MustCompile("^( *)```([a-z]*)$")
	// A marker names the test that compares a block with its own code, where a page has
	// something of the reader's in it.
	marked = regexp.MustCompile(`<!-- checked: ([\w./]+_test\.go)`)
	// typed is how a line begins that a reader is meant to type.
	typed = regexp.MustCompile(`(?m)^(?:\$ )?(?:go (?:run|test|get|build)|make|curl|kubectl|vllm|cd) `)
	// unshown is a line of a test that a page leaves out, such as what it does with errors.
	unshown = "// not shown"
)

func fences(page string) (list []fence) {
	inside, indent, above := false, "", ""
	for i, line := range strings.Split(page, "\n") {
		if inside {
			if inside = strings.TrimSpace(line) != "```"; inside {
				list[len(list)-1].text += strings.TrimPrefix(line, indent) + "\n"
			}
			continue
		}
		if m := opening.FindStringSubmatch(line); m != nil {
			inside, indent = true, m[1]
			list = append(list, fence{line: i + 1, language: m[2], marker: above})
		}
		if above = ""; strings.HasPrefix(line, "<!--") {
			above = line
		}
	}
	return list
}

// flat is code without the form that its surroundings give it.
func flat(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasSuffix(strings.TrimSpace(line), unshown) {
			b.WriteString(strings.Join(words, " ") + "\n")
		}
	}
	return b.String()
}

// library is what blocks of Go are looked for in: every Go file, flat.
func (s sources) library() (list []string) {
	for _, folder := range s {
		for _, file := range folder {
			list = append(list, "\n"+flat(file))
		}
	}
	return list
}

// compiled says what is wrong with a block of Go, where library has none of its code: the
// pieces between lines of dots, one after the other in one file.
func compiled(page string, b fence, library []string) error {
	if m := marked.FindStringSubmatch(b.marker); m != nil {
		text, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(m[1])))
		if err != nil {
			return fmt.Errorf("the marker: %w", err)
		}
		if !bytes.Contains(text, []byte(path.Base(page))) {
			return fmt.Errorf("%s does not read the page", m[1])
		}
		return nil
	}
	holds := func(file string) bool {
		for _, piece := range regexp.MustCompile(`(?m)^\s*// \.\.\..*\n`).Split(b.text, -1) {
			_, rest, found := strings.Cut(file, "\n"+flat(piece))
			if !found {
				return false
			}
			file = "\n" + rest
		}
		return true
	}
	if slices.ContainsFunc(library, holds) {
		return nil
	}
	return errors.New("no Go file holds this code; put it into a test, or name the one that compares it: <!-- checked: FILE -->")
}

// loaded reads a block of YAML by the loader that its first key calls for.
func loaded(text string) error {
	key, _, _ := strings.Cut(text, ":")
	var err error
	switch {
	case strings.Contains(text, "kind: ModelProvider"):
		_, err = providersfile.Parse("block", []byte(text), providersfile.Options{})
	case key == "apiVersion":
		_, findings := policy.Parse("block", []byte(text))
		for _, f := range findings {
			if f.Severity == policy.SeverityError {
				err = errors.Join(err, fmt.Errorf("%v", f))
			}
		}
	case key == "keys":
		_, err = keyfile.Parse("block", []byte(text))
	case key == "rules", key == "weights":
		_, err = quotafile.Parse("block", []byte(text))
	case key == "models", key == "currency":
		_, err = pricefile.Parse([]byte(text))
	case key == "workers", strings.HasPrefix(text, "- name:"):
		_, err = file.Parse([]byte(text))
	default:
		err = fmt.Errorf("nothing is read that begins with %q; add its loader here", key)
	}
	return err
}

// checked says what is wrong with a block of a page.
func checked(page string, b fence, library []string) error {
	switch b.language {
	case "go":
		return compiled(page, b, library)
	case "yaml":
		if path.Base(page) == "policy.md" {
			return nil // examples/policies.TestPageExamples takes all of them
		}
		return loaded(b.text)
	case "json":
		if !json.Valid([]byte(b.text)) {
			return errors.New("not JSON")
		}
		return nil
	case "sh":
		return commands(b.text)
	case "console":
		if page != "docs/policy.md" {
			return errors.New("only cmd/kvsteer.TestPolicyPageCommands runs blocks of this kind, and only those of policy.md")
		}
		return nil
	case "", "text", "mermaid":
		if typed.MatchString(b.text) {
			return errors.New("commands stand in a block of language sh")
		}
		return nil
	default:
		return fmt.Errorf("nothing checks blocks of language %s", b.language)
	}
}

// Whatever a reader may copy from a page is compiled, read or looked up.
func TestBlocks(t *testing.T) {
	library, seen := read(t).library(), map[string]int{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md", "examples/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pages {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			page := strings.TrimPrefix(filepath.ToSlash(name), top+"/")
			for _, b := range fences(strings.ReplaceAll(string(data), "\r\n", "\n")) {
				seen[b.language]++
				err := checked(page, b, library)
				if err != nil {
					t.Errorf("%s:%d: %v", page, b.line, err)
				}
			}
		}
	}
	for language, least := range map[string]int{"go": 20, "yaml": 15, "sh": 15} {
		if seen[language] < least {
			t.Errorf("%d blocks of %s found: is their form still the one that is read here?", seen[language], language)
		}
	}
}

func TestWrongBlocksAreFound(t *testing.T) {
	library := []string{"\n" + flat("func f() {\n\ta, err := g()\n\tmust(err) // not shown\n\tb   := h(a) // why\n}\n"), "\nc()\n"}
	for text, want := range map[string]string{
		"```go\na, err := g()\nb := h(a) // why\n```":                      "",
		"```go\na, err := g()\n// ...\nb := h(a)    // why\n```":           "",
		"```go\nb := h(a) // why\n// ...\na, err := g()\n```":              "no Go file",
		"```go\na, err := g()\n// ...\nc()\n```":                           "no Go file",
		"  ```go\n  d()\n  ```":                                            "no Go file",
		"<!-- checked: links_test.go -->\n```go\nd()\n```":                 "the marker",
		"<!-- checked: example_readme_test.go -->\n```go\nd()\n```":        "does not read",
		"```yaml\nworkers:\n- {name: a, url: http://a:8000}\n```":          "",
		"```yaml\nworkers:\n- {name: a, address: http://a:8000}\n```":      "address",
		"```yaml\nrules: [{name: a, scope: nobody}]\n```":                  "nobody",
		"```yaml\napiVersion: kvsteer.dev/v1alpha1\nkind: Nothing\n```":    "Nothing",
		"```yaml\nsomething: else\n```":                                    "add its loader",
		"```json\n{\"a\": 1,}\n```":                                        "not JSON",
		"```python\nimport kvsteer\n```":                                   "nothing checks",
		"```\nmake demo\n```":                                              "language sh",
		"```\nany output\n```":                                             "",
		"```sh\nmake demo ARGS=-json # twice\n```":                         "",
		"```sh\nmake demos\n```":                                           "no such target",
		"```sh\ngo run ./cmd/kvsteer check -strict examples/policies\n```": "",
		"```sh\ngo run ./cmd/kvsteer check -stict examples/policies\n```":  "no such flag",
		"```sh\ngo run ./cmd/kvsteer check examples/policy\n```":           "no such file",
		"```sh\ngo run ./cmd/kvstear check\n```":                           "no such folder",
		"```sh\n(cd examples/extproc && go run ./engines)\n```":            "",
		"```sh\ncurl -s http://a/b \\\n  -d '{\"model\":\"m\"}'\n```":      "",
		"```sh\ncurl -s http://a/b -d '{\"model\":}'\n```":                 "not JSON",
		"```sh\nrm -rf build\n```":                                         "rm",
	} {
		list := fences(text)
		if len(list) != 1 {
			t.Errorf("%s: %d blocks", text, len(list))
			continue
		}
		err := checked("docs/page.md", list[0], library)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
