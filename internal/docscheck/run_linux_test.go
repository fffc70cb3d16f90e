package docscheck

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// still are the commands of pages that are not run here, each with the reason. The list
// only gets shorter: mostStill is how long it is.
var still = map[string]string{
	"make demo":                  "make demo-check runs it in .ci/run; it takes 40 s",
	"make test":                  "this is part of it",
	"vllm ":                      "a real engine, which internal/e2e/vllm starts",
	"kubectl ":                   "a cluster",
	"(cd examples/kubernetes":    "a cluster",
	"docs/kubernetes.md: curl":   "a cluster",
	"docs/caddy.md: ":            "a Caddy is built first; make e2e-caddy does the same",
	"examples/caddy/README.md: ": "as docs/caddy.md",
	"docs/envoy.md: ":            "a real Envoy; make e2e-envoy does the same",
	"cd internal/e2e/console":    "make e2e-console looks at it",
	"docs/console.md: curl":      "of the reader's own gateway; debug's tests read state.json",
	"go run ./cmd/kvsteer doctor -probe http://10.0.0.7:8000": "addresses of the reader's engines",
}

const mostStill = 12

// mustRun is set where these tests may not be skipped, as .ci/run does.
const mustRun = "KVSTEER_DOCS_MUST_RUN"

// before are what a reader has running when he types a command that does not say so.
var before = map[string][]string{
	"README.md: curl":                      {playedEngines, "go run ./examples/nethttp -fleet examples/nethttp/fleet.yaml"},
	"README.md: go run ./examples/nethttp": {playedEngines},
	"README.md: go run ./cmd/kvsteer replay": {
		"curl -s http://127.0.0.1:8080/v1/completions -H 'Content-Type: application/json' -d '{\"model\":\"demo-27b\",\"max_tokens\":2,\"prompt\":\"Hello\"}'",
		"until [ \"$(wc -l < decisions.jsonl)\" -gt 2 ]; do sleep 0.1; done",
	},
	"go run ./cmd/kvsteer doctor": {playedEngines},
	"docs/gateway.md: go run ./examples/nethttp -fleet examples/nethttp/fleet.yaml -cert": {playedEngines},
}

const playedEngines = "go run ./examples/engines -fleet examples/nethttp/fleet.yaml"

// shows is what the output of a command has in it.
var shows = []struct{ command, want string }{
	{"-H \"Authorization: Bearer $KEY\"", `(?s) 200 .* 200 .* 429 `},
	{"/v1/chat/completions", `"choices"`},
	{"/v1/completions", `"choices"`},
	{"/v1/models", `"demo-27b"`},
	{"/metrics", `kvsteer_`},
	{"doctor", `gpu-0`},
	{"check -strict", `.`},
	{"replay", `1 `},
	{"simulate", `kvsteer`},
}

var (
	goesOn  = regexp.MustCompile(`^go run \./examples/(engines|nethttp)\b`)
	program = regexp.MustCompile(`\bgo run \./(?:examples|cmd)/(engines|nethttp|kvsteer)\b`)
)

