package policy_test

import (
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/policy"
)

// A policy may be built in Go: the compiled form is the same as that of a file.
func ExampleCompile() {
	set, err := policy.Compile(policy.Options{}, &policy.Spec{
		Name: "burst",
		Rules: []policy.Rule{{
			Name: "local-then-cloud",
			Route: policy.Route{
				Exclude: []policy.Exclusion{{
					Name: "long-queues",
					Drop: policy.Filter{Type: policy.LocalOnly, QueuedPrompts: policy.GreaterThan(2)},
				}},
				Select: []policy.Stage{{Type: policy.LocalOnly}, {Type: policy.ProviderOnly, Order: []string{"cloud"}}},
			},
		}},
	})
	if err != nil {
		fmt.Println(err) // all that is wrong, one a line
		return
	}
	candidates := []policy.Candidate{
		{Name: "gpu-0", Model: "qwen3", Queued: 5, PredictedTTFT: 90 * time.Millisecond},
		{Name: "cloud", Model: "qwen3", Type: policy.Provider, PredictedTTFT: 700 * time.Millisecond},
	}
	var plan policy.Plan
	set.Evaluate(&policy.Request{Model: "qwen3", Attempt: 1}, candidates, &plan)
	fmt.Println(plan.Rule, "sends it to", candidates[plan.Order[0]].Name)
	fmt.Println(candidates[plan.Dropped[0].Index].Name, "is dropped by", plan.Dropped[0].Condition)
	// Output:
	// local-then-cloud sends it to cloud
	// gpu-0 is dropped by long-queues: type Local, queuedPrompts > 2
}

func ExampleExplain() {
	set, err := policy.Compile(policy.Options{}, &policy.Spec{
		Name: "small-talk",
		Rules: []policy.Rule{{
			Name:    "small-model",
			Matches: []policy.Match{{Tag: []string{"smalltalk"}}},
			Route:   policy.Route{Consider: []policy.Consider{{Models: []string{"mini"}}}},
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	req := policy.Request{
		Model: "large", API: "chat", PromptTokens: 40, Attempt: 1, Tags: []policy.Tag{{Name: "smalltalk", State: policy.TagPresent}},
	}
	candidates := []policy.Candidate{
		{Name: "cloud-a", Model: "mini", Type: policy.Provider, PredictedTTFT: 300 * time.Millisecond},
		{Name: "cloud-b", Model: "large", Type: policy.Provider, PredictedTTFT: 200 * time.Millisecond},
	}
	var plan policy.Plan
	set.Evaluate(&req, candidates, &plan)
	fmt.Print(policy.Explain(set, &req, candidates, &plan))
	// Output:
	// rule small-model of policy small-talk, by matches[0]: tag smalltalk (version c4d26f509c44545b)
	// request: model "large", chat, 40 prompt tokens, tag smalltalk present
	// select[0] (minimize PredictedTTFT): decides, with 1
	//   1. cloud-a (Provider, model "mini"): predicted TTFT 300ms
	//   -  cloud-b (Provider, model "large"): predicted TTFT 200ms; dropped: not considered; considered are models mini
	// chosen: cloud-a (Provider, model "mini"), the request's model is rewritten from "large" to "mini"; if nothing were left: Reject
}
