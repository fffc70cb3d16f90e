package policy_test

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

// What is built in Go is checked as what is read from a file is.
func TestCompileRefusesWhatCheckFinds(t *testing.T) {
	t.Parallel()
	rule := func(r policy.Route) *policy.Spec {
		return &policy.Spec{Name: "p", Rules: []policy.Rule{{Name: "r", Route: r}}}
	}
	matching := func(m policy.Match) *policy.Spec {
		return &policy.Spec{Name: "p", Rules: []policy.Rule{{Name: "r", Matches: []policy.Match{m}}}}
	}
	stage := func(s policy.Stage) *policy.Spec { return rule(policy.Route{Select: []policy.Stage{s}}) }
	empty := func(e policy.OnEmpty) *policy.Spec { return rule(policy.Route{OnEmpty: e}) }
	drop := func(f policy.Filter) *policy.Spec {
		return rule(policy.Route{Exclude: []policy.Exclusion{{Name: "x", Drop: f}}})
	}
	cases := map[string]struct {
		spec *policy.Spec
		code string
	}{
		"mode":      {&policy.Spec{Name: "p", Mode: 9, Rules: []policy.Rule{{Name: "r"}}}, policy.CodeInvalidValue},
		"priority":  {&policy.Spec{Name: "p", Priority: math.MaxInt32, Rules: []policy.Rule{{Name: "r"}}}, policy.CodeInvalidValue},
		"pool":      {&policy.Spec{Name: "p", Pools: []string{""}, Rules: []policy.Rule{{Name: "r"}}}, policy.CodeEmptyName},
		"api":       {matching(policy.Match{API: []string{"chats"}}), policy.CodeUnknownValue},
		"nan":       {matching(policy.Match{PromptTokens: policy.GreaterThan(math.NaN())}), policy.CodeInvalidValue},
		"infinite":  {matching(policy.Match{PromptTokens: policy.LessThan(math.Inf(1))}), policy.CodeInvalidValue},
		"share":     {matching(policy.Match{KVCacheUsage: policy.GreaterThan(70)}), policy.CodeInvalidValue},
		"range":     {matching(policy.Match{QueuedPrompts: policy.Between(3, 4)}), policy.CodeEmptyRange},
		"unknown":   {matching(policy.Match{Tag: []string{"x"}, OnUnknown: 7}), policy.CodeInvalidValue},
		"header":    {matching(policy.Match{Header: []policy.HeaderMatch{{}}}), policy.CodeInvalidValue},
		"consider":  {rule(policy.Route{Consider: []policy.Consider{{}}}), policy.CodeEmptyConsider},
		"none":      {rule(policy.Route{Consider: []policy.Consider{}}), policy.CodeEmptyConsider},
		"labels":    {rule(policy.Route{Consider: []policy.Consider{{ModelLabels: map[string]string{"a": "b"}}}}), policy.CodeUnknownLabels},
		"type":      {stage(policy.Stage{Type: 5}), policy.CodeInvalidValue},
		"metric":    {stage(policy.Stage{Minimize: 50}), policy.CodeInvalidValue},
		"order":     {stage(policy.Stage{Order: []string{"a", "a"}}), policy.CodeDuplicateInOrder},
		"weights":   {stage(policy.Stage{Weighted: []policy.Share{{Name: "a"}, {Name: "b"}}}), policy.CodeInvalidValue},
		"margin":    {stage(policy.Stage{SwitchOnlyIf: &policy.Margin{}}), policy.CodeInvalidValue},
		"negative":  {stage(policy.Stage{SwitchOnlyIf: &policy.Margin{By: -time.Second}}), policy.CodeInvalidValue},
		"action":    {empty(policy.OnEmpty{Action: 8}), policy.CodeInvalidValue},
		"wait":      {empty(policy.OnEmpty{Action: policy.Wait}), policy.CodeInvalidValue},
		"wait long": {empty(policy.OnEmpty{Action: policy.Wait, UpTo: 2 * time.Hour}), policy.CodeInvalidValue},
		"status":    {empty(policy.OnEmpty{Status: 200}), policy.CodeInvalidValue},
		"drop type": {drop(policy.Filter{Type: 4}), policy.CodeInvalidValue},
		"trust":     {drop(policy.Filter{Trust: []string{"exactly"}}), policy.CodeUnknownValue},
		"quota":     {drop(policy.Filter{Type: policy.LocalOnly, RemainingQuota: policy.LessThan(0.5)}), policy.CodeContradiction},
		"rules":     {&policy.Spec{Name: "p", Rules: []policy.Rule{{Name: "r"}, {Name: "r"}}}, policy.CodeDuplicateRule},
		"reach":     {&policy.Spec{Name: "p", Rules: []policy.Rule{{Name: "r"}, {Name: "s"}}}, policy.CodeUnreachableRule},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, err := policy.Compile(policy.Options{}, c.spec)
			require.Nil(t, set)
			var refused *policy.CheckError
			require.ErrorAs(t, err, &refused)
			var codes []string
			for _, f := range refused.Findings {
				codes = append(codes, f.Code)
				require.Zero(t, f.Line)
				require.Equal(t, "p", f.Policy)
				require.Equal(t, policy.SeverityError, f.Severity)
			}
			require.Contains(t, codes, c.code)
			require.ErrorContains(t, err, "error: policy p: spec.")
		})
	}
}

