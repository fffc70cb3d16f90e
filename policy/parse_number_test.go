package policy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// Numbers are decimal. Programs differ about what else a zero in front means.
func TestNumbersAreDecimal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"10": 10, "010": 10, "-3": -3, "1e3": 1000, "0.5": 0.5, "1_000": 1000} {
		f, findings := policy.Parse("p.yaml", fmt.Appendf(nil, `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: p}
spec: {rules: [{name: r, matches: [{promptTokens: {greaterThan: %s}}], route: {onEmpty: Reject}}]}
`, text))
		require.Empty(t, findings, text)
		require.InDelta(t, want, *f.Specs[0].Rules[0].Matches[0].PromptTokens.GreaterThan, 0, text)
	}
	for _, text := range []string{"0x10", "0o10", "0b1", ".inf", "ten"} {
		_, findings := policy.Parse("p.yaml", fmt.Appendf(nil, `
apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: p}
spec: {rules: [{name: r, matches: [{promptTokens: {greaterThan: %s}}], route: {onEmpty: Reject}}]}
`, text))
		require.NotEmpty(t, findings, text)
		require.Equal(t, policy.CodeWrongType, findings[0].Code, text)
	}
}
