//go:build e2e

package classify_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/fakejudge"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

const (
	modelName = "labels" // as labeler.sh names it
	mostWords = 250      // of one token each: the model takes 256
)

// classes are those of the model that setup.sh writes.
var classes = []string{"chat", "code", "personal"}

// label is what the engine says about a text.
type label struct {
	Name  string    `json:"label"`
	Probs []float64 `json:"probs"`
}

// raw asks the engine itself.
func raw(t *testing.T, s *server, texts ...string) []label {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": modelName, "input": texts})
	require.NoError(t, err)
	status, _, text := call(t, http.MethodPost, s.url+"/classify", string(body))
	require.Equal(t, http.StatusOK, status, "%s", text)
	var a struct {
		Data []label `json:"data"`
	}
	require.NoError(t, json.Unmarshal(text, &a))
	require.Len(t, a.Data, len(texts))
	return a.Data
}

// adapter asks the engine for each class as a tag of its own.
func adapter(t *testing.T, s *server, change func(*classify.LabelsOptions)) (*classify.Labels, *counted) {
	t.Helper()
	e, calls := endpoint(t, s.url+"/classify")
	opts := classify.LabelsOptions{Endpoint: e, Model: modelName}
	for _, name := range classes {
		opts.Rules = append(opts.Rules, classify.Rule{Tag: name, Labels: []string{name}})
	}
	if change != nil {
		change(&opts)
	}
	l, err := classify.NewLabels(opts)
	require.NoError(t, err)
	return l, calls
}

// states are the tags of a result, in the order of the classes.
func states(r *classify.Result) []policy.TagState {
	var all []policy.TagState
	for _, name := range classes {
		all = append(all, r.State(name))
	}
	return all
}

// want is what is true of messages with these labels, some of which the engine refused.
func want(labels []label, refused bool) []policy.TagState {
	var all []policy.TagState
	for _, name := range classes {
		state := policy.TagAbsent
		if refused {
			state = policy.TagUnknown
		}
		if slices.ContainsFunc(labels, func(l label) bool { return l.Name == name }) {
			state = policy.TagPresent
		}
		all = append(all, state)
	}
	return all
}

func messages(n int) []string {
	texts := []string{
		"hello world", "func main() {}", "my name is Mara", "¿dónde está la biblioteca?", "北京的天气怎么样", "SELECT 1;", "<|im_end|> ignore",
		"a\x00b", "😀😀", " leading and trailing ", "line\nbreak\tand tab", "{\"json\": [1, 2]}",
	}
	for i := len(texts); i < n; i++ {
		texts = append(texts, "text number "+strconv.Itoa(i))
	}
	return texts[:n]
}

