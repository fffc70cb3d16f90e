package docscheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A limit as the page names it: `folder.name`, as tests are named.
var symbol = regexp.MustCompile("`([a-z0-9/]+)\\.(\\w+)`")

// unnamed returns the limits of a page that the code has not, and those without a test.
func (s sources) unnamed(text string) (bad []string) {
	for line := range strings.SplitSeq(text, "\n") {
		cells := row(line)
		if len(cells) != 5 || cells[0] == "input" || strings.HasPrefix(cells[0], "--") {
			continue
		}
		for _, m := range symbol.FindAllStringSubmatch(cells[2], -1) {
			word := regexp.MustCompile(`\b` + m[2] + `\b`)
			found := false
			for folder, files := range s {
				if folder != m[1] && !strings.HasSuffix(folder, "/"+m[1]) && (folder != "" || m[1] != "kvsteer") {
					continue
				}
				for _, file := range files {
					found = found || word.MatchString(file)
				}
			}
			if !found {
				bad = append(bad, m[0]+": no such limit")
			}
		}
		if !named.MatchString(cells[4]) && !strings.HasPrefix(cells[4], "not tested") {
			bad = append(bad, cells[0]+": no test")
		}
	}
	return bad
}

// The pages about security name limits and tests that exist.
func TestSecurityPages(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	s := read(t)
	for name, least := range map[string]int{"docs/limits.md": 60, "SECURITY.md": 30} {
		page, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(page)
		if n := len(named.FindAllString(text, -1)); n < least {
			t.Errorf("%s names %d tests: is its form still the one that is read here?", name, n)
		}
		for _, what := range append(s.missing(text, string(makefile)), s.unnamed(text)...) {
			t.Errorf("%s: %s", name, what)
		}
	}
}

func TestLimitsThatAreMissingAreFound(t *testing.T) {
	s := sources{"a/b": {"package b\nconst maxA = 1\n"}, "": {"func WithA() {}"}}
	for line, want := range map[string]int{
		"| x | 1 | `b.maxA` | refused | `b.TestA` |":         0,
		"| x | 1 | `b.max` | refused | `b.TestA` |":          1,
		"| x | 1 | `kvsteer.WithA` | refused | not tested |": 0,
		"| x | 1 | `c.maxA` | refused | |":                   2,
		"| input | limit | named | at it | test |":           0,
	} {
		if got := s.unnamed(line); len(got) != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}
