//go:build e2e

package jinja_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt/jinja"
)

// now is the time that oracle.py gives templates.
var now = time.Date(2026, 3, 5, 7, 8, 9, 123456000, time.UTC)

func cache(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "kvsteer")
}

// python is the interpreter that has transformers and jinja2.
func python(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("KVSTEER_PYTHON"); p != "" {
		return p
	}
	return filepath.Join(cache(t), "vllm", "bin", "python")
}

// oracle is a running oracle.py.
type oracle struct {
	t   *testing.T
	in  *bufio.Writer
	out *bufio.Reader
}

func startOracle(t *testing.T, args ...string) *oracle {
	t.Helper()
	cmd := exec.Command(python(t), append([]string{"oracle.py"}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("oracle.py: %v\n%s", err, stderr.String())
		}
	})
	return &oracle{t, bufio.NewWriter(in), bufio.NewReaderSize(out, 1<<20)}
}

func (o *oracle) send(line string) {
	o.t.Helper()
	if _, err := o.in.WriteString(line + "\n"); err != nil {
		o.t.Fatal(err)
	}
	if err := o.in.Flush(); err != nil {
		o.t.Fatal(err)
	}
}

func (o *oracle) receive(v any) {
	o.t.Helper()
	line, err := o.out.ReadBytes('\n')
	if err != nil {
		o.t.Fatal("oracle.py ended:", err)
	}
	if err := json.Unmarshal(line, v); err != nil {
		o.t.Fatal(err)
	}
}

func (o *oracle) ask(line string, v any) {
	o.t.Helper()
	o.send(line)
	o.receive(v)
}

// kind names an error as the oracle does, as far as it is compared.
func kind(err error) string {
	switch {
	case errors.Is(err, jinja.ErrRaised):
		return "!raised"
	case errors.Is(err, jinja.ErrUnsupported):
		return "!unsupported"
	case errors.Is(err, jinja.ErrLimit):
		return "!limit"
	default:
		return "!error"
	}
}

func variables(t *testing.T, line string) *jinja.Dict {
	t.Helper()
	v, err := jinja.FromJSON([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	d, ok := v.(*jinja.Dict)
	if !ok {
		t.Fatal("variables are no dict")
	}
	return d
}

// TestTemplates renders every template of the cache with every context and
// compares with Python: results byte for byte, and where it raises.
func TestTemplates(t *testing.T) {
	seed, count := envOr("KVSTEER_SEED", "1"), envOr("KVSTEER_CONTEXTS", "300")
	data, err := exec.Command(python(t), "contexts.py", seed, count).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	file := filepath.Join(t.TempDir(), "contexts.jsonl")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(envOr("KVSTEER_TEMPLATES", filepath.Join(cache(t), "templates")), "*.jinja"))
	if err != nil || len(paths) == 0 {
		t.Fatal("no templates: run fetch.sh", err)
	}
	if only := os.Getenv("KVSTEER_ONLY"); only != "" {
		paths = slices.DeleteFunc(paths, func(p string) bool { return !strings.Contains(p, only) })
	}
	o := startOracle(t, file)
	single := startOracle(t)
	go func() {
		for _, p := range paths {
			fmt.Fprintln(o.in, p)
			if err := o.in.Flush(); err != nil {
				panic(err)
			}
		}
	}()
	total := counts{}
	for _, p := range paths {
		var want answer
		o.receive(&want)
		total.add(compare(t, single, p, lines, want))
	}
	t.Logf("%d templates x %d contexts: %+v", len(paths), len(lines), total)
}

type answer struct {
	Variables []string `json:"variables"`
	Format    string   `json:"format"`
	Results   []string `json:"results"`
	Error     string   `json:"error"`
}

// counts sums up comparisons.
type counts struct {
	Equal, BothFail, Different, Unsupported int
	FormatWrong, VariablesWrong             int
}

func (c *counts) add(o counts) {
	c.Equal += o.Equal
	c.BothFail += o.BothFail
	c.Different += o.Different
	c.Unsupported += o.Unsupported
	c.FormatWrong += o.FormatWrong
	c.VariablesWrong += o.VariablesWrong
}

func compare(t *testing.T, single *oracle, path string, lines []string, want answer) counts {
	t.Helper()
	var c counts
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(path)
	tmpl, err := jinja.Compile(string(source), jinja.Options{Now: func() time.Time { return now }})
	if err != nil {
		if want.Error != "" {
			c.BothFail += len(lines)
			return c
		}
		c.Different += len(lines)
		t.Errorf("%s: does not compile: %v", name, err)
		return c
	}
	if want.Error == "" && want.Format != "" {
		if tmpl.ContentFormat().String() != want.Format {
			c.FormatWrong++
			t.Errorf("%s: content format %v, vLLM says %s", name, tmpl.ContentFormat(), want.Format)
		}
		if got := tmpl.Variables(); !slices.Equal(got, want.Variables) && len(got)+len(want.Variables) > 0 {
			c.VariablesWrong++
			t.Errorf("%s: variables\n%v, vLLM says\n%v", name, got, want.Variables)
		}
	}
	shown := 0
	for i, line := range lines {
		out, err := tmpl.Render(context.Background(), nil, variables(t, line))
		sum := sha256.Sum256(out)
		got := hex.EncodeToString(sum[:])
		if err != nil {
			got = kind(err)
		}
		expect := want.Results[i]
		switch {
		case got == expect:
			if err == nil {
				c.Equal++
			} else {
				c.BothFail++
			}
			continue
		case got == "!error" && strings.HasPrefix(expect, "!") && expect != "!raised",
			got == "!limit" && expect == "!RecursionError":
			c.BothFail++
			continue
		case got == "!unsupported":
			c.Unsupported++
		default:
			c.Different++
		}
		if shown++; shown <= 2 {
			t.Errorf("%s, context %d: %s", name, i, explain(t, single, string(source), line, out, err, expect))
		}
	}
	return c
}

// explain shows where a result differs from the oracle's.
func explain(t *testing.T, single *oracle, source, vars string, out []byte, err error, expect string) string {
	t.Helper()
	request, jsonErr := json.Marshal(map[string]string{"source": source, "vars": vars})
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	var reply struct {
		Text  string   `json:"text"`
		Error []string `json:"error"`
	}
	single.ask(string(request), &reply)
	if reply.Error != nil {
		return fmt.Sprintf("Python: %v\n  here: %v %.200q", reply.Error, err, out)
	}
	text, jsonErr := hex.DecodeString(reply.Text)
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	if err != nil {
		return fmt.Sprintf("here: %v\n  Python: %s %.200q", err, expect, text)
	}
	n := 0
	for n < len(out) && n < len(text) && out[n] == text[n] {
		n++
	}
	from := max(0, n-80)
	return fmt.Sprintf("at byte %d\n   here: %.200q\n  Python: %.200q", n, out[from:], text[from:])
}

func envOr(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}
