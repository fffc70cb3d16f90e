package docscheck

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	constant = regexp.MustCompile(`(?m)^\t(Code\w+)\s+= "([a-z-]+)"`)
	codeRow  = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ((?:error|warning|note)(?:, (?:warning|note))*) \\|")
	finding  = regexp.MustCompile(`(?m)^[^:\n]+:\d+:\d+: (error|warning|note): .*\[([a-z-]+)\]$`)
)

func text(t *testing.T, elements ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}

// The page names the tests of what it promises, and they exist.
func TestPolicyPage(t *testing.T) {
	page := text(t, "docs", "policy.md")
	for _, what := range read(t).missing(page, text(t, "Makefile")) {
		t.Error(what)
	}
	const least = 14 // nine semantics, and what happens around them
	if n := len(named.FindAllString(page, -1)); n < least {
		t.Errorf("%d tests named: is the page's form still the one that is read here?", n)
	}
}

// The page lists every code of findings that policies can have, and no other, with the
// severities that it has in the golden file of findings.
func TestPolicyPageCodes(t *testing.T) {
	want := map[string]bool{"unreadable": true} // which is the command's own
	sources := read(t)["policy"]
	for _, m := range constant.FindAllStringSubmatch(text(t, "policy", "finding_code.go"), -1) {
		used := regexp.MustCompile(`\b` + m[1] + `\b`)
		uses := 0
		for _, source := range sources {
			if strings.HasPrefix(source, "package policy\n") {
				uses += len(used.FindAllString(source, -1))
			}
		}
		const declared = 2 // in a comment and by itself
		if uses > declared {
			want[m[2]] = true
		}
	}
	rows := map[string]string{}
	for _, m := range codeRow.FindAllStringSubmatch(text(t, "docs", "policy.md"), -1) {
		if rows[m[1]] != "" {
			t.Errorf("%s is listed twice", m[1])
		}
		rows[m[1]] = m[2]
	}
	if len(rows) == 0 {
		t.Fatal("no codes found: is the table's form still the one that is read here?")
	}
	for _, code := range slices.Sorted(maps.Keys(want)) {
		if rows[code] == "" {
			t.Errorf("%s is not listed", code)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(rows)) {
		if !want[code] {
			t.Errorf("%s is no code", code)
		}
	}
	shown := map[string]map[string]bool{}
	for _, m := range finding.FindAllStringSubmatch(text(t, "policy", "testdata", "check", "findings.golden"), -1) {
		if shown[m[2]] == nil {
			shown[m[2]] = map[string]bool{}
		}
		shown[m[2]][m[1]] = true
	}
	for code, severities := range shown {
		for severity := range severities {
			if !slices.Contains(strings.Split(rows[code], ", "), severity) {
				t.Errorf("%s: the page says %s, and there is a finding of severity %s", code, rows[code], severity)
			}
		}
	}
}
