package classify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/fakejudge"
	"github.com/kvsteer/kvsteer/policy"
)

// fake is a fake service at work. Each request to it has what an Endpoint was told to send.
func fake(t *testing.T, path string, service http.Handler) Endpoint {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key-55" || r.URL.Query().Get("key") != "hidden" {
			t.Errorf("%s with %v", r.URL, r.Header)
		}
		service.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return Endpoint{URL: srv.URL + path + "?key=hidden", Client: srv.Client(), Header: http.Header{"Authorization": {"Bearer key-55"}}}
}

// record has f see each request's texts before the service does.
func record(t *testing.T, service http.Handler, f func(texts []string)) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var asked map[string]any
		if err != nil || json.Unmarshal(body, &asked) != nil {
			t.Errorf("asked: %v, %s", err, body)
		}
		f(texts(asked))
		r.Body = io.NopCloser(bytes.NewReader(body))
		service.ServeHTTP(w, r)
	})
}

// bad is the fake of a moderation by one word.
var bad = fakejudge.Moderation{Score: func(text string) map[string]float64 {
	if strings.Contains(text, "bad") {
		return map[string]float64{"hate": 0.8, "violence": 0.01}
	}
	return map[string]float64{"hate": 0.1}
}}

// served is a service that answers by a function, and what it was asked.
func served(t *testing.T, answer func(asked map[string]any) (status int, body string)) Endpoint {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]any
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Errorf("asked: %v", err)
		}
		if r.Header.Get("Authorization") != "Bearer key-55" || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s with %v", r.Method, r.Header)
		}
		status, body := answer(asked)
		if status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	return Endpoint{URL: srv.URL + "/x?key=hidden", Client: srv.Client(), Header: http.Header{"Authorization": {"Bearer key-55"}}}
}

// texts returns the texts that a service was asked about.
func texts(asked map[string]any) []string {
	var out []string
	if list, ok := asked["input"].([]any); ok {
		for _, v := range list {
			if s, ok := v.(string); ok {
				out = append(out, s)
			}
		}
	}
	return out
}

// conversation of one message each.
func conversation(texts ...string) *Input {
	var in Input
	for _, t := range texts {
		in.AddText("user", t)
	}
	return &in
}

func moderationOf(texts []string) string {
	var results []string
	for _, t := range texts {
		bad := strings.Contains(t, "bad")
		score := 0.1
		if bad {
			score = 0.8
		}
		results = append(results, fmt.Sprintf(`{"flagged":%v,"categories":{"hate":%v,"violence":false},"category_scores":{"hate":%v,"violence":0.01}}`, bad, bad, score))
	}
	return `{"id":"m","results":[` + strings.Join(results, ",") + `]}`
}

func TestModeration(t *testing.T) {
	t.Parallel()
	var calls [][]string
	e := fake(t, "/v1/moderations", record(t, bad, func(texts []string) { calls = append(calls, texts) }))
	m, err := NewModeration(ModerationOptions{Endpoint: e, Model: "omni", Rules: []Rule{
		{Tag: "flagged"}, {Tag: "hate", Labels: []string{"hate", "violence"}}, {Tag: "sure", Labels: []string{"hate"}, MinScore: 0.9}, {Tag: "some", MinScore: 0.5},
	}})
	require.NoError(t, err)
	set := newSet(t, members(m))
	in := conversation("fine", "bad one", "fine too")
	var out Result
	require.NoError(t, set.Classify(t.Context(), in, &out))
	require.Equal(t, []policy.Tag{
		{Name: "flagged", State: policy.TagPresent}, {Name: "hate", State: policy.TagPresent}, {Name: "sure", State: policy.TagAbsent}, {Name: "some", State: policy.TagPresent},
	}, out.Tags)
	require.Equal(t, []Finding{{Tag: "flagged", Kind: "flagged", Count: 1}, {Tag: "hate", Kind: "hate", Count: 1}, {Tag: "some", Kind: "flagged", Count: 1}}, out.Findings)
	in.AddText("user", "new")
	require.NoError(t, set.Classify(t.Context(), in, &out))
	require.Equal(t, [][]string{{"fine", "bad one", "fine too"}, {"new"}}, calls, "all at once, then what is new")

	var direct Result
	require.NoError(t, m.Classify(t.Context(), conversation("fine"), &direct))
	require.Equal(t, policy.TagAbsent, direct.State("flagged"))
}

