package policy_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/internal/cputime"
	"github.com/kvsteer/kvsteer/policy"
)

// FuzzParse reads, checks, compiles and evaluates whatever comes: nothing panics or
// takes long, what Check has no errors about compiles, and no excluded candidate is in
// a plan.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/check/*.yaml", "testdata/schema/*.yaml", "testdata/golden/*.yaml", "../examples/policies/*.yaml"} {
		names, err := filepath.Glob(filepath.FromSlash(pattern))
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("- &a [*a]"))
	f.Add([]byte("%YAML 1.1\n---\nkind: InferencePolicy\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		began := cputime.Process()
		file, findings := policy.Parse("f", data)
		findings = append(findings, policy.Check([]*policy.File{file}, policy.CheckOptions{Models: []policy.ModelLabels{}})...)
		for _, x := range findings {
			if x.String() == "" || x.Code == "" || x.Message == "" || x.File != "f" {
				t.Fatalf("an empty finding: %+v", x)
			}
		}
		set, err := policy.Load("f", data, policy.Options{})
		if failed(findings) != (err != nil) && len(file.Specs) > 0 {
			t.Fatalf("the findings are %v, Load says %v", findings, err)
		}
		if err == nil {
			evaluate(t, set)
		}
		const most = 10 * time.Second
		if took := cputime.Process() - began; took > most {
			t.Fatalf("it took %v", took)
		}
	})
}

// evaluate asks the set about a few requests.
func evaluate(t *testing.T, set *policy.Set) {
	t.Helper()
	candidates := []policy.Candidate{
		{Name: "gpu-0", Model: "chat", PredictedTTFT: time.Second, KVUsage: 0.8, Queued: 3, Labels: map[string]string{"region": "eu"}},
		{Name: "gpu-1", Model: "large", PredictedTTFT: 2 * time.Second, Queued: 9},
		{Name: "cloud-a", Type: policy.Provider, Model: "chat", PriceKnown: true, Price: 0.01, QuotaKnown: true, RemainingQuota: 0.5},
		{Name: "cloud-b", Type: policy.Provider, Model: "large"},
	}
	var plan policy.Plan
	for _, model := range []string{"chat", "large", ""} {
		for _, tags := range [][]policy.Tag{nil, {{Name: "pii", State: policy.TagPresent}, {Name: "secret", State: policy.TagAbsent}}} {
			req := policy.Request{Model: model, Tags: tags, PromptTokens: 1000, API: "chat", Draw: 7, Tenant: "acme"}
			set.Evaluate(&req, candidates, &plan)
			placed := slices.Clone(plan.Order)
			for _, d := range plan.Dropped {
				placed = append(placed, d.Index)
			}
			slices.Sort(placed)
			if !slices.Equal(placed, []int{0, 1, 2, 3}) {
				t.Fatalf("order %v and dropped %v are not all candidates", plan.Order, plan.Dropped)
			}
			if policy.Explain(set, &req, candidates, &plan).String() == "" {
				t.Fatal("nothing is explained")
			}
		}
	}
}