// TestLabels asks a vLLM that serves a classifier of three classes with weights at
// random: what it says is nonsense, but says the same of the same text.
func TestLabels(t *testing.T) {
	env := setUp(t)
	s := serve(t, "vllm-labels", func(port int) []string {
		return []string{"bash", "labeler.sh", strconv.Itoa(port), env["KVSTEER_CLASSIFIER"]}
	})
	texts := messages(40)
	labels := make([]label, 0, len(texts))
	for _, text := range texts { // one by one
		labels = append(labels, raw(t, s, text)...)
	}
	for _, name := range classes {
		require.Contains(t, fmt.Sprint(labels), name, "a model that always says the same would prove nothing")
	}
	long := strings.Repeat("word ", 2*mostWords)

	t.Run("labels are those of the raw answer", func(t *testing.T) {
		l, _ := adapter(t, s, nil)
		for i, text := range texts {
			out, err := judged(t, l, text)
			require.NoError(t, err, text)
			require.Equal(t, want(labels[i:i+1], false), states(out), text)
		}
	})

	t.Run("scores are those of the raw answer", func(t *testing.T) {
		const step = 0.001 // sums are not made in the same order each time
		for i, text := range texts[:12] {
			p := slices.Max(labels[i].Probs)
			for score, state := range map[float64]policy.TagState{p - step: policy.TagPresent, min(p+step, 1): policy.TagAbsent} {
				l, _ := adapter(t, s, func(o *classify.LabelsOptions) {
					o.Rules = []classify.Rule{{Tag: "sure", Labels: classes, MinScore: score}}
				})
				out, err := judged(t, l, text)
				require.NoError(t, err)
				if p < 1-step { // else it is above any threshold
					require.Equal(t, state, out.State("sure"), "%q: %v, at least %v", text, p, score)
				}
			}
		}
	})

	t.Run("a batch", func(t *testing.T) {
		l, calls := adapter(t, s, nil)
		out, err := judged(t, l, texts...)
		require.NoError(t, err)
		require.Equal(t, want(labels, false), states(out))
		require.EqualValues(t, 2, calls.calls.Load(), "40 texts, 32 at a time")
		counts := map[string]int{}
		for _, l := range labels {
			counts[l.Name]++
		}
		for _, f := range out.Findings {
			require.Equal(t, counts[f.Tag], f.Count, f.Tag)
		}
	})

	t.Run("nothing in a message", func(t *testing.T) {
		status, _, _ := call(t, http.MethodPost, s.url+"/classify", `{"input":["","x"]}`)
		require.Equal(t, http.StatusBadRequest, status, "the engine refuses both")
		l, _ := adapter(t, s, nil)
		out, err := judged(t, l, "", texts[0])
		require.NoError(t, err)
		require.Equal(t, want(labels[:1], false), states(out))
	})

	t.Run("a text that is too long", func(t *testing.T) {
		l, calls := adapter(t, s, nil)
		out, err := judged(t, l, texts[0], long, texts[1])
		require.ErrorIs(t, err, classify.ErrRefused)
		require.ErrorIs(t, err, classify.ErrAnswer)
		require.Equal(t, want(labels[:2], true), states(out), "the others are known, and what nobody said of them is not absent")
		require.EqualValues(t, 2, calls.calls.Load())

		out, err = judged(t, l, long)
		require.ErrorIs(t, err, classify.ErrRefused)
		require.Equal(t, want(nil, true), states(out))

		many := append(slices.Clone(texts), long, long+"and ", long+"or ")
		out, err = judged(t, l, many...)
		require.ErrorIs(t, err, classify.ErrRefused)
		require.Equal(t, want(labels, true), states(out))
	})

	t.Run("what is too long is asked once", func(t *testing.T) {
		l, calls := adapter(t, s, nil)
		set, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{{Classifier: l, Timeout: 5 * time.Minute}}})
		require.NoError(t, err)
		var out classify.Result
		require.ErrorIs(t, set.Classify(t.Context(), said(texts[0], long, texts[1]), &out), classify.ErrRefused)
		before := calls.calls.Load()
		require.NoError(t, set.Classify(t.Context(), said(texts[0], long, texts[1], texts[2]), &out))
		require.Equal(t, want(labels[:3], true), states(&out))
		require.EqualValues(t, 1, calls.calls.Load()-before)
	})

	t.Run("cut texts say nothing of what was cut", func(t *testing.T) { // why the adapter does not have them cut
		ask := func(text string) label {
			body, err := json.Marshal(map[string]any{"input": []string{text}, "truncate_prompt_tokens": -1})
			require.NoError(t, err)
			status, _, answer := call(t, http.MethodPost, s.url+"/classify", string(body))
			require.Equal(t, http.StatusOK, status, "%s", answer)
			var a struct {
				Data []label `json:"data"`
			}
			require.NoError(t, json.Unmarshal(answer, &a))
			return a.Data[0]
		}
		require.InDeltaSlice(t, ask(long+texts[0]).Probs, ask(long+texts[1]).Probs, 0.001)
	})

	t.Run("another model", func(t *testing.T) {
		l, calls := adapter(t, s, func(o *classify.LabelsOptions) { o.Model = "other" })
		out, err := judged(t, l, texts[:3]...)
		require.ErrorIs(t, err, classify.ErrAnswer)
		require.NotErrorIs(t, err, classify.ErrRefused)
		require.ErrorContains(t, err, "404")
		require.Equal(t, want(nil, true), states(out))
		require.EqualValues(t, 1, calls.calls.Load())
	})

	t.Run("a model of other classes", func(t *testing.T) {
		for _, right := range []bool{true, false} {
			l, _ := adapter(t, s, func(o *classify.LabelsOptions) {
				o.Classes = append(slices.Clone(classes), "other")
				if right {
					o.Classes = classes
				}
			})
			out, err := judged(t, l, texts[0])
			require.Equal(t, right, err == nil)
			require.Equal(t, right, slices.Equal(want(labels[:1], false), states(out)))
			require.Equal(t, !right, slices.Equal(want(nil, true), states(out)))
		}
	})

	t.Run("the fake answers in the same form", func(t *testing.T) {
		mux := http.NewServeMux()
		mux.Handle("/classify", fakejudge.Labels{Model: modelName, Names: classes, Context: mostWords, Probs: func(string) []float64 {
			return []float64{0.2, 0.5, 0.3}
		}})
		fake := httptest.NewServer(mux)
		defer fake.Close()
		sameForms(t, s.url, fake.URL, labelQuestions(long))
	})

	t.Run("an engine that stands still", func(t *testing.T) {
		l, _ := adapter(t, s, nil)
		set, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{{Classifier: l, Timeout: 100 * time.Millisecond}}, CacheBytes: -1})
		require.NoError(t, err)
		s.signal(syscall.SIGSTOP)
		var out classify.Result
		require.ErrorIs(t, set.Classify(t.Context(), said(texts[0]), &out), classify.ErrDeadline)
		require.Equal(t, want(nil, true), states(&out))
		s.signal(syscall.SIGCONT)
		require.Eventually(t, func() bool {
			again, err := judged(t, l, texts[0])
			return err == nil && slices.Equal(want(labels[:1], false), states(again))
		}, 5*time.Minute, 100*time.Millisecond)
	})

	t.Run("an engine that died", func(t *testing.T) {
		l, calls := adapter(t, s, func(o *classify.LabelsOptions) { o.Failures, o.Cooldown = 3, time.Hour })
		s.kill()
		for range 3 {
			out, err := judged(t, l, texts[0])
			require.Error(t, err)
			require.NotErrorIs(t, err, classify.ErrCooling)
			require.Equal(t, want(nil, true), states(out))
		}
		before := calls.calls.Load()
		out, err := judged(t, l, texts[0])
		require.ErrorIs(t, err, classify.ErrCooling)
		require.Equal(t, want(nil, true), states(out))
		require.Equal(t, before, calls.calls.Load(), "it is left alone")
	})
}

func labelQuestions(long string) []question {
	body := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	const post, path = http.MethodPost, "/classify"
	return []question{
		{"one text", post, path, `{"model":"labels","input":"hello world"}`},
		{"several texts", post, path, `{"model":"labels","input":["hello world","func main() {}"]}`},
		{"no model", post, path, `{"input":["hello world"]}`},
		{"another model", post, path, `{"model":"other","input":["hello world"]}`},
		{"an empty text", post, path, `{"model":"labels","input":["","x"]}`},
		{"no text", post, path, `{"model":"labels","input":[]}`},
		{"no input", post, path, `{"model":"labels"}`},
		{"no JSON", post, path, `{"model":`},
		{"too long", post, path, body(map[string]any{"model": "labels", "input": []string{"hi", long}})},
		{"too long, to be cut", post, path, body(map[string]any{"model": "labels", "input": []string{"hi", long}, "truncate_prompt_tokens": -1})},
		{"another method", http.MethodGet, path, ""},
	}
}
