//go:build e2e

package jinja_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// testdata is where the package keeps its goldens.
const testdata = "../../../kvcache/prompt/jinja/testdata"

// TestWriteGoldens writes what Python says, so that the package's own tests need
// no Python: run it with KVSTEER_GOLDEN=1 after a change of the generators or of
// the pinned transformers.
func TestWriteGoldens(t *testing.T) {
	if os.Getenv("KVSTEER_GOLDEN") == "" {
		t.Skip("set KVSTEER_GOLDEN=1 to write")
	}
	data, err := exec.Command(python(t), "contexts.py", "7", "80").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	file := filepath.Join(t.TempDir(), "contexts.jsonl")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(testdata, "templates", "*.jinja"))
	if err != nil {
		t.Fatal(err)
	}
	o := startOracle(t, file)
	golden := map[string]answer{}
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			t.Fatal(err)
		}
		var a answer
		o.ask(abs, &a)
		golden[strings.TrimSuffix(filepath.Base(p), ".jinja")] = a
	}
	write(t, "contexts.json.gz", lines)
	write(t, "golden.json.gz", golden)

	type rendering struct {
		Source string   `json:"source"`
		Text   string   `json:"text"`
		Error  []string `json:"error,omitempty"`
	}
	var language []rendering
	sources := append(grammar(99, 4000), tables()...)
	for i, source := range sources {
		if i >= 4000 && i%7 != 0 {
			continue
		}
		request, err := json.Marshal(map[string]string{"source": source, "vars": vars})
		if err != nil {
			t.Fatal(err)
		}
		r := rendering{Source: source}
		o.ask(string(request), &r)
		if len(source) > 400 || address.MatchString(r.Text) || r.Error != nil && i%4 != 0 {
			continue
		}
		if r.Error != nil {
			r.Error = r.Error[:1]
		}
		language = append(language, r)
	}
	t.Log(len(language), "small templates")
	write(t, "language.json.gz", map[string]any{"vars": vars, "cases": language})
}

func write(t *testing.T, name string, v any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	z, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(testdata, name), buf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}
