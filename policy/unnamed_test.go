package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// What has no name is told apart all the same.
func TestUnnamedRulesAndPolicies(t *testing.T) {
	t.Parallel()
	tenants := func(names ...string) []policy.Match {
		var list []policy.Match
		for _, name := range names {
			list = append(list, policy.Match{Tenant: []string{name}})
		}
		return list
	}
	set, err := policy.Compile(policy.Options{},
		&policy.Spec{Priority: 1, Rules: []policy.Rule{{Matches: tenants("a")}, {Matches: tenants("b", "c")}}},
		&policy.Spec{Rules: []policy.Rule{{Matches: tenants("d")}, {Matches: tenants("e", "f", "g")}}},
	)
	require.NoError(t, err)
	v := ask(set, policy.Request{Model: "glm", Tenant: "c"}, worker("w", "glm", 1))
	require.Equal(t, "rules[1]", v.Rule)
	require.Contains(t, v.text, "rules[0]", "which was passed")
	v = ask(set, policy.Request{Model: "glm", Tenant: "g"}, worker("w", "glm", 1))
	require.Equal(t, "rules[1]", v.Rule)
	require.Equal(t, 2, v.Match)
	require.Contains(t, v.text, "tenant g")
}