// A model that doesn't know a category says null of it, and 0 of its score.
func TestModerationByAModelWithoutTheCategory(t *testing.T) {
	t.Parallel()
	for _, older := range []bool{false, true} {
		e := fake(t, "/v1/moderations", fakejudge.Moderation{Older: older})
		for _, rule := range []Rule{{Tag: "x", Labels: []string{"illicit"}}, {Tag: "x", Labels: []string{"hate", "illicit/violent"}, MinScore: 0.4}} {
			m, err := NewModeration(ModerationOptions{Endpoint: e, Rules: []Rule{rule}})
			require.NoError(t, err)
			var out Result
			err = m.Classify(t.Context(), conversation("fine"), &out)
			if older {
				require.ErrorIs(t, err, ErrAnswer)
				require.ErrorContains(t, err, "illicit")
				require.Equal(t, policy.TagUnknown, out.State("x"))
				continue
			}
			require.NoError(t, err)
			require.Equal(t, policy.TagAbsent, out.State("x"))
		}
	}
}

func TestModerationInBatches(t *testing.T) {
	t.Parallel()
	var sizes []int
	limited := bad
	limited.Most = 32
	e := fake(t, "/v1/moderations", record(t, limited, func(texts []string) { sizes = append(sizes, len(texts)) }))
	e.MaxText = 100
	m, err := NewModeration(ModerationOptions{Endpoint: e, Rules: []Rule{{Tag: "flagged"}}})
	require.NoError(t, err)
	in := conversation(strings.Repeat("a", 200), strings.Repeat("b", 60), strings.Repeat("c", 60), "", " \n")
	for range 40 {
		in.AddText("user", "d")
	}
	var out Result
	require.NoError(t, m.Classify(t.Context(), in, &out))
	require.Equal(t, []int{1, 20, 21}, sizes, "what is blank is not asked about")
	require.Equal(t, policy.TagUnknown, out.State("flagged"), "one was too long to ask")
}

// coded is the fake of a classifier by one word, and of another by which it is not sure.
var coded = fakejudge.Labels{Model: "m", Names: []string{"chat", "code"}, Context: 100, Probs: func(text string) []float64 {
	code := 0.1
	if strings.Contains(text, "func") {
		code = 0.9
	}
	if strings.Contains(text, "maybe") {
		code = 0.55
	}
	return []float64{1 - code, code}
}}

func TestLabels(t *testing.T) {
	t.Parallel()
	e := fake(t, "/classify", coded)
	l, err := NewLabels(LabelsOptions{Endpoint: e, Model: "m", Rules: []Rule{{Tag: "code", Labels: []string{"code"}, MinScore: 0.7}}})
	require.NoError(t, err)
	for text, want := range map[string]policy.TagState{
		"hello": policy.TagAbsent, "func main": policy.TagPresent, "maybe func": policy.TagAbsent, "": policy.TagAbsent,
	} {
		var out Result
		require.NoError(t, l.Classify(t.Context(), conversation("hi", text), &out))
		require.Equal(t, want, out.State("code"), text)
	}
	_, err = NewLabels(LabelsOptions{Endpoint: e, Rules: []Rule{{Tag: "code"}}})
	require.Error(t, err)
}

