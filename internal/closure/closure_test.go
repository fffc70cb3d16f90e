package closure

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/kvsteer/kvsteer"
	top    = "../.." // the module's folder, seen from here
)

// update rewrites the golden files with what is found.
var update = flag.Bool("update", false, "record the current closure in testdata")

// platforms are those the module promises to build on. What it links must not
// depend on where: a package for one system only would be seen by no one else.
func platforms() []string { return []string{"linux", "darwin", "windows"} }

func TestPackagesOfTheRootPackage(t *testing.T) {
	const format = `{{if not .Standard}}{{.ImportPath}}{{end}}`
	for _, goos := range platforms() {
		t.Run(goos, func(t *testing.T) {
			got := list(t, []string{"CGO_ENABLED=0", "GOARCH=amd64", "GOOS=" + goos}, "-deps", "-f", format, module)
			compare(t, "testdata/root.golden", got,
				"Whoever imports "+module+" now compiles other packages.")
		})
	}
}

func TestModulesOfTheRootModule(t *testing.T) {
	const format = `{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}`
	for _, goos := range platforms() {
		t.Run(goos, func(t *testing.T) {
			got := list(t, []string{"CGO_ENABLED=0", "GOARCH=amd64", "GOOS=" + goos}, "-deps", "-f", format, module+"/...")
			compare(t, "testdata/modules.golden", got,
				"Packages of the root module now need other modules. Heavy ones belong in a nested module.")
		})
	}
}

func TestNoCgoInTheRootModule(t *testing.T) {
	const format = `{{if .CgoFiles}}{{.ImportPath}}{{end}}`
	if got := list(t, []string{"CGO_ENABLED=1"}, "-f", format, module+"/..."); len(got) > 0 {
		t.Errorf("these packages use cgo, which belongs in a nested module: %s", strings.Join(got, ", "))
	}
}

// list returns the distinct, sorted, non-empty lines that go list prints for
// the root module alone, workspace or not.
func list(t *testing.T, env []string, args ...string) []string {
	t.Helper()
	readSources(t)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	cmd.Dir = top
	cmd.Env = append(append(cmd.Environ(), "GOWORK=off"), env...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	lines := strings.Fields(string(out))
	slices.Sort(lines)
	return slices.Compact(lines)
}

// readSources looks at every file the answer depends on, so that the go command
// doesn't reuse a result from before one of them changed.
func readSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != top && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(path) == ".go", d.Name() == "go.mod":
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, golden string, got []string, meaning string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(got, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	recorded, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(recorded))
	if slices.Equal(got, want) {
		return
	}
	var diff strings.Builder
	for _, p := range got {
		if !slices.Contains(want, p) {
			diff.WriteString("\n  + " + p)
		}
	}
	for _, p := range want {
		if !slices.Contains(got, p) {
			diff.WriteString("\n  - " + p)
		}
	}
	t.Errorf("%s\nAgainst %s:%s\nIf that is meant: go test ./internal/closure -update", meaning, golden, &diff)
}
