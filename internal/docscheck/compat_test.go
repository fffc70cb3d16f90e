// Package docscheck keeps the documentation true: what it names must exist.
package docscheck

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	top    = "../.." // the repository's folder, seen from here
	compat = top + "/docs/compat.md"
	// fewest is how many tests the page names at the least.
	fewest = 60
	kit    = "kvcache/kvcachetest" // whose cases run in the tests of other packages
)

var (
	// A test as the page names it: `folder.TestName/subtest`, where the folder may
	// be cut from the left as long as it stays the only one, and the root package
	// is kvsteer.
	named  = regexp.MustCompile("`([a-z0-9/]+)\\.((?:Test|Fuzz|Example)\\w*)(?:/([^`]+))?`")
	target = regexp.MustCompile("`make ([a-z0-9-]+)")
	cited  = regexp.MustCompile("`((?:docs|internal|kvcache|fleet|examples)/[\\w./-]+)`")
	// evidence is what may stand in a cell beside or instead of a named test.
	evidence = []string{"not tested", "not supported", "nothing to test", "not in it"}
)

// sources holds the repository's Go files by folder, "" for the root.
type sources map[string][]string

func read(t *testing.T) sources {
	t.Helper()
	all := sources{}
	tree := os.DirFS(top)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		folder := strings.TrimPrefix(path.Dir(name), ".")
		all[folder] = append(all[folder], string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// has says whether a folder's Go files contain a text.
func (s sources) has(folder, text string) bool {
	return slices.ContainsFunc(s[folder], func(file string) bool { return strings.Contains(file, text) })
}

// holders returns the folders that a name on the page can mean and that declare
// the function.
func (s sources) holders(name, function string) []string {
	var found []string
	for folder := range s {
		fits := folder == name || strings.HasSuffix(folder, "/"+name) || folder == "" && name == "kvsteer"
		if fits && s.has(folder, "\nfunc "+function+"(") {
			found = append(found, folder)
		}
	}
	return found
}

// missing says what a page's text names and the repository doesn't have.
func (s sources) missing(text, makefile string) []string {
	var bad []string
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		whole, name, function, sub := m[0], m[1], m[2], m[3]
		switch folders := s.holders(name, function); {
		case len(folders) == 0:
			bad = append(bad, whole+": no such test")
		case len(folders) > 1:
			bad = append(bad, whole+": that could be any of "+strings.Join(folders, ", "))
		case sub != "" && !s.has(folders[0], `"`+sub+`"`) && !s.has(kit, `"`+sub+`"`):
			bad = append(bad, whole+": the test has no case of that name")
		}
	}
	for _, m := range target.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			bad = append(bad, m[0]+"`: no such target")
		}
	}
	for _, m := range cited.FindAllStringSubmatch(text, -1) {
		if _, err := os.Stat(filepath.Join(top, m[1])); err != nil && !named.MatchString(m[0]) {
			bad = append(bad, m[0]+": no such file")
		}
	}
	return bad
}

// unproven returns the cells of feature tables that neither name a test, by its
// name or by a word that the page defines, nor say that there is none.
func unproven(text string) []string {
	words := slices.Clone(evidence)
	var bad []string
	feature := false // within a table of features
	for line := range strings.SplitSeq(text, "\n") {
		cells := row(line)
		switch {
		case cells == nil:
			feature = false
		case cells[0] == "feature":
			feature = true
		case strings.HasPrefix(cells[0], "**"):
			words = append(words, strings.Trim(cells[0], "*"))
		case feature && !strings.HasPrefix(cells[0], "--"):
			for _, cell := range cells[1:] {
				if !named.MatchString(cell) && !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(cell, w) }) {
					bad = append(bad, cells[0]+": "+cell)
				}
			}
		default:
		}
	}
	return bad
}

// row returns the cells of a line of a table, nil for any other line.
func row(line string) []string {
	inner, isRow := strings.CutPrefix(line, "|")
	if !isRow {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(inner, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

func TestCompat(t *testing.T) {
	page, err := os.ReadFile(compat)
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(top, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	if n := len(named.FindAllString(text, -1)); n < fewest {
		t.Errorf("%d tests named: is the page's form still the one that is read here?", n)
	}
	for _, what := range read(t).missing(text, string(makefile)) {
		t.Error(what)
	}
	for _, what := range unproven(text) {
		t.Error(what + ": no evidence")
	}
}

func TestWhatIsMissingIsFound(t *testing.T) {
	s := sources{
		"":         {"package kvsteer_test\nfunc TestRouter(t *testing.T) {}\n"},
		"kv/wire":  {"package wire\nfunc TestShapes(t *testing.T) { \"of 7\" }\nfunc TestTwice(\n"},
		"kv2/wire": {"package wire\nfunc TestTwice(t *testing.T) {}\n"},
		kit:        {`{"tiers", nil}`},
	}
	const makefile = "\ntest: build\n"
	for text, want := range map[string]string{
		"`kvsteer.TestRouter` `wire.TestShapes/of 7` `kv/wire.TestShapes/tiers` `make test`, `make test X=1`": "",
		"`kvsteer.TestRouters`":  "no such test",
		"`ire.TestShapes`":       "no such test",
		"`wire.TestShapes/of 8`": "no case",
		"`wire.TestTwice`":       "any of",
		"`make tests`":           "no such target",
		"`internal/nothing`":     "no such file",
	} {
		got := strings.Join(s.missing(text, makefile), "; ")
		if got == "" != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	const tables = "| word | test |\n|---|---|\n| **seen** | x |\n\n| feature | a | b |\n|---|---|---|\n"
	for text, want := range map[string]int{
		"| f | seen | not tested |":       0,
		"| f | `wire.TestX` | yes |":      1,
		"| f | yes | |":                   2,
		"\n| other | table | of things |": 0,
	} {
		if got := unproven(tables + text); len(got) != want {
			t.Errorf("%s: %q, want %d", text, got, want)
		}
	}
}