// A rule for a class that the model doesn't have would be absent for good.
func TestLabelsOfAnotherModel(t *testing.T) {
	t.Parallel()
	e := fake(t, "/classify", coded)
	for _, tt := range []struct {
		classes  []string
		believed bool
	}{
		{nil, true}, {[]string{"code", "chat"}, true}, {[]string{"code", "talk"}, false}, {[]string{"code", "chat", "talk"}, false}, {[]string{"code"}, false},
	} {
		l, err := NewLabels(LabelsOptions{Endpoint: e, Classes: tt.classes, Rules: []Rule{{Tag: "code", Labels: []string{"code"}}}})
		require.NoError(t, err)
		var out Result
		err = l.Classify(t.Context(), conversation("hi"), &out)
		if tt.believed {
			require.NoError(t, err)
			require.Equal(t, policy.TagAbsent, out.State("code"))
			continue
		}
		require.ErrorIs(t, err, ErrAnswer, tt.classes)
		require.Equal(t, policy.TagUnknown, out.State("code"))
	}
	_, err := NewLabels(LabelsOptions{Endpoint: e, Classes: []string{"LABEL_0", "LABEL_1"}, Rules: []Rule{{Tag: "code", Labels: []string{"code"}}}})
	require.ErrorContains(t, err, `"code"`)
}

// Labels may come in any order.
func TestLabelsByTheirIndex(t *testing.T) {
	t.Parallel()
	e := served(t, func(map[string]any) (int, string) {
		return http.StatusOK, `{"data":[{"index":1,"label":"chat","probs":[0.6]},{"index":0,"label":"code","probs":[0.9]}]}`
	})
	l, err := NewLabels(LabelsOptions{Endpoint: e, Rules: []Rule{{Tag: "code", Labels: []string{"code"}}}})
	require.NoError(t, err)
	results := make([]Result, 2)
	in := conversation("x", "y")
	require.NoError(t, l.ClassifyMessages(t.Context(), []Input{{Parts: in.Parts[:1]}, {Parts: in.Parts[1:]}}, results))
	require.Equal(t, policy.TagPresent, results[0].State("code"))
	require.Equal(t, policy.TagAbsent, results[1].State("code"))
}

func TestPresidio(t *testing.T) {
	t.Parallel()
	e := fake(t, "/analyze", fakejudge.Presidio{Language: "de", Entities: []string{"PERSON"}, Find: func(text string) []fakejudge.Entity {
		var found []fakejudge.Entity
		for i, r := range []rune(text) {
			if r == 'Ä' {
				found = append([]fakejudge.Entity{{Type: "PERSON", Start: i, End: i + 1, Score: 0.85}}, found...)
			}
		}
		return found
	}})
	p, err := NewPresidio(PresidioOptions{Endpoint: e, Language: "de", Rules: []Rule{{Tag: "names", Labels: []string{"PERSON"}, MinScore: 0.5}, {Tag: "sure", MinScore: 0.9}}})
	require.NoError(t, err)
	in := conversation("nobody", "öÄ and Ä")
	in.Parts = append(in.Parts, Part{Message: 1, Role: "user", Text: []byte("é Ä")})
	var out Result
	require.NoError(t, p.Classify(t.Context(), in, &out))
	require.Equal(t, []policy.Tag{{Name: "names", State: policy.TagPresent}, {Name: "sure", State: policy.TagAbsent}}, out.Tags)
	require.Equal(t, []Finding{{"names", "PERSON", 3, []Place{{1, 2}, {1, 9}, {2, 3}}}}, out.Findings)
}