// What the caller of Compile knows of models counts.
func TestCompileKnowsLabelsOfModels(t *testing.T) {
	t.Parallel()
	spec := &policy.Spec{Name: "p", Rules: []policy.Rule{{Name: "r", Route: policy.Route{
		Consider: []policy.Consider{{ModelLabels: map[string]string{"family": "qwen"}}},
	}}}}
	_, err := policy.Compile(policy.Options{}, spec)
	require.ErrorContains(t, err, policy.CodeUnknownLabels)
	_, err = policy.Compile(policy.Options{Models: []policy.ModelLabels{{Name: "m", Labels: map[string]string{"family": "qwen"}}}}, spec)
	require.NoError(t, err)
}

func policyText(name, more, rules string) string {
	return "apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\nmetadata: {name: " + name + "}\nspec:\n" + more + "  rules:\n" + rules
}

func codesOf(findings []policy.Finding) []string {
	codes := []string{}
	for _, f := range findings {
		codes = append(codes, f.File+" "+f.Code)
	}
	return codes
}

// Policies of one set overrule each other; those that are only checked together don't.
func TestCheckTogether(t *testing.T) {
	t.Parallel()
	const all = "  - {name: all, route: {}}\n"
	const chat = "  - {name: chat, matches: [{model: chat}], route: {}}\n"
	cases := map[string]struct {
		texts []string // of files a, b, c
		want  []string
	}{
		"the first takes all":    {[]string{policyText("a", "", all), policyText("b", "", chat)}, []string{"b unreachable-rule"}},
		"priority":               {[]string{policyText("a", "", all), policyText("b", "  priority: 1\n", chat)}, []string{}},
		"pool of its own":        {[]string{policyText("a", "  pools: [x]\n", all), policyText("b", "", chat)}, []string{}},
		"pools that are in it":   {[]string{policyText("a", "  pools: [x, y]\n", all), policyText("b", "  pools: y\n", chat)}, []string{"b unreachable-rule"}},
		"pools together":         {[]string{policyText("a", "  pools: [x]\n", all), policyText("b", "  pools: [y]\n", all), policyText("c", "  pools: [x, y]\n", chat)}, []string{"c unreachable-rule"}},
		"shadows decide nothing": {[]string{policyText("a", "  mode: Shadow\n", all), policyText("b", "", chat)}, []string{}},
		"shadow":                 {[]string{policyText("a", "", all), policyText("b", "  mode: Shadow\n", chat)}, []string{}},
		"next rule":              {[]string{policyText("a", "", "  - {name: all, route: {onEmpty: NextRule}}\n"), policyText("b", "", chat)}, []string{"a next-rule-at-the-end"}},
		"one name":               {[]string{policyText("a", "  pools: x\n", all), policyText("a", "  pools: y\n", chat)}, []string{"b duplicate-policy"}},
		"said once":              {[]string{policyText("a", "", chat), policyText("b", "", all+chat)}, []string{"b unreachable-rule"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var files []*policy.File
			for i, text := range c.texts {
				file, findings := policy.Parse(string(rune('a'+i)), []byte(text))
				require.Empty(t, findings)
				files = append(files, file)
			}
			together := codesOf(policy.Check(files, policy.CheckOptions{Together: true}))
			require.ElementsMatch(t, c.want, together)
			apart := codesOf(policy.Check(files, policy.CheckOptions{}))
			require.Subset(t, c.want, apart)
		})
	}
}

func TestCheckOptionsDefineNames(t *testing.T) {
	t.Parallel()
	file, findings := policy.Parse("f", []byte(policyText("a", "  pools: [x]\n", "  - name: r\n    route:\n      select:\n"+
		"      - {type: Local, order: [w]}\n      - {type: Provider, order: [p]}\n")))
	require.Empty(t, findings)
	files := []*policy.File{file}
	require.Empty(t, policy.Check(files, policy.CheckOptions{}))
	require.Empty(t, policy.Check(files, policy.CheckOptions{Pools: []string{"x"}, Workers: []string{"w"}, Providers: []string{"p"}}))
	require.Equal(t, []string{"f unknown-name", "f unknown-name", "f unknown-name"},
		codesOf(policy.Check(files, policy.CheckOptions{Pools: []string{}, Workers: []string{"v"}, Providers: []string{"q"}})))
}

// The examples that ship with the library have nothing wrong with them, each by itself.
func TestShippedPoliciesAreClean(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob(filepath.FromSlash("../examples/policies/*.yaml"))
	require.NoError(t, err)
	for _, name := range names {
		_, findings := checkFile(t, name)
		require.Empty(t, findings, name)
	}
}
