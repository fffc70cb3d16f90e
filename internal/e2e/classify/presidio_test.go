//go:build e2e

package classify_test

import (
	"encoding/json"
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

func analyzer(t *testing.T, env map[string]string, nlp string) *server {
	t.Helper()
	dir := t.TempDir()
	return serve(t, "presidio-"+nlp, func(port int) []string {
		return []string{env["KVSTEER_PRESIDIO_PYTHON"], "-B", "-P", "presidio_server.py", "--port", strconv.Itoa(port), "--nlp", nlp, "--model", dir}
	})
}

func presidio(t *testing.T, s *server, rules []classify.Rule, change func(*classify.PresidioOptions)) *classify.Presidio {
	t.Helper()
	e, _ := endpoint(t, s.url+"/analyze")
	opts := classify.PresidioOptions{Endpoint: e, Rules: rules}
	if change != nil {
		change(&opts)
	}
	p, err := classify.NewPresidio(opts)
	require.NoError(t, err)
	return p
}

// TestPresidio asks the real analyzer. Its language model is made here: two names are
// persons by a rule, and there is nothing trained about it.
func TestPresidio(t *testing.T) {
	env := setUp(t)
	s := analyzer(t, env, "spacy")

	t.Run("entities, scores and places are those of the raw answer", func(t *testing.T) {
		p := presidio(t, s, []classify.Rule{{Tag: "any"}}, nil)
		for _, text := range []string{
			"nothing to see here", "öÄ Mara Lindqvist, card 4111 1111 1111 1111, é 😀 Özgür Ateş", "mail bob@example.com or call 415-555-0123",
			"IBAN DE89 3704 0044 0532 0130 00\nSSN 219-09-9999", "server 192.168.0.1 on 2024-05-01 at https://example.com/x", "NHS 943 476 5919, 北京 Mara Lindqvist",
		} {
			found := analyzed(t, s, text, nil)
			out, err := judged(t, p, text)
			require.NoError(t, err)
			require.Equal(t, findings("any", text, found), out.Findings, text)
			require.Equal(t, len(found) > 0, out.State("any") == policy.TagPresent, text)
			if len(found) == 0 {
				require.Equal(t, policy.TagAbsent, out.State("any"))
			}
			for _, e := range found { // each score as a threshold
				for score, state := range map[float64]policy.TagState{e.Score: policy.TagPresent, e.Score + 0.001: policy.TagAbsent} {
					if score > 1 || slices.ContainsFunc(found, func(o fakejudge.Entity) bool { return o.Type == e.Type && o.Score > e.Score }) {
						continue
					}
					sure := presidio(t, s, []classify.Rule{{Tag: "sure", Labels: []string{e.Type}, MinScore: score}}, nil)
					out, err := judged(t, sure, text)
					require.NoError(t, err)
					require.Equal(t, state, out.State("sure"), "%s %v in %q", e.Type, score, text)
				}
			}
		}
	})

	t.Run("types that it has no recognizer for", func(t *testing.T) {
		status, _, text := call(t, http.MethodPost, s.url+"/analyze", `{"text":"no one","language":"en","entities":["PERSON","NRP"]}`)
		require.Equal(t, http.StatusOK, status)
		require.JSONEq(t, `[]`, string(text), "it says nothing of the one that it can't find")
		p := presidio(t, s, []classify.Rule{
			{Tag: "who", Labels: []string{"PERSON"}}, {Tag: "faith", Labels: []string{"NRP"}}, {Tag: "both", Labels: []string{"NRP", "PERSON"}},
		}, nil)
		out, err := judged(t, p, "no one")
		require.NoError(t, err)
		require.Equal(t, []policy.Tag{{Name: "who", State: policy.TagAbsent}, {Name: "faith"}, {Name: "both"}}, out.Tags)
		out, err = judged(t, p, "no one", "Mara Lindqvist")
		require.NoError(t, err)
		require.Equal(t, policy.TagPresent, out.State("who"))
		require.Equal(t, policy.TagUnknown, out.State("faith"))
		require.Equal(t, policy.TagPresent, out.State("both"))

		status, _, _ = call(t, http.MethodPost, s.url+"/analyze", `{"text":"no one","language":"en","entities":["NRP"]}`)
		require.Equal(t, http.StatusInternalServerError, status, "it takes a request for that alone for a mistake")
		out, err = judged(t, presidio(t, s, []classify.Rule{{Tag: "faith", Labels: []string{"NRP"}}}, nil), "no one")
		require.NoError(t, err)
		require.Equal(t, policy.TagUnknown, out.State("faith"))
	})

	t.Run("a language that it does not have", func(t *testing.T) {
		for _, labels := range [][]string{nil, {"PERSON"}} {
			p := presidio(t, s, []classify.Rule{{Tag: "any", Labels: labels}}, func(o *classify.PresidioOptions) { o.Language = "xx" })
			out, err := judged(t, p, "no one")
			require.ErrorIs(t, err, classify.ErrAnswer)
			require.Equal(t, policy.TagUnknown, out.State("any"))
		}
	})

	t.Run("nothing in a message", func(t *testing.T) {
		out, err := judged(t, presidio(t, s, []classify.Rule{{Tag: "any"}}, nil), "", " ", "Mara Lindqvist")
		require.NoError(t, err)
		require.Equal(t, policy.TagPresent, out.State("any"))
	})

	t.Run("more than its language model takes", func(t *testing.T) {
		const most = 1_000_000 // characters
		p := presidio(t, s, []classify.Rule{{Tag: "any"}}, func(o *classify.PresidioOptions) { o.MaxText = 2 * most })
		out, err := judged(t, p, "Mara Lindqvist", strings.Repeat("a ", most/2+1))
		require.ErrorIs(t, err, classify.ErrAnswer)
		require.ErrorContains(t, err, "500") // so that it can't be told from a failure
		require.Equal(t, policy.TagPresent, out.State("any"))
		out, err = judged(t, p, strings.Repeat("a ", most/2+1))
		require.Error(t, err)
		require.Equal(t, policy.TagUnknown, out.State("any"))
	})

	t.Run("the fake answers in the same form", func(t *testing.T) {
		fake := httptest.NewServer(fakejudge.Presidio{Language: "en", Entities: []string{"PERSON", "EMAIL_ADDRESS"}, Find: func(text string) []fakejudge.Entity {
			if strings.Contains(text, "Mara") {
				return []fakejudge.Entity{{Type: "PERSON", End: 14, Score: 0.85}}
			}
			return nil
		}})
		defer fake.Close()
		const post, get, path = http.MethodPost, http.MethodGet, "/analyze"
		sameForms(t, s.url, fake.URL, []question{
			{"health", get, "/health", ""},
			{"types", get, "/supportedentities?language=en", ""},
			{"types of any language", get, "/supportedentities", ""},
			{"types of another language", get, "/supportedentities?language=xx", ""},
			{"a name", post, path, `{"text":"Mara Lindqvist","language":"en"}`},
			{"a name that was asked for", post, path, `{"text":"Mara Lindqvist","language":"en","entities":["PERSON","NRP"]}`},
			{"a name that was not", post, path, `{"text":"Mara Lindqvist","language":"en","entities":["EMAIL_ADDRESS"]}`},
			{"nothing", post, path, `{"text":"no one","language":"en"}`},
			{"an unknown type alone", post, path, `{"text":"no one","language":"en","entities":["NRP"]}`},
			{"another language", post, path, `{"text":"no one","language":"xx"}`},
			{"no language", post, path, `{"text":"no one"}`},
			{"no text", post, path, `{"text":"","language":"en"}`},
			{"no JSON", post, path, `{"text":`},
			{"another method", get, path, ""},
			{"elsewhere", get, "/nothing", ""},
		})
	})

	t.Run("an analyzer that stands still", func(t *testing.T) {
		p := presidio(t, s, []classify.Rule{{Tag: "any"}}, nil)
		set, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{{Classifier: p, Timeout: 100 * time.Millisecond}}, CacheBytes: -1})
		require.NoError(t, err)
		s.signal(syscall.SIGSTOP)
		var out classify.Result
		require.ErrorIs(t, set.Classify(t.Context(), said("no one"), &out), classify.ErrDeadline)
		require.Equal(t, policy.TagUnknown, out.State("any"))
		s.signal(syscall.SIGCONT)
		require.Eventually(t, func() bool {
			again, err := judged(t, p, "no one")
			return err == nil && again.State("any") == policy.TagAbsent
		}, 5*time.Minute, 100*time.Millisecond)
	})

	t.Run("an analyzer that died", func(t *testing.T) {
		breaks := func(o *classify.PresidioOptions) { o.Failures, o.Cooldown = 3, time.Hour }
		rules := []classify.Rule{{Tag: "who", Labels: []string{"PERSON"}}}
		known, fresh := presidio(t, s, rules, breaks), presidio(t, s, rules, breaks)
		out, err := judged(t, known, "no one") // now it has asked what the analyzer has
		require.NoError(t, err)
		require.Equal(t, policy.TagAbsent, out.State("who"))
		s.kill()
		for _, p := range []*classify.Presidio{known, fresh} {
			for range 3 {
				out, err = judged(t, p, "no one")
				require.Error(t, err)
				require.NotErrorIs(t, err, classify.ErrCooling)
				require.Equal(t, policy.TagUnknown, out.State("who"))
			}
			out, err = judged(t, p, "no one")
			require.ErrorIs(t, err, classify.ErrCooling)
			require.Equal(t, policy.TagUnknown, out.State("who"))
		}
	})
}

