package docscheck

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var fuzzed = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(f \*testing\.F\)`)

// Every fuzz target has inputs that were found and are kept, which each test run tries.
func TestEveryFuzzTargetHasSeeds(t *testing.T) {
	const least = 5
	targets := 0
	err := fs.WalkDir(os.DirFS(top), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			return err
		}
		for _, m := range fuzzed.FindAllStringSubmatch(string(text), -1) {
			targets++
			kept, err := os.ReadDir(filepath.Join(top, path.Dir(name), "testdata", "fuzz", m[1]))
			if (err != nil || len(kept) < least) && !seeded(string(text), m[1]) {
				t.Errorf("%s: %s has %d inputs kept in testdata/fuzz/%s, fewer than %d; run it for a minute and keep some of what it finds",
					name, m[1], len(kept), m[1], least)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if targets < 50 {
		t.Errorf("%d fuzz targets: are they still found?", targets)
	}
}

// seeded reports whether a target begins with inputs that are written in the test.
func seeded(text, target string) bool {
	_, body, _ := strings.Cut(text, "\nfunc "+target+"(")
	body, _, _ = strings.Cut(body, "\n}\n")
	return strings.Contains(body, "f.Add(")
}
