package prompt_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// oneToken stands for a source that computes ids from a model's files, such as
// that of package local.
type oneToken struct{}

func (oneToken) Kind() prompt.SourceKind { return prompt.SourceLocal }

func (oneToken) Assets(string) string { return "hash of the files" }

func (oneToken) Encode(context.Context, *prompt.Request) (prompt.Encoding, error) {
	return prompt.Encoding{Source: prompt.SourceLocal, Tokens: []uint32{42}, Count: 1}, nil
}

// A Prover lets a local source serve when the engine has confirmed its ids. A
// router tells it which engines there are; here it is done by hand.
func ExampleNewProver() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/completions/render" {
			_, _ = fmt.Fprint(w, `[{"token_ids":[42,7]}]`) // it ends a prompt of this kind in its own way
			return
		}
		_, _ = fmt.Fprint(w, `{"token_ids":[42]}`)
	}))
	defer engine.Close()

	reports := make(chan *prompt.ProofReport, 1)
	prover := prompt.NewProver(oneToken{}, prompt.ProverOptions{
		OnReport: func(r *prompt.ProofReport) { reports <- r },
	})
	defer func() { _ = prover.Close() }()
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{prover}, Deadline: 5 * time.Second})
	defer func() { _ = encoder.Close() }()

	worker := prompt.Engine{ID: "worker-1", BaseURL: engine.URL}
	encoder.Prover().Join(worker, []string{"qwen3"})
	fmt.Println(<-reports)

	encoding, err := encoder.Encode(context.Background(), &prompt.Request{
		API: prompt.Completions, Model: "qwen3", Body: []byte(`{"prompt":"hi"}`), Engine: worker,
	})
	fmt.Println(encoding.Source, encoding.Tokens, encoding.Degraded[0].Reason, err)
	// Output:
	// local token ids of model "qwen3" on worker-1: proof failed: probe "completion, text": token 1 is the end here (of 1), 7 in the engine (of 2)
	// render [42 7] ids differ from the engine's <nil>
}

// An Auditor compares what prompts were taken for with what engines report. The
// router does so for each request that it forwards.
func ExampleNewAuditor() {
	auditor := prompt.NewAuditor(prompt.AuditOptions{Window: 10, Mismatches: 2})
	encoding := prompt.Encoding{Source: prompt.SourceLocal, Tokens: []uint32{1, 2, 3}, Count: 3}
	for _, reported := range []int{3, 4, 3, 4} {
		m := auditor.Observe(&prompt.Observation{Engine: "worker-1", Model: "qwen3", Encoding: &encoding, PromptTokens: reported})
		if m != nil {
			fmt.Println(m, m.Tipped)
		}
	}
	// Output:
	// a prompt of 3 tokens by source local had 4 in the engine (1 of the last 2 requests) false
	// a prompt of 3 tokens by source local had 4 in the engine (2 of the last 4 requests) true
}
