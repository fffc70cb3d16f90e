package policytest

import (
	"flag"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/policytest"
)

var update = flag.Bool("update", false, "write the golden files")

func TestPolicy(t *testing.T) {
	kit := policytest.Load(t, "policy.yaml")

	idle := policytest.Worker("gpu-0", "qwen3")
	slow := policytest.Worker("gpu-1", "qwen3", policytest.TTFT(2*time.Second))
	busy := policytest.Worker("gpu-2", "qwen3", policytest.Queued(3))
	full := policytest.Worker("gpu-3", "qwen3", policytest.KVUsage(0.9))
	cloudA, cloudB := policytest.Provider("cloud-a", "qwen3"), policytest.Provider("cloud-b", "qwen3")

	clean := policy.Request{Model: "qwen3", API: "chat", Tags: []policy.Tag{policytest.Absent("pii-detected")}}
	personal := policy.Request{Model: "qwen3", API: "chat", Tags: []policy.Tag{policytest.Present("pii-detected")}}
	unread := policy.Request{Model: "qwen3", API: "chat", Tags: []policy.Tag{policytest.Unknown("pii-detected")}}
	batch := policy.Request{Model: "qwen3", API: "chat", QoS: "batch"}

	// A table: what is asked, who is there, what must come of it.
	kit.Run(t,
		policytest.Case{
			Name: "the fastest worker first, the cloud last", Request: clean,
			Candidates: []policy.Candidate{cloudB, slow, cloudA, idle},
			Rule:       "serve", Order: []string{"gpu-0", "gpu-1", "cloud-a", "cloud-b"},
		},
		policytest.Case{
			Name: "to the cloud when workers are busy", Request: clean,
			Candidates: []policy.Candidate{busy, cloudB, cloudA},
			First:      "cloud-a", Dropped: map[string]string{"gpu-2": "busy"},
		},
		policytest.Case{
			Name: "personal data waits for nobody else", Request: personal,
			Candidates: []policy.Candidate{busy, cloudA},
			Rejected:   true, Dropped: map[string]string{"cloud-a": "private-stays"},
		},
		policytest.Case{
			Name: "what nobody could read counts as personal", Request: unread,
			Candidates: []policy.Candidate{idle, cloudA},
			Order:      []string{"gpu-0"},
		},
		policytest.Case{
			Name: "batch work leaves room", Request: batch,
			Candidates: []policy.Candidate{full, slow},
			Order:      []string{"gpu-1"}, Dropped: map[string]string{"gpu-3": "leave-room"},
		},
		policytest.Case{
			Name: "batch work waits", Request: batch,
			Candidates: []policy.Candidate{full, cloudA},
			Rejected:   true,
		},
	)

	// No rule, exclusion or stage without a test.
	kit.RequireCovered(t)

	// Over everything that the policy tells apart: personal data, or what may be,
	// never reaches a provider, whoever asks and however many attempts fail.
	kit.Invariant(t, policytest.Space{}, policytest.Never(policytest.MayBe("pii-detected"), policytest.IsProvider))

	// Why a request went where it did, word by word.
	kit.Golden(t, "testdata/burst", *update, kit.Evaluate(clean, busy, cloudB, cloudA))
}

// FuzzPolicy looks for what nobody thought of: go test -fuzz FuzzPolicy.
func FuzzPolicy(f *testing.F) {
	policytest.Load(f, "policy.yaml").Fuzz(f, policytest.Never(policytest.MayBe("pii-detected"), policytest.IsProvider))
}