// An analyzer passes over types that it does not know: that nothing was found says
// nothing about those.
func TestPresidioKnowsWhatIsNotLookedFor(t *testing.T) {
	t.Parallel()
	calls := 0
	service := fakejudge.Presidio{Language: "en", Entities: []string{"PERSON", "EMAIL_ADDRESS"}, Find: func(text string) []fakejudge.Entity {
		calls++
		if strings.Contains(text, "Mara") {
			return []fakejudge.Entity{{Type: "PERSON", End: 4, Score: 0.9}}
		}
		return nil
	}}
	e := fake(t, "/analyze", service)
	rules := []Rule{{Tag: "who", Labels: []string{"PERSON"}}, {Tag: "pii", Labels: []string{"PERSON", "NRP", "EMAIL_ADDRESS"}}}
	p, err := NewPresidio(PresidioOptions{Endpoint: e, Rules: rules})
	require.NoError(t, err)
	for text, want := range map[string][]policy.Tag{
		"nobody":       {{Name: "who", State: policy.TagAbsent}, {Name: "pii", State: policy.TagUnknown}},
		"Mara is here": {{Name: "who", State: policy.TagPresent}, {Name: "pii", State: policy.TagPresent}},
		" ":            {{Name: "who", State: policy.TagAbsent}, {Name: "pii", State: policy.TagAbsent}}, // there is nothing to find
	} {
		var out Result
		require.NoError(t, p.Classify(t.Context(), conversation(text), &out), text)
		require.Equal(t, want, out.Tags, text)
	}
	require.Equal(t, 2, calls, "it is not asked about nothing")

	none, err := NewPresidio(PresidioOptions{Endpoint: e, Rules: []Rule{{Tag: "odd", Labels: []string{"NRP"}}}})
	require.NoError(t, err)
	var out Result
	require.NoError(t, none.Classify(t.Context(), conversation("nobody"), &out))
	require.Equal(t, policy.TagUnknown, out.State("odd"))

	blind, err := NewPresidio(PresidioOptions{Endpoint: e, Language: "xx", Rules: rules}) // which it does not have
	require.NoError(t, err)
	out.Reset()
	require.Error(t, blind.Classify(t.Context(), conversation("nobody"), &out))
	require.Equal(t, policy.TagUnknown, out.State("who"))
}

func TestAnswersThatAreNone(t *testing.T) {
	t.Parallel()
	const canary = "canary-4471"
	long := moderationOf([]string{canary}) + strings.Repeat(" ", 2000)
	tests := []struct {
		name   string
		status int
		body   string
	}{
		{"an error", 500, canary},
		{"a refusal", 400, canary},
		{"elsewhere", 307, canary},
		{"no JSON", 200, canary},
		{"another form", 200, `{"results":"` + canary + `"}`},
		{"nothing", 200, ``},
		{"null", 200, `null`},
		{"too few", 200, `{"results":[]}`},
		{"no verdict", 200, `{"results":[{}]}`},
		{"no such category", 200, `{"results":[{"flagged":false,"categories":{}}]}`},
		{"too long", 200, long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := served(t, func(map[string]any) (int, string) { return tt.status, tt.body })
			e.MaxResponse = 1000
			m, err := NewModeration(ModerationOptions{Endpoint: e, Rules: []Rule{{Tag: "x", Labels: []string{"hate"}}}})
			require.NoError(t, err)
			set := newSet(t, members(m))
			var out Result
			err = set.Classify(t.Context(), conversation(canary), &out)
			require.ErrorIs(t, err, ErrAnswer)
			require.NotContains(t, err.Error(), canary)
			require.NotContains(t, err.Error(), "hidden")
			require.Equal(t, policy.TagUnknown, out.State("x"))
		})
	}
	for _, body := range []string{`null`, `{}`, `"x"`, ``} {
		e := served(t, func(map[string]any) (int, string) { return 200, body })
		p, err := NewPresidio(PresidioOptions{Endpoint: e, Rules: []Rule{{Tag: "x"}}})
		require.NoError(t, err)
		var out Result
		require.ErrorIs(t, p.Classify(t.Context(), conversation("text"), &out), ErrAnswer, body)
		require.Equal(t, policy.TagUnknown, out.State("x"))
	}
	for _, body := range []string{
		`{"data":[{"index":1,"label":"a","probs":[1]},{"index":2,"label":"b","probs":[1]}]}`, `{"data":[{"index":0,"label":"b","probs":[1]},{"index":0,"label":"b","probs":[1]}]}`,
		`{"data":[{"index":0,"label":"b"},{"index":1}]}`, `{"data":[{"index":0,"label":"b"},{"index":1,"label":null}]}`, `{"data":[]}`, `{"data":[{"index":0,"label":"b"}]}`,
		`{"data":[{"index":0,"label":"b"},{"index":1,"label":"a"}]}`, // no probability, for which the rule asks
	} {
		e := served(t, func(map[string]any) (int, string) { return 200, body })
		l, err := NewLabels(LabelsOptions{Endpoint: e, Rules: []Rule{{Tag: "x", Labels: []string{"a"}, MinScore: 0.1}}})
		require.NoError(t, err)
		results := make([]Result, 2)
		in := conversation("text", "another")
		require.ErrorIs(t, l.ClassifyMessages(t.Context(), []Input{{Parts: in.Parts[:1]}, {Parts: in.Parts[1:]}}, results), ErrAnswer, body)
		for i := range results {
			require.Empty(t, results[i].Tags, "nothing of an answer that is wrong is believed: %s", body)
		}
	}
}

