package policy_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/cputime"
	"github.com/kvsteer/kvsteer/policy"
)

const head = "apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\nmetadata: {name: p}\n"

// fill repeats an entry until the file is as long as it may be.
func fill(before, entry, after string) string {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; ; i++ {
		next := strings.ReplaceAll(entry, "#", strconv.Itoa(i))
		if b.Len()+len(next)+len(after) > fullSize {
			return b.String() + after
		}
		b.WriteString(next)
	}
}

// Files that are made to take long, or much memory, are refused or read within bounds.
func TestHostileFilesAreBounded(t *testing.T) {
	laughs := "a0: &a0 [x]\n"
	for i := range 40 {
		laughs += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	merges := "m0: &m0 {x: y}\n"
	for i := range 40 {
		merges += fmt.Sprintf("m%d: &m%d {<<: [*m%d, *m%d], name: a}\n", i+1, i+1, i, i)
	}
	rules := head + "spec:\n  rules:\n"
	shared := rules + "  - {name: a, matches: &m [" + strings.Repeat("{model: x},", 5000) + "], route: {}}\n"
	asked := head + "spec:\n  models:\n"
	for i := 0; len(asked) < fullSize/2; i++ {
		asked += fmt.Sprintf("  - {name: m%d, labels: {a: b}}\n", i)
	}
	asked += "  rules:\n  - name: a\n    route:\n      consider:\n"
	cases := map[string]struct {
		text, code string
	}{
		"10 MB":          {strings.Repeat("#", 10<<20), policy.CodeFileTooLarge},
		"billion laughs": {laughs + head + "spec: *a40\n", policy.CodeWrongType},
		"merges":         {merges + head + "spec:\n  <<: *m40\n", policy.CodeTooComplex},
		"self reference": {head + "spec: {rules: &a [*a]}\n", policy.CodeWrongType},
		"self merge":     {head + "spec: &a {<<: *a, rules: []}\n", policy.CodeTooComplex},
		"deep":           {strings.Repeat("[", policy.MaxFileBytes), policy.CodeSyntax},
		"deep mapping":   {strings.Repeat("{a: ", 200_000), policy.CodeSyntax},
		"deep block":     {strings.Repeat("- ", 400_000), policy.CodeSyntax},
		"deep keys":      {strings.Repeat("? ", 400_000), policy.CodeSyntax},
		"shared list":    {fill(shared, "  - {name: b#, matches: *m, route: {}}\n", ""), policy.CodeUnreachableMatch},
		"documents":      {strings.Repeat("---\na: b\n", 100_000), policy.CodeTooComplex},
		"empty ones":     {strings.Repeat("---\n", 250_000), ""},
		"many rules":     {fill(rules, "  - {name: r#, route: {}}\n", ""), policy.CodeUnreachableRule},
		"many tags":      {fill(rules, "  - {name: r#, matches: [{tag: t#, tenant: a}, {tag: u#}], route: {}}\n", ""), ""},
		"many models":    {fill(rules, "  - {name: r#, matches: [{model: m#}], route: {}}\n", ""), ""},
		"many headers":   {fill(rules, "  - {name: r#, matches: [{header: {name: X-A, prefix: a#}}], route: {}}\n", ""), ""},
		"many numbers":   {fill(rules, "  - {name: r#, matches: [{promptTokens: {greaterThan: 1#, lessThan: 9#9}}], route: {}}\n", ""), ""},
		"many stages":    {fill(rules+"  - name: a\n    route:\n      select:\n", "      - {type: Local, order: [w#]}\n", ""), ""},
		"long order":     {fill(rules+"  - name: a\n    route:\n      select:\n      - order: [", "w#, ", "x]\n"), ""},
		"many labels":    {fill(head+"spec:\n  models:\n", "  - {name: m#, labels: {a#: b}}\n", "  rules: []\n"), ""},
		"labels, asked":  {fill(asked, "      - {models: {labels: {a: b#}}}\n", ""), policy.CodeUnknownLabels},
		"long name":      {rules + "  - {name: " + strings.Repeat("n", 900_000) + ", route: {}}\n", ""},
		"long key":       {rules + "  - {name: a, " + strings.Repeat("k", 900_000) + ": {}, route: {}}\n", policy.CodeUnknownKey},
		"unknown":        {fill(rules, "  - {nme#: a}\n", ""), policy.CodeUnknownKey},
		"quotes":         {head + "spec: \"" + strings.Repeat("\\x41", 200_000) + "\"\n", policy.CodeWrongType},
		"comments":       {strings.Repeat("# a\n", 250_000) + head + "spec: {rules: []}\n", ""},
		"not UTF-8":      {"\xff\xfe\x00", policy.CodeSyntax},
		"list of all":    {"kind: List\nitems:\n" + strings.Repeat("- {kind: List, items: []}\n", 30_000), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := cputime.Process()
			file, findings := policy.Parse("f.yaml", []byte(c.text))
			parsed := cputime.Process() - began
			findings = append(findings, policy.Check([]*policy.File{file}, policy.CheckOptions{Together: true})...)
			took := cputime.Process() - began
			runtime.ReadMemStats(&after)
			t.Logf("%v, %v with check, %d MB allocated, %d findings", parsed, took, (after.TotalAlloc-before.TotalAlloc)>>20, len(findings))
			assert.Less(t, took, 20*time.Second)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30))
			require.Less(t, len(findings), 450)
			text := (&policy.CheckError{Findings: findings}).Error()
			assert.Less(t, len(text), 500_000, "what is said is bounded, too")
			if c.code != "" {
				codes := []string{}
				for _, f := range findings {
					codes = append(codes, f.Code)
				}
				require.Contains(t, codes, c.code, text[:min(len(text), 500)])
			}
		})
	}
}
