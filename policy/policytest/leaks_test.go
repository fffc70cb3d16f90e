package policytest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/policytest"
)

func labelled(key, value string) func(*policy.Candidate) bool {
	return func(c *policy.Candidate) bool { return c.Labels[key] == value }
}

func called(name string) func(*policy.Candidate) bool {
	return func(c *policy.Candidate) bool { return c.Name == name }
}

// Leaks of every kind: whatever a policy tells apart, what it forgets is found.
func TestInvariantFindsLeaksOfEveryKind(t *testing.T) {
	t.Parallel()
	const head = "apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\nmetadata: {name: leaky}\nspec:\n  rules:\n"
	any1, provider := policytest.AnyRequest, policytest.IsProvider
	for name, c := range map[string]struct {
		rules    string
		property policytest.Property
	}{
		"every API but one": {
			"  - name: embeddings\n    matches: [{api: embeddings}]\n    route: {select: [{type: Local}]}\n" +
				"  - name: rest\n    route: {select: [{type: Local}, {type: Provider}]}\n",
			policytest.Never(any1, provider),
		},
		"only while several workers are well": {
			"  - name: many\n    matches: [{healthyWorkers: {greaterThan: 2}}]\n    route: {select: [{type: Local}, {type: Provider}]}\n" +
				"  - name: rest\n    route: {select: [{type: Local}]}\n",
			policytest.Never(any1, provider),
		},
		"every provider but the one called provider": {
			"  - name: rest\n    route:\n      exclude: [{name: x, drop: {backend: {name: provider}}}]\n      select: [{type: Local}, {type: Provider}]\n",
			policytest.Never(any1, provider),
		},
		"every worker but the one called worker": {
			"  - name: rest\n    route:\n      exclude: [{name: x, drop: {backend: {name: worker}}}]\n      select: [{type: Local}]\n",
			policytest.Never(any1, policytest.IsLocal),
		},
		"every model but another-model": {
			"  - name: one\n    matches: [{model: another-model}]\n    route: {select: [{type: Local}]}\n" +
				"  - name: rest\n    route: {select: [{type: Provider}]}\n",
			policytest.Never(any1, provider),
		},
		"a header with any value but those of a prefix": {
			"  - name: one\n    matches: [{header: {name: X-Tier, prefix: o}}, {header: {name: X-Tier, absent: true}}]\n    route: {select: [{type: Local}]}\n" +
				"  - name: rest\n    route: {select: [{type: Provider}]}\n",
			policytest.Never(any1, provider),
		},
		"an unknown tag": {
			"  - name: rest\n    route:\n      exclude: [{name: x, if: {tag: pii, onUnknown: Absent}, drop: {backend: {type: Provider}}}]\n",
			policytest.Never(policytest.MayBe("pii"), provider),
		},
		"a tag that it does not mention": {
			"  - name: rest\n    route: {select: [{type: Local}, {type: Provider}]}\n",
			policytest.Never(policytest.MayBe("pii"), provider),
		},
		"a price that nobody knows": {
			"  - name: rest\n    route:\n      exclude: [{name: poor, drop: {remainingQuota: {lessThan: 0.1}}}]\n",
			policytest.Never(any1, func(c *policy.Candidate) bool { return provider(c) && (!c.QuotaKnown || c.RemainingQuota < 0.1) }),
		},
		"a pool that it is not about": {
			"  - name: rest\n    route: {exclude: [{name: all, drop: {backend: {type: Local}}}]}\n  pools: [prod]\n",
			policytest.Never(any1, policytest.IsLocal),
		},
		"a long prompt": {
			"  - name: long\n    matches: [{promptTokens: {greaterThan: 8000}}]\n    route: {select: [{type: Provider}]}\n" +
				"  - name: rest\n    route: {select: [{type: Local}]}\n",
			policytest.Never(any1, provider),
		},
		"the share of a split that few get": {
			"  - name: split\n    route: {select: [{weighted: [{name: old, weight: 99}, {name: new, weight: 1}]}]}\n",
			policytest.Never(any1, called("new")),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := policy.Load("p", []byte(head+c.rules), policy.Options{})
			require.NoError(t, err)
			said := failures(t, func(tb *recording) { policytest.New(set).Invariant(tb, policytest.Space{}, c.property) })
			require.Contains(t, said, "smallest counterexample")
		})
	}
}

// A property that nothing concerns of all that was tried has not been tested.
func TestInvariantIsNotVacuous(t *testing.T) {
	t.Parallel()
	tight := policytest.Load(t, "testdata/tight.yaml")
	gold := policytest.Of("gold")
	for _, property := range []policytest.Property{
		policytest.Never(gold, policytest.IsProvider),
		policytest.Always(gold, policytest.IsLocal),
		policytest.Never(policytest.AnyRequest, labelled("zone", "abroad")),
	} {
		said := failures(t, func(tb *recording) { tight.Invariant(tb, policytest.Space{}, property) })
		require.Contains(t, said, "Space.Requests")
		require.Equal(t, 1, strings.Count(said, "policytest:"))
	}
	// Given one, it is found.
	space := policytest.Space{Requests: []policy.Request{{Model: "m", API: "chat", Tenant: "gold", Tags: []policy.Tag{policytest.Absent("pii-detected")}}}}
	said := failures(t, func(tb *recording) {
		tight.Invariant(tb, space, policytest.Never(gold, policytest.IsProvider))
	})
	require.Contains(t, said, "request 0 of the Space")
}
