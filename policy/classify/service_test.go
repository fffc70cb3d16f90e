package classify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// served is a service that answers by a function, and what it was asked.
func served(t *testing.T, answer func(asked map[string]any) (status int, body string)) Endpoint {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/supportedentities" {
			if r.URL.Query().Get("key") != "hidden" {
				w.WriteHeader(http.StatusForbidden)
			}
			_, _ = io.WriteString(w, `["PERSON","EMAIL_ADDRESS"]`)
			return
		}
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
	e := served(t, func(asked map[string]any) (int, string) {
		if asked["model"] != "omni" {
			t.Errorf("model %v", asked["model"])
		}
		calls = append(calls, texts(asked))
		return http.StatusOK, moderationOf(texts(asked))
	})
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

func TestModerationInBatches(t *testing.T) {
	t.Parallel()
	var sizes []int
	e := served(t, func(asked map[string]any) (int, string) {
		sizes = append(sizes, len(texts(asked)))
		return http.StatusOK, moderationOf(texts(asked))
	})
	e.MaxText = 100
	m, err := NewModeration(ModerationOptions{Endpoint: e, Rules: []Rule{{Tag: "flagged"}}})
	require.NoError(t, err)
	in := conversation(strings.Repeat("a", 200), strings.Repeat("b", 60), strings.Repeat("c", 60))
	for range 40 {
		in.AddText("user", "d")
	}
	var out Result
	require.NoError(t, m.Classify(t.Context(), in, &out))
	require.Equal(t, []int{1, 20, 21}, sizes)
	require.Equal(t, policy.TagUnknown, out.State("flagged"), "one was too long to ask")
}

func TestLabels(t *testing.T) {
	t.Parallel()
	e := served(t, func(asked map[string]any) (int, string) {
		var data []string
		for i, text := range slices.Backward(texts(asked)) { // in any order
			label, probability := "chat", 0.9
			if strings.Contains(text, "func") {
				label = "code"
			}
			if strings.Contains(text, "maybe") {
				probability = 0.55
			}
			data = append(data, fmt.Sprintf(`{"index":%d,"label":%q,"probs":[%v,%v],"num_classes":2}`, i, label, 1-probability, probability))
		}
		return http.StatusOK, `{"object":"list","data":[` + strings.Join(data, ",") + `]}`
	})
	l, err := NewLabels(LabelsOptions{Endpoint: e, Model: "m", Rules: []Rule{{Tag: "code", Labels: []string{"code"}, MinScore: 0.7}}})
	require.NoError(t, err)
	for text, want := range map[string]policy.TagState{"hello": policy.TagAbsent, "func main": policy.TagPresent, "maybe func": policy.TagAbsent} {
		var out Result
		require.NoError(t, l.Classify(t.Context(), conversation("hi", text), &out))
		require.Equal(t, want, out.State("code"), text)
	}
	_, err = NewLabels(LabelsOptions{Endpoint: e, Rules: []Rule{{Tag: "code"}}})
	require.Error(t, err)
}

func TestPresidio(t *testing.T) {
	t.Parallel()
	e := served(t, func(asked map[string]any) (int, string) {
		if asked["language"] != "de" {
			t.Errorf("language %v", asked["language"])
		}
		text, _ := asked["text"].(string)
		var found []string
		for i, r := range []rune(text) {
			if r == 'Ä' {
				found = append([]string{fmt.Sprintf(`{"entity_type":"PERSON","start":%d,"end":%d,"score":0.85}`, i, i+1)}, found...)
			}
		}
		return http.StatusOK, "[" + strings.Join(found, ",") + "]"
	})
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
	e := served(t, func(asked map[string]any) (int, string) {
		calls++
		if fmt.Sprint(asked["entities"]) != "[PERSON EMAIL_ADDRESS]" {
			t.Errorf("entities %v", asked["entities"])
		}
		if strings.Contains(fmt.Sprint(asked["text"]), "Mara") {
			return http.StatusOK, `[{"entity_type":"PERSON","start":0,"end":4,"score":0.9}]`
		}
		return http.StatusOK, "[]"
	})
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

	e.URL = strings.Replace(e.URL, "key=hidden", "key=other", 1) // where the list can't be had
	blind, err := NewPresidio(PresidioOptions{Endpoint: e, Rules: rules})
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
	for _, body := range []string{`{"data":[{"index":1,"label":"a"}]}`, `{"data":[{"index":0}]}`, `{"data":[]}`} {
		e := served(t, func(map[string]any) (int, string) { return 200, body })
		l, err := NewLabels(LabelsOptions{Endpoint: e, Rules: []Rule{{Tag: "x", Labels: []string{"a"}}}})
		require.NoError(t, err)
		var out Result
		require.ErrorIs(t, l.Classify(t.Context(), conversation("text"), &out), ErrAnswer, body)
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
	require.Eventually(t, func() bool { return set.members[0].underWay.Load() == 0 }, 5*time.Second, time.Millisecond)
}

var errTest = errors.New("test")

func TestHeader(t *testing.T) {
	t.Parallel()
	h := NewHeader("", "pii", "legal")
	require.Equal(t, []string{"pii", "legal"}, h.Tags())
	const p, a, u = policy.TagPresent, policy.TagAbsent, policy.TagUnknown
	tests := []struct {
		name   string
		header http.Header
		pii    policy.TagState
		legal  policy.TagState
		fails  bool
	}{
		{"not trusted", nil, u, u, false},
		{"no header", http.Header{}, u, u, false},
		{"both", http.Header{HeaderTags: {"pii=absent, legal=present"}}, a, p, false},
		{"one", http.Header{HeaderTags: {" pii = present ,"}}, p, u, false},
		{"two lines", http.Header{HeaderTags: {"pii=absent", "legal=absent,other=present"}}, a, a, false},
		{"twice", http.Header{HeaderTags: {"pii=absent", "pii=present"}}, p, u, false},
		{"twice, unknown", http.Header{HeaderTags: {"pii=absent,pii=unknown"}}, u, u, false},
		{"no state", http.Header{HeaderTags: {"pii=absent, legal"}}, u, u, true},
		{"no such state", http.Header{HeaderTags: {"pii=absent, legal=yes"}}, u, u, true},
	}
	set := newSet(t, members(h))
	for _, tt := range tests {
		in := said("text")
		in.Gaps = GapImage // whoever wrote the header has seen it
		in.TrustedHeader = tt.header
		var out Result
		err := set.Classify(t.Context(), in, &out)
		require.Equal(t, tt.fails, err != nil, tt.name)
		require.Equal(t, tt.pii, out.State("pii"), tt.name)
		require.Equal(t, tt.legal, out.State("legal"), tt.name)
	}
}

func TestFuncMayFail(t *testing.T) {
	t.Parallel()
	f := Func{Produces: []string{"x"}, Judge: func(context.Context, *Input, *Result) error { return errTest }}
	var out Result
	require.ErrorIs(t, newSet(t, members(f)).Classify(t.Context(), said("text"), &out), errTest)
	require.Equal(t, []policy.Tag{{Name: "x"}}, out.Tags)
}