// TestPresidioWithoutLanguageModel asks an analyzer that has no way to find names.
func TestPresidioWithoutLanguageModel(t *testing.T) {
	s := analyzer(t, setUp(t), "no_op")
	p := presidio(t, s, []classify.Rule{{Tag: "who", Labels: []string{"PERSON"}}, {Tag: "mail", Labels: []string{"EMAIL_ADDRESS"}}}, nil)
	out, err := judged(t, p, "Mara Lindqvist")
	require.NoError(t, err)
	require.Equal(t, policy.TagUnknown, out.State("who"))
	require.Equal(t, policy.TagAbsent, out.State("mail"))
	out, err = judged(t, p, "Mara Lindqvist", "bob@example.com")
	require.NoError(t, err)
	require.Equal(t, policy.TagUnknown, out.State("who"))
	require.Equal(t, policy.TagPresent, out.State("mail"))
}

// analyzed asks the analyzer itself.
func analyzed(t *testing.T, s *server, text string, entities []string) []fakejudge.Entity {
	t.Helper()
	body, err := json.Marshal(map[string]any{"text": text, "language": "en", "entities": entities})
	require.NoError(t, err)
	status, _, answer := call(t, http.MethodPost, s.url+"/analyze", string(body))
	require.Equal(t, http.StatusOK, status, "%s", answer)
	var found []fakejudge.Entity
	require.NoError(t, json.Unmarshal(answer, &found))
	return found
}

// findings is what the adapter should make of entities in one text: in their order, by
// type, at bytes instead of characters.
func findings(tag, text string, found []fakejudge.Entity) []classify.Finding {
	slices.SortStableFunc(found, func(a, b fakejudge.Entity) int { return a.Start - b.Start })
	var all []classify.Finding
	for _, e := range found {
		i := slices.IndexFunc(all, func(f classify.Finding) bool { return f.Kind == classify.Kind(e.Type) })
		if i < 0 {
			i = len(all)
			all = append(all, classify.Finding{Tag: tag, Kind: classify.Kind(e.Type)})
		}
		all[i].Count++
		if len(all[i].First) < classify.MaxPlaces {
			all[i].First = append(all[i].First, classify.Place{Offset: len(string([]rune(text)[:e.Start]))})
		}
	}
	return all
}