func TestErrorsDoNotTellTheURL(t *testing.T) {
	t.Parallel()
	e := Endpoint{URL: "http://user:pass@127.0.0.1:1/x?key=hidden", Client: new(http.Client)}
	m, err := NewModeration(ModerationOptions{Endpoint: e, Rules: []Rule{{Tag: "x"}}})
	require.NoError(t, err)
	var out Result
	err = m.Classify(t.Context(), conversation("text"), &out)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hidden")
	require.NotContains(t, err.Error(), "pass")
	for _, bad := range []Endpoint{{}, {URL: "://hidden", Client: e.Client}, {URL: "ftp://x", Client: e.Client}, {URL: "http://x"}} {
		_, err := NewModeration(ModerationOptions{Endpoint: bad, Rules: []Rule{{Tag: "x"}}})
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hidden")
	}
	for _, rules := range [][]Rule{nil, {{}}, {{Tag: "x", MinScore: 2}}} {
		_, err := NewPresidio(PresidioOptions{Endpoint: e, Rules: rules})
		require.Error(t, err)
	}
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var calls, status atomic.Int64
	status.Store(500)
	e := served(t, func(asked map[string]any) (int, string) {
		calls.Add(1)
		return int(status.Load()), moderationOf(texts(asked))
	})
	e.Failures, e.Cooldown, e.Now = 3, time.Minute, func() time.Time { return now }
	m, err := NewModeration(ModerationOptions{Endpoint: e, Rules: []Rule{{Tag: "x"}}})
	require.NoError(t, err)
	ask := func() error {
		var out Result
		return m.Classify(t.Context(), conversation("text"), &out)
	}
	for range 3 {
		require.ErrorIs(t, ask(), ErrAnswer)
	}
	require.ErrorIs(t, ask(), ErrCooling)
	require.Equal(t, int64(3), calls.Load())
	now = now.Add(time.Minute)
	require.ErrorIs(t, ask(), ErrAnswer, "one tries again")
	require.ErrorIs(t, ask(), ErrCooling)
	require.Equal(t, int64(4), calls.Load())
	now = now.Add(time.Minute)
	status.Store(200)
	require.NoError(t, ask())
	status.Store(400)
	for range 5 {
		require.ErrorIs(t, ask(), ErrAnswer, "a refusal is not the service's failure")
	}
	status.Store(200)
	require.NoError(t, ask())

	// What the caller broke off is not the service's failure either.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		var out Result
		require.ErrorIs(t, m.Classify(ctx, conversation("text"), &out), context.Canceled)
	}
	require.NoError(t, ask())
}

func TestServicesHeedTheirDeadline(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(stop)
	m, err := NewModeration(ModerationOptions{Endpoint: Endpoint{URL: srv.URL, Client: srv.Client()}, Rules: []Rule{{Tag: "x"}}})
	require.NoError(t, err)
	set := newSet(t, SetOptions{Members: []Member{{Classifier: m, Timeout: 20 * time.Millisecond}}})
	var out Result
	require.ErrorIs(t, set.Classify(t.Context(), conversation("text"), &out), ErrDeadline)
	require.Equal(t, policy.TagUnknown, out.State("x"))
	require.Eventually(t, func() bool { return set.members[0].underWay.Load() == 0 }, 30*time.Second, time.Millisecond)
}

var errTest = errors.New("test")

func TestFuncMayFail(t *testing.T) {
	t.Parallel()
	f := Func{Produces: []string{"x"}, Judge: func(context.Context, *Input, *Result) error { return errTest }}
	var out Result
	require.ErrorIs(t, newSet(t, members(f)).Classify(t.Context(), said("text"), &out), errTest)
	require.Equal(t, []policy.Tag{{Name: "x"}}, out.Tags)
}
