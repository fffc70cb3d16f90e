package docscheck

import (
	"fmt"
	goconstant "go/constant"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// spelled are the ways in which the page writes a number.
func spelled(n int64) []string {
	plain := fmt.Sprint(n)
	commas := plain
	for i := len(plain) - 3; i > 0; i -= 3 {
		commas = commas[:i] + "," + commas[i:]
	}
	ways := []string{plain, commas}
	for shift, unit := range map[int]string{10: "KiB", 20: "MiB", 30: "GiB"} {
		if n != 0 && n%(1<<shift) == 0 {
			ways = append(ways, fmt.Sprintf("%d %s", n>>shift, unit))
		}
	}
	return ways
}

// values are what a folder's constant or package variable of that name may be: numbers only.
func (s sources) values(folder, name string) (found []int64) {
	defined := regexp.MustCompile(`(?m)\b` + name + `(?: +u?int\d*)? += +([-+*()<\d _]+?)(?: *//.*)?$`)
	for in, files := range s {
		if in != folder && !strings.HasSuffix(in, "/"+folder) && (in != "" || folder != "kvsteer") {
			continue
		}
		for _, file := range files {
			for _, m := range defined.FindAllStringSubmatch(file, -1) {
				v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, m[1])
				if err != nil || v.Value == nil {
					continue
				}
				if n, exact := goconstant.Int64Val(goconstant.ToInt(v.Value)); exact {
					found = append(found, n)
				}
			}
		}
	}
	return found
}

// untrue returns the limits of a page that are other numbers in the code, and how many are the same.
func (s sources) untrue(text string) (bad []string, same int) {
	for line := range strings.SplitSeq(text, "\n") {
		cells := row(line)
		if len(cells) != 5 {
			continue
		}
		for _, m := range symbol.FindAllStringSubmatch(cells[2], -1) {
			values := s.values(m[1], m[2])
			if len(values) == 0 {
				continue // an option, an error, a function
			}
			if slices.ContainsFunc(values, func(n int64) bool {
				return slices.ContainsFunc(spelled(n), func(way string) bool {
					return regexp.MustCompile(`(?:^|[^\d,])` + regexp.QuoteMeta(way) + `(?:[^\d]|$)`).MatchString(strings.ReplaceAll(cells[1], ", ", "; "))
				})
			}) {
				same++
			} else {
				bad = append(bad, fmt.Sprintf("%s is %v, and the page says %q", m[0], values, cells[1]))
			}
		}
	}
	return bad, same
}

// The numbers of the page are those of the code.
func TestLimitsAreTrue(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(top, "docs", "limits.md"))
	if err != nil {
		t.Fatal(err)
	}
	bad, same := read(t).untrue(string(page))
	for _, what := range bad {
		t.Error(what)
	}
	if same < 30 {
		t.Errorf("only %d numbers were found in the code: is the page's form still the one that is read here?", same)
	}
}

func TestLimitsThatAreUntrueAreFound(t *testing.T) {
	s := sources{"a/b": {"package b\nconst maxA = 1 << 16 // why\nvar MaxB int64 = 8 << 20\n"}}
	for line, want := range map[string]int{
		"| x | 65,536 | `b.maxA` | refused | |":           0,
		"| x | 16,384 | `b.maxA` | refused | |":           1,
		"| x | 165,536 | `b.maxA` | refused | |":          1,
		"| x | 8 MiB of it, 3 | `b.MaxB` | refused | |":   0,
		"| x | 28 MiB of it | `b.MaxB` | refused | |":     1,
		"| x | by the body | `b.Other` | refused | |":     0,
		"| x | 64 KiB, 100 keys | `b.maxA` | refused | |": 0,
	} {
		if bad, _ := s.untrue(line); len(bad) != want {
			t.Errorf("%s: %q", line, bad)
		}
	}
}
