package policies

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	"github.com/kvsteer/kvsteer/policy/policytest"
)

var update = flag.Bool("update", false, "write the golden files")

// builtin are the tags that the built-in classifiers produce.
var builtin = []string{classify.TagPII, classify.TagSecrets, classify.TagLowComplexity, classify.TagHighComplexity}

// Each policy does what it says of itself, no part of it is untested, and it explains
// itself as testdata has it.
func TestPolicies(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("*.yaml")
	require.NoError(t, err)
	require.Len(t, paths, 10)
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			f, findings := policy.Parse(path, data)
			findings = append(findings, policy.Check([]*policy.File{f}, policy.CheckOptions{Tags: builtin})...)
			require.Empty(t, findings)
			require.Len(t, f.Specs, 1)
			require.Equal(t, strings.TrimSuffix(path, ".yaml"), f.Specs[0].Name)

			cases, err := casesOf(string(data))
			require.NoError(t, err)
			kit := policytest.Load(t, path)
			for _, problem := range wrong(kit, cases) {
				t.Error(problem)
			}
			kit.RequireCovered(t)
			var words strings.Builder
			for i := range cases {
				words.WriteString("#> " + cases[i].line + "\n" + kit.Evaluate(cases[i].request, cases[i].candidates...).String() + "\n")
			}
			golden(t, filepath.Join("testdata", f.Specs[0].Name+".txt"), words.String())
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), got, "if that is meant: go test ./examples/policies -update")
}

// What must never happen holds over everything that the policies tell apart.
func TestInvariants(t *testing.T) {
	t.Parallel()
	policytest.Load(t, "private-stays-here.yaml").Invariant(t, policytest.Space{},
		policytest.Never(policytest.MayBe(classify.TagPII), policytest.IsProvider))
	policytest.Load(t, "regional-residency.yaml").Invariant(t, policytest.Space{},
		policytest.Never(policytest.Of("gemeinde"), func(c *policy.Candidate) bool {
			return c.Type == policy.Local && c.Labels["region"] != "eu" || c.Type == policy.Provider && c.Name != "cloud-eu"
		}))
	policytest.Load(t, "cost-cap.yaml").Invariant(t, policytest.Space{},
		policytest.Never(policytest.AnyRequest, func(c *policy.Candidate) bool {
			return c.Type == policy.Provider && !(c.PriceKnown && c.Price <= 0.02)
		}))
}

// A case that does not hold is found.
func TestWrongCasesAreFound(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"#> qos=batch | gpu-0 => gpu-0; rule batch":            0,
		"#> qos=batch | gpu-0 => gpu-1":                        1,
		"#> qos=batch | gpu-0 => gpu-0; rule other":            1,
		"#> qos=batch | gpu-0 => gpu-0; model other":           1,
		"#> qos=batch | gpu-0 kv=71% => reject":                1,
		"#> qos=batch | gpu-0 kv=71% => wait 30s; shadow same": 1,
	} {
		cases, err := casesOf(line)
		require.NoError(t, err)
		assert.Len(t, wrong(policytest.Load(t, "batch-leaves-room.yaml"), cases), want, line)
	}
	for _, line := range []string{"#> a", "#> colour=red | => reject", "#> | gpu-0 red => reject", "#> | =>", "#> | gpu-0 => gpu-0; colour red"} {
		_, err := casesOf(line)
		require.Error(t, err, line)
	}
}
