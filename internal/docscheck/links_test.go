package docscheck

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// link is the target of an inline link or image of Markdown.
var link = regexp.MustCompile(`\]\(<?([^)\s>]+)`)

// anchors are the parts of a page that links can name, as GitHub makes them of its
// headings.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		heading := strings.TrimLeft(line, "#")
		if heading == line || !strings.HasPrefix(heading, " ") {
			continue
		}
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, strings.TrimSpace(heading))] = true
	}
	return names
}

// lost reports whether a link names a part that the page behind it, or else the page
// of the text, doesn't have.
func lost(folder, to, part, text string) bool {
	if to != "" {
		if filepath.Ext(to) != ".md" {
			return false
		}
		data, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(to)))
		if err != nil {
			return true
		}
		text = string(data)
	}
	return part != "" && !anchors(text)[part]
}

// broken returns the relative links of a page that point to no file, or to no part of
// it. folder is the page's.
func broken(folder, text string) []string {
	var bad []string
	code := false // within a fenced block
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if code {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			to, part, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(to))); err != nil || lost(folder, to, part, text) {
				bad = append(bad, m[1])
			}
		}
	}
	return bad
}

func TestLinks(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		pages, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			seen++
			for _, to := range broken(filepath.Dir(page), string(text)) {
				t.Errorf("%s: no such file: %s", strings.TrimPrefix(filepath.ToSlash(page), top+"/"), to)
			}
		}
	}
	const least = 5 // README, CONTRIBUTING, DESIGN, compat and one decision
	if seen < least {
		t.Errorf("%d pages found: is the repository still where it is looked for?", seen)
	}
}

func TestBrokenLinksAreFound(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "there.md"), []byte("# Title\n## Some `part`: of it\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"# Part\n[a](there.md) [b](there.md#some-part-of-it) [c](#part) [d](https://x.test/y#z) [e](mailto:a@x.test)": "[]",
		"[a](there.md#part) [b](#part)":         "[there.md#part #part]",
		"[a](gone.md) and ![b](gone.svg)":       "[gone.md gone.svg]",
		"[a](gone.md#part)":                     "[gone.md#part]",
		"```\n[a](gone.md)\n```\n[b](gone.txt)": "[gone.txt]",
		"[`there`](there.md \"title\")":         "[]",
	} {
		if got := fmt.Sprint(broken(folder, text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
