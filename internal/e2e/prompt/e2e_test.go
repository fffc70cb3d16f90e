//go:build e2e

package prompt_test

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/e2e/prompt/requests"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

const (
	modelName = "m"
	// perModel requests to each model; KVSTEER_E2E_REQUESTS overrides.
	perModel = 400
	// answered is the share of the requests accepted by the engine that must be
	// answered locally: a source that passes everything on is exact, and useless.
	answered = 0.97
)

func env(name string, byDefault int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return byDefault
}

// tally counts how requests of one model went.
type tally struct {
	equal   map[prompt.API]int
	refused int // by the engine
	lenient int // of those, answered locally
	passed  map[string]int
	texts   []string // what was passed on although the engine takes it
}

func (c *tally) total() int {
	n := 0
	for _, k := range c.equal {
		n += k
	}
	return n
}

func (c *tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d equal (", c.total())
	for _, api := range []prompt.API{prompt.Chat, prompt.Completions, prompt.Messages, prompt.Responses} {
		fmt.Fprintf(&b, "%s %d; ", api, c.equal[api])
	}
	n := 0
	for _, k := range c.passed {
		n += k
	}
	fmt.Fprintf(&b, "), %d passed on, %d refused by the engine (%d of them computed here)", n, c.refused, c.lenient)
	for _, why := range slices.Sorted(maps.Keys(c.passed)) {
		fmt.Fprintf(&b, "\n      %d × %s", c.passed[why], why)
	}
	return b.String()
}

// short is the beginning of a body.
func short(body []byte) []byte {
	const enough = 400
	return body[:min(len(body), enough)]
}

// one compares one request. It returns a difference, "" if there is none.
func one(t *testing.T, c *tally, src prompt.Source, s *server, r requests.Request) string {
	t.Helper()
	object, err := jsonscan.Parse(r.Body, 0)
	if err != nil {
		c.refused++ // no object any more: such a request does not get here
		return ""
	}
	got, localErr := src.Encode(t.Context(), &prompt.Request{API: r.API, Model: modelName, Body: r.Body, Object: object})
	want, count, err := s.render(t.Context(), r.API, r.Body)
	var no refused
	switch {
	case errors.As(err, &no):
		c.refused++
		if localErr == nil {
			c.lenient++
		}
		return ""
	case err != nil:
		require.NoError(t, err, "%s", r.Body)
	case got.Source == prompt.SourceNone && localErr == nil:
		return fmt.Sprintf("%s: nothing: %s", r.API, r.Body)
	case localErr != nil:
		c.passed[localErr.Error()]++
		if len(c.texts) < 5 {
			c.texts = append(c.texts, fmt.Sprintf("%v: %s", localErr, short(r.Body)))
		}
		return ""
	case !slices.Equal(got.Tokens, want), got.Count != count:
		at := 0
		for at < min(len(want), len(got.Tokens)) && want[at] == got.Tokens[at] {
			at++
		}
		return fmt.Sprintf("%s: ids differ at %d (engine %d, local %d; counts %d, %d):\n%s", r.API, at, len(want), len(got.Tokens), count, got.Count, r.Body)
	default:
		c.equal[r.API]++
	}
	return ""
}

// subject is a model as vLLM serves it and as package local is told of it.
type subject struct {
	name  string
	model local.Model
	flags []string // of vLLM, saying the same as model
}

// subjects are the models on disk, and some of them with options.
func subjects(t *testing.T) []subject {
	t.Helper()
	small, err := filepath.Abs("../../../kvcache/prompt/local/testdata/models")
	require.NoError(t, err)
	var all []subject
	for _, root := range []string{script(t, "models.sh", "real"), small} {
		found, globErr := filepath.Glob(filepath.Join(root, "*", "tokenizer.json"))
		require.NoError(t, globErr)
		for _, f := range found {
			dir := filepath.Dir(f)
			all = append(all, subject{name: filepath.Base(dir), model: local.Model{Dir: dir}})
		}
	}
	all = append(all, subject{
		"qwen+flags",
		local.Model{
			Dir: filepath.Join(small, "qwen"), ExcludeToolsWhenNone: true, ContentFormat: "string",
			TemplateKwargs: `{"enable_thinking":false,"reasoning_effort":"low","add_generation_prompt":false}`,
		},
		[]string{
			"--exclude-tools-when-tool-choice-none", "--chat-template-content-format", "string",
			"--default-chat-template-kwargs", `{"enable_thinking":false,"reasoning_effort":"low","add_generation_prompt":false}`,
		},
	}, subject{
		"show+parts",
		local.Model{Dir: filepath.Join(small, "gemma"), ContentFormat: "openai", TemplateKwargs: `{"topic":{"b":1.0,"a":null}}`},
		[]string{"--chat-template-content-format", "openai", "--default-chat-template-kwargs", `{"topic":{"b":1.0,"a":null}}`},
	})
	if only := os.Getenv("KVSTEER_E2E_MODELS"); only != "" {
		all = slices.DeleteFunc(all, func(s subject) bool { return !slices.Contains(strings.Split(only, ","), s.name) })
	}
	require.NotEmpty(t, all)
	return all
}

// renderServer runs a render server for these subjects, once under that name, and
// returns its URL.
func renderServer(t *testing.T, name string, all []subject) string {
	t.Helper()
	if url := os.Getenv("KVSTEER_E2E_RENDER"); url != "" {
		return url
	}
	return share(t, name, func(port int) []string {
		argv := []string{"serve.sh", strconv.Itoa(port)}
		for _, s := range all {
			argv = append(append(argv, s.name+"="+s.model.Dir), s.flags...)
		}
		return argv
	})
}

// TestRender compares the ids of thousands of requests with those of vLLM's render
// server, for several families of models.
func TestRender(t *testing.T) {
	script(t, "../vllm/setup.sh")
	all := subjects(t)
	url := renderServer(t, "render", all)
	n, seed := env("KVSTEER_E2E_REQUESTS", perModel), uint64(env("KVSTEER_E2E_SEED", 1))
	sum := &tally{equal: map[prompt.API]int{}}
	for i, sub := range all {
		t.Run(sub.name, func(t *testing.T) {
			sub.model.MaxModelLen = 32768
			src, err := local.New(local.Options{Models: map[string]local.Model{modelName: sub.model}})
			require.NoError(t, err)
			defer func() { _ = src.Close() }()
			s := &server{url: url + "/" + sub.name, http: &http.Client{Timeout: 5 * time.Minute}}
			g := requests.New(seed+uint64(i)*1000, modelName)
			c := &tally{equal: map[prompt.API]int{}, passed: map[string]int{}}
			captured := newCapture(t, sub)
			differences := 0
			curated := requests.Curated()
			for i := range len(curated) + n {
				var r requests.Request
				if i < len(curated) {
					r = curated[i]
				} else {
					r = g.Next()
				}
				if diff := one(t, c, src, s, r); diff != "" {
					differences++
					if differences <= 5 {
						t.Error(diff)
					}
				}
				captured.add(t, s, r)
			}
			captured.write(t)
			t.Logf("%-12s %s", sub.name, c)
			for _, text := range c.texts {
				t.Logf("passed on: %s", text)
			}
			require.Zero(t, differences, "ids differ from the engine's")
			passed := 0
			for _, k := range c.passed {
				passed += k
			}
			// The curated ones hold many that only the engine can resolve.
			passed = max(passed-len(curated)/10, 0)
			require.GreaterOrEqual(t, float64(c.total()), answered*float64(c.total()+passed), "too many requests are passed on")
			for api, k := range c.equal {
				sum.equal[api] += k
			}
		})
	}
	t.Logf("all: %s; 0 differences", sum)
}

// TestMutated sends requests of unusual and broken shapes: what the engine takes and
// is answered locally has the same ids, whatever it is.
func TestMutated(t *testing.T) {
	script(t, "../vllm/setup.sh")
	all := subjects(t)
	url := renderServer(t, "render", all)
	n, seed := env("KVSTEER_E2E_REQUESTS", perModel), uint64(env("KVSTEER_E2E_SEED", 1))
	for i, sub := range all {
		t.Run(sub.name, func(t *testing.T) {
			src, err := local.New(local.Options{Models: map[string]local.Model{modelName: sub.model}})
			require.NoError(t, err)
			defer func() { _ = src.Close() }()
			s := &server{url: url + "/" + sub.name, http: &http.Client{Timeout: 5 * time.Minute}}
			g := requests.New(seed+uint64(i)*1000+500, modelName)
			c := &tally{equal: map[prompt.API]int{}, passed: map[string]int{}}
			for range n {
				r := g.Next()
				r.Body = g.Mutate(r.Body)
				if diff := one(t, c, src, s, r); diff != "" {
					t.Error(diff)
				}
			}
			t.Logf("%-12s %s", sub.name, c)
			for _, text := range c.texts {
				t.Logf("passed on: %s", text)
			}
		})
	}
}

// capture records some of the small models' requests and what the engine makes of
// them, when KVSTEER_E2E_CAPTURE names a directory: the goldens of package local.
type capture struct {
	path    string
	records []record
}

type record struct {
	API  string          `json:"api"`
	Body json.RawMessage `json:"body"`
	// IDs are the engine's; none when it refuses.
	IDs []uint32 `json:"ids"`
}

const goldens = 200

func newCapture(t *testing.T, s subject) *capture {
	t.Helper()
	dir := os.Getenv("KVSTEER_E2E_CAPTURE")
	if dir == "" || s.flags != nil || !strings.Contains(s.model.Dir, "testdata") {
		return nil
	}
	return &capture{path: filepath.Join(dir, s.name+".jsonl.gz")}
}

func (c *capture) add(t *testing.T, s *server, r requests.Request) {
	t.Helper()
	if c == nil || len(c.records) >= goldens {
		return
	}
	ids, _, err := s.render(t.Context(), r.API, r.Body)
	if err != nil {
		ids = nil
	}
	c.records = append(c.records, record{r.API.Path(), r.Body, ids})
}

func (c *capture) write(t *testing.T) {
	t.Helper()
	if c == nil {
		return
	}
	f, err := os.Create(c.path)
	require.NoError(t, err)
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	require.NoError(t, err)
	e := json.NewEncoder(z)
	e.SetEscapeHTML(false)
	for _, r := range c.records {
		require.NoError(t, e.Encode(r))
	}
	require.NoError(t, z.Close())
	require.NoError(t, f.Close())
}