// typedIn are the commands of a block, a line each.
func typedIn(text string) (list []string) {
	text = strings.ReplaceAll(comment.ReplaceAllString(text, ""), "\\\n", " ")
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// reasons are the keys of still that a page's command is listed by.
func reasons(page, command string) (list []string) {
	for begin := range still {
		if strings.HasPrefix(command, begin) || strings.HasPrefix(page+": "+command, begin) {
			list = append(list, begin)
		}
	}
	return list
}

// play is what is typed for the commands of a block that are not in still.
func play(page string, commands []string) (lines []string) {
	for _, c := range commands {
		if len(reasons(page, c)) > 0 {
			continue
		}
		for key, first := range before {
			if strings.HasPrefix(c, key) || strings.HasPrefix(page+": "+c, key) {
				if !slices.Contains(lines, first[0]) {
					lines = append(lines, first...)
				}
			}
		}
		lines = append(lines, strings.ReplaceAll(c, `"model":"MODEL"`, `"model":"demo-27b"`))
	}
	return lines
}

// script types lines one after the other. What goes on is put behind, and waited for.
func script(lines []string) string {
	var b strings.Builder
	b.WriteString("set -eu\nip link set lo up\n" +
		"reach() { for _ in $(seq 600); do (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null && return; sleep 0.1; done; echo \"nobody at $1\"; exit 9; }\n")
	for i, line := range lines {
		fmt.Fprintf(&b, "echo '::%d'\n", i)
		m := goesOn.FindStringSubmatch(line)
		line = program.ReplaceAllString(line, `"$$BIN"/$1`)
		switch {
		case m == nil:
			if strings.HasPrefix(line, "go ") {
				line = "(cd \"$TOP\" && " + line + ")"
			}
			b.WriteString(line + "\n")
		case m[1] == "engines":
			b.WriteString(line + " >>engines.log 2>&1 &\nreach 8001\nreach 8002\n")
		default: // and the gateway has found them
			b.WriteString(line + " >>gateway.log 2>&1 &\nreach 8080\n" +
				"for _ in $(seq 600); do (curl -s http://127.0.0.1:8080/v1/models; curl -sk https://127.0.0.1:8080/v1/models) | grep -q demo-27b && break; sleep 0.1; done\n")
		}
	}
	return b.String()
}

// Commands that a reader may copy are typed, in a network of their own: nothing is
// reached but what they start.
func TestCommandsRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds three programs")
	}
	if out, err := exec.Command("unshare", "-rn", "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		if os.Getenv(mustRun) != "" {
			t.Fatalf("no network of one's own to be had here (unshare -rn), and %s is set: the pages' commands were not run: %v: %s", mustRun, err, out)
		}
		t.Skipf("no network of one's own to be had here (unshare -rn): %v: %s", err, out)
	}
	root, err := filepath.Abs(top)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	for name, from := range map[string]string{"engines": "./examples/engines", "nethttp": "./examples/nethttp", "kvsteer": "./cmd/kvsteer"} {
		build := exec.Command("go", "build", "-o", filepath.Join(bin, name), ".")
		build.Dir = filepath.Join(root, from) // one of them is a module of its own
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", from, err, out)
		}
	}
	used, ran := map[string]bool{}, 0
	for _, pattern := range []string{"*.md", "docs/*.md", "examples/*/*.md"} {
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
			for _, b := range fences(string(data)) {
				if b.language != "sh" {
					continue
				}
				typed := typedIn(b.text)
				for _, c := range typed {
					for _, begin := range reasons(page, c) {
						used[begin] = true
					}
				}
				lines := play(page, typed)
				if len(lines) == 0 {
					continue
				}
				ran += len(lines)
				t.Run(fmt.Sprintf("%s:%d", page, b.line), func(t *testing.T) { typeAll(t, root, bin, lines) })
			}
		}
	}
	if len(still) > mostStill {
		t.Errorf("%d kinds of commands are not run, at most %d may be: run the new one, or take another out", len(still), mostStill)
	} else if len(still) < mostStill {
		t.Errorf("%d kinds of commands are not run: make mostStill, which is %d, as small", len(still), mostStill)
	}
	for begin, why := range still {
		if !used[begin] {
			t.Errorf("no page has a command %q any more, which is not run for: %s", begin, why)
		}
	}
	const least = 25
	if ran < least {
		t.Errorf("%d commands were run, there were %d: are their blocks still read?", ran, least)
	}
}

func typeAll(t *testing.T, root, bin string, lines []string) {
	t.Helper()
	// A folder that has what the checkout has, and takes what commands write.
	dir := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 15*time.Minute)
	defer stop()
	run := exec.CommandContext(ctx, "unshare", "-rnpf", "--kill-child", "--mount-proc", "bash", "-c", script(lines))
	run.Dir, run.WaitDelay = dir, 10*time.Second
	run.Env = append(os.Environ(), "BIN="+bin, "TOP="+root, "GOFLAGS=-mod=readonly", "GOPROXY=off")
	out, err := run.CombinedOutput()
	said := strings.Split(string(out), "::")
	if err != nil {
		logs, _ := exec.Command("tail", "-n", "5", filepath.Join(dir, "engines.log"), filepath.Join(dir, "gateway.log")).CombinedOutput()
		t.Fatalf("%v, at %q of\n%s\n%.3000s", err, said[len(said)-1], strings.Join(lines, "\n"), logs)
	}
	for i, line := range lines {
		for _, s := range shows {
			if !strings.Contains(line, s.command) {
				continue
			}
			if i+1 < len(said) && !goesOn.MatchString(line) && !regexp.MustCompile(s.want).MatchString(strings.TrimPrefix(said[i+1], fmt.Sprint(i))) {
				t.Errorf("%s: does not say %s, but %.1500s", line, s.want, said[i+1])
			}
			break
		}
	}
}
