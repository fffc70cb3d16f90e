package kvsteer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
)

// reserved keeps workers labelled "reserved" for one model, and else does what
// the default does.
type reserved struct {
	policy.Default

	model string
}

func (p reserved) Evaluate(req *policy.Request, candidates []policy.Candidate, plan *policy.Plan) {
	p.Default.Evaluate(req, candidates, plan)
	plan.Rule = "reserved workers"
	if req.Model == p.model {
		return
	}
	plan.Order = slices.DeleteFunc(plan.Order, func(i int) bool {
		if candidates[i].Labels["pool"] != "reserved" {
			return false
		}
		plan.Dropped = append(plan.Dropped, policy.Drop{Index: i, Rule: plan.Rule, Condition: "reserved for " + p.model})
		return true
	})
}

// A policy of your own orders candidates, from plain numbers. It must not keep or
// change what it is given.
func ExampleWithPolicy() {
	engine := startEngine()
	defer engine.Close()
	router, workers := startRouter(engine, kvsteer.WithPolicy(reserved{model: "qwen3-coder"}))
	defer workers.Close()
	defer router.Close()

	d, err := router.Explain(context.Background(), chat("Hi"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.Winner().Name, "by rule", d.Rule)
	// Output: gpu-0 by rule reserved workers
}

// letters is a tokenizer of your own: here each byte is a token.
type letters struct{}

func (letters) Kind() prompt.SourceKind { return prompt.SourceLocal }

func (letters) Encode(_ context.Context, r *prompt.Request) (prompt.Encoding, error) {
	text, ok := r.Object.Value("prompt").Str()
	if r.API != prompt.Completions || !ok {
		// The next source is asked. The phrase is shown in decisions.
		return prompt.Encoding{}, prompt.ReasonError("only completions of one text")
	}
	ids := make([]uint32, len(text))
	for i := range len(text) {
		ids[i] = uint32(text[i])
	}
	return prompt.Encoding{Source: prompt.SourceLocal, Tokens: ids, Count: len(ids)}, nil
}

// A source of your own says which token ids a prompt has. They must be the
// engine's, or nothing will match.
func ExampleWithEncoder() {
	engine := startEngine()
	defer engine.Close()
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{letters{}}})
	defer encoder.Close()
	router, workers := startRouter(engine, kvsteer.WithEncoder(encoder))
	defer workers.Close()
	defer router.Close()

	d, err := router.Explain(context.Background(), &kvsteer.Request{
		API: kvsteer.Completions, Body: []byte(`{"model":"qwen3","prompt":"Once upon a time"}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.PromptTokens, "tokens from", d.TokenSource)
	// Output: 16 tokens from local
}

// With a queue, requests wait in the router while workers are busy, and are placed
// when one is free. What they are waits with them: here the second is urgent.
func ExampleWithQueue() {
	engine := startEngine()
	defer engine.Close()
	router, workers := startRouter(engine, kvsteer.WithQueue(kvsteer.QueueOptions{MaxWait: 20 * time.Millisecond}))
	defer workers.Close()
	defer router.Close()

	first, err := router.Select(context.Background(), &kvsteer.Request{
		API: kvsteer.Completions, Body: []byte(`{"model":"qwen3","prompt":"Once upon a time","stream":true}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	urgent := chat("Hi")
	urgent.Priority, urgent.Tenant = -1, "front desk"
	_, err = router.Select(context.Background(), urgent) // nobody is free in time
	var refused *kvsteer.Error
	if errors.As(err, &refused) {
		fmt.Println(refused.Code, "- tells when to try again:", refused.RetryAfter > 0)
	}
	first.Done(kvsteer.Usage{})
	// Output: saturated - tells when to try again: true
}

// With workers of both roles, a request may have its prompt computed by one and be
// answered by another. A Transport does this by itself; by hand it goes so.
func ExampleSelection_Prefill() {
	prefill, decode := startEngine(), startEngine()
	defer prefill.Close()
	defer decode.Close()
	workers, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(
			fleet.Worker{Name: "prefill-0", URL: prefill.URL, Models: []string{"qwen3"}, Role: fleet.RolePrefill},
			fleet.Worker{Name: "decode-0", URL: decode.URL, Models: []string{"qwen3"}, Role: fleet.RoleDecode},
		),
		ScrapeInterval: -1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer workers.Close()
	for workers.Snapshot().Routable() < 2 {
		time.Sleep(time.Millisecond)
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer router.Close()

	sel, err := router.Select(context.Background(), chat("Hi"))
	if err != nil {
		fmt.Println(err)
		return
	}
	if where, body, apart := sel.Prefill(); apart {
		answer := post(where, body) // to where.URL
		if err := sel.Prefilled(answer); err != nil {
			sel.Abort(err) // or sel.Next, to try others
			return
		}
	}
	// Nobody else needs the worker, and the prompt is short: it is as well computed
	// where the answer is generated.
	fmt.Println(sel.Target().Worker, "serves", len(sel.Body()), "bytes")
	sel.Done(kvsteer.Usage{})
	// Output: decode-0 serves 61 bytes
}

// post sends a request and returns the whole answer.
func post(to kvsteer.Target, body []byte) []byte {
	resp, err := http.Post(to.URL.String()+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil
	}
	return answer
}
