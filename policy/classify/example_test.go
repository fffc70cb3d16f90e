package classify_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
)

// A request is read once, and judged by several classifiers.
func Example() {
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	if err != nil {
		panic(err)
	}
	set, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{
		{Classifier: scanner},
		{Classifier: new(classify.LengthHeuristic)},
	}})
	if err != nil {
		panic(err)
	}

	body := []byte(`{"model":"qwen3","messages":[{"role":"user","content":"Charge 4111 1111 1111 1111, please."}]}`)
	var in classify.Input
	if err := classify.Extract(&in, prompt.Chat, body, 0); err != nil {
		panic(err)
	}
	var out classify.Result
	if err := set.Classify(context.Background(), &in, &out); err != nil {
		panic(err) // out is complete nevertheless: what failed is unknown
	}
	for _, tag := range out.Tags {
		fmt.Println(tag.Name, tag.State)
	}
	for _, f := range out.Findings {
		fmt.Println(f.Kind, f.Count, f.First)
	}
	// Output:
	// pii-detected present
	// secrets-detected absent
	// complexity-low present
	// complexity-high absent
	// card 1 [{0 7}]
}

func ExampleExtract() {
	body := []byte(`{"model":"qwen3","messages":[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":[
			{"type":"text","text":"What is\u0020this?"},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`)
	var in classify.Input
	if err := classify.Extract(&in, prompt.Chat, body, 0); err != nil {
		panic(err)
	}
	for _, p := range in.Parts {
		fmt.Printf("%d %s: %s\n", p.Message, p.Role, p.Text)
	}
	fmt.Println("can't be read:", in.Gaps)
	// Output:
	// 0 system: Be brief.
	// 1 user: What is this?
	// can't be read: image
}

func ExampleInput_AddText() {
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	if err != nil {
		panic(err)
	}
	var in classify.Input
	in.AddText("user", "Write to ops@example.com.")
	var out classify.Result
	if err := scanner.Classify(context.Background(), &in, &out); err != nil {
		panic(err)
	}
	fmt.Println(out.State(classify.TagPII))
	// Output: present
}

// What can't be read makes tags unknown, unless it is said not to matter.
func ExampleNewScanner() {
	body := []byte(`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/cat.png"}}]}]}`)
	var in classify.Input
	if err := classify.Extract(&in, prompt.Chat, body, 0); err != nil {
		panic(err)
	}
	for _, ignore := range []classify.Gap{0, classify.GapMedia} {
		scanner, err := classify.NewScanner(classify.ScannerOptions{Ignore: ignore})
		if err != nil {
			panic(err)
		}
		var out classify.Result
		if err := scanner.Classify(context.Background(), &in, &out); err != nil {
			panic(err)
		}
		fmt.Println(out.State(classify.TagPII))
	}
	// Output:
	// unknown
	// absent
}

func ExampleKinds() {
	fmt.Println(classify.Kinds()[:5])
	// Output: [card iban us-ssn cn-id aadhaar]
}

// A classifier of one's own is a function. One that fails makes its tag unknown.
func ExampleFunc() {
	legal := classify.Func{
		Produces: []string{"legal"},
		Judge: func(_ context.Context, in *classify.Input, out *classify.Result) error {
			out.Set("legal", policy.TagAbsent)
			for _, p := range in.Parts {
				if strings.Contains(string(p.Text), "attorney") {
					out.Set("legal", policy.TagPresent)
				}
			}
			return nil
		},
	}
	slow := classify.Func{
		Produces: []string{"slow"},
		Judge: func(ctx context.Context, _ *classify.Input, _ *classify.Result) error {
			<-ctx.Done()
			return ctx.Err()
		},
	}
	set, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{
		{Classifier: legal}, {Classifier: slow, Timeout: time.Millisecond},
	}})
	if err != nil {
		panic(err)
	}
	var in classify.Input
	in.AddText("user", "My attorney says so.")
	var out classify.Result
	err = set.Classify(context.Background(), &in, &out)
	fmt.Println(out.Tags[0].State, out.Tags[1].State)
	fmt.Println(err)
	// Output:
	// present unknown
	// classify: the classifier of "slow" (number 1): no answer within the deadline: context deadline exceeded
}

// Of a conversation only what is new is classified.
func ExampleNewSet() {
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	if err != nil {
		panic(err)
	}
	set, err := classify.NewSet(classify.SetOptions{
		Members:    []classify.Member{{Classifier: scanner}},
		CacheBytes: 1 << 20,
	})
	if err != nil {
		panic(err)
	}
	var in classify.Input
	var out classify.Result
	for _, text := range []string{"Hello!", "My IBAN is DE89 3704 0044 0532 0130 00.", "Thanks."} {
		in.AddText("user", text)
		if err := set.Classify(context.Background(), &in, &out); err != nil {
			panic(err)
		}
		fmt.Println(out.State(classify.TagPII))
	}
	// Output:
	// absent
	// present
	// present
}

// A policy asks about some tags only, and only those are found out.
func ExampleSet_ClassifyTags() {
	set, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{
		{Classifier: new(classify.LengthHeuristic)},
		{Classifier: classify.Func{Produces: []string{"costly"}, Judge: func(context.Context, *classify.Input, *classify.Result) error {
			panic("nobody wants to know")
		}}},
	}})
	if err != nil {
		panic(err)
	}
	var in classify.Input
	in.AddText("user", "What is the capital of France?")
	var out classify.Result
	if err := set.ClassifyTags(context.Background(), []string{classify.TagLowComplexity}, &in, &out); err != nil {
		panic(err)
	}
	fmt.Println(out.State(classify.TagLowComplexity), len(out.Tags))
	// Output: present 2
}

// Long texts can be read up to a bound of one's own. What is beyond it makes tags
// unknown.
func ExampleSet_MaxText() {
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	if err != nil {
		panic(err)
	}
	set, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{{Classifier: scanner}}, MaxText: 100})
	if err != nil {
		panic(err)
	}
	var in classify.Input
	var out classify.Result
	for _, length := range []int{50, 500} {
		body := []byte(`{"prompt":"` + strings.Repeat("la", length/2) + `"}`)
		if err := classify.Extract(&in, prompt.Completions, body, set.MaxText()); err != nil {
			panic(err)
		}
		if err := set.Classify(context.Background(), &in, &out); err != nil {
			panic(err)
		}
		fmt.Println(out.State(classify.TagPII), in.Gaps == classify.GapTruncated)
	}
	// Output:
	// absent false
	// unknown true
}

func ExampleLengthHeuristic() {
	h := &classify.LengthHeuristic{LowTag: "short", HighTag: "long", HighQuestion: 500}
	for _, text := range []string{"What is the capital of France?", strings.Repeat("and then ", 300)} {
		var in classify.Input
		in.AddText("user", text)
		var out classify.Result
		if err := h.Classify(context.Background(), &in, &out); err != nil {
			panic(err)
		}
		fmt.Println(out.State("short"), out.State("long"))
	}
	// Output:
	// present absent
	// absent present
}

func ExampleNewHeader() {
	header := classify.NewHeader("", classify.TagPII)
	for _, trusted := range []http.Header{nil, {classify.HeaderTags: {"pii-detected=absent"}}} {
		in := classify.Input{TrustedHeader: trusted}
		var out classify.Result
		if err := header.Classify(context.Background(), &in, &out); err != nil {
			panic(err)
		}
		fmt.Println(out.State(classify.TagPII))
	}
	// Output:
	// unknown
	// absent
}

// answering stands in for a service.
func answering(body string) (endpoint classify.Endpoint, closeService func()) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `["PERSON","LOCATION"]`)
			return
		}
		_, _ = io.WriteString(w, body)
	}))
	return classify.Endpoint{URL: srv.URL, Client: srv.Client(), Header: http.Header{"Authorization": {"Bearer key"}}}, srv.Close
}

func ExampleNewModeration() {
	service, closeService := answering(`{"results":[{"flagged":true,"categories":{"self-harm":true},"category_scores":{"self-harm":0.97}}]}`)
	defer closeService()
	moderation, err := classify.NewModeration(classify.ModerationOptions{Endpoint: service, Rules: []classify.Rule{
		{Tag: "flagged"},
		{Tag: "self-harm", Labels: []string{"self-harm"}, MinScore: 0.5},
	}})
	if err != nil {
		panic(err)
	}
	var in classify.Input
	in.AddText("user", "...")
	var out classify.Result
	if err := moderation.Classify(context.Background(), &in, &out); err != nil {
		panic(err)
	}
	fmt.Println(out.State("flagged"), out.State("self-harm"))
	// Output: present present
}

func ExampleNewLabels() {
	service, closeService := answering(`{"data":[{"index":0,"label":"code","probs":[0.04,0.96],"num_classes":2}]}`)
	defer closeService()
	labels, err := classify.NewLabels(classify.LabelsOptions{Endpoint: service, Model: "topics", Rules: []classify.Rule{
		{Tag: "coding", Labels: []string{"code", "sql"}, MinScore: 0.7},
	}})
	if err != nil {
		panic(err)
	}
	var in classify.Input
	in.AddText("user", "Why does this loop not end?")
	var out classify.Result
	if err := labels.Classify(context.Background(), &in, &out); err != nil {
		panic(err)
	}
	fmt.Println(out.State("coding"))
	// Output: present
}

func ExampleNewPresidio() {
	service, closeService := answering(`[{"entity_type":"PERSON","start":11,"end":15,"score":0.85}]`)
	defer closeService()
	presidio, err := classify.NewPresidio(classify.PresidioOptions{Endpoint: service, Rules: []classify.Rule{
		{Tag: classify.TagPII, Labels: []string{"PERSON", "LOCATION"}, MinScore: 0.5},
	}})
	if err != nil {
		panic(err)
	}
	var in classify.Input
	in.AddText("user", "My name is Mara.")
	var out classify.Result
	if err := presidio.Classify(context.Background(), &in, &out); err != nil {
		panic(err)
	}
	fmt.Println(out.State(classify.TagPII), out.Findings[0].Kind, out.Findings[0].First)
	// Output: present PERSON [{0 11}]
}
