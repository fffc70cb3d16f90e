package policy_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/policy"
)

var updateFindings = flag.Bool("update-findings", false, "write testdata/check/findings.golden anew")

// directive returns what comments of the form "# name: value" say.
func directive(text, name string) (values []string, found bool) {
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, "# "+name+": "); ok {
			values, found = append(values, value), true
		}
	}
	return values, found
}

func listed(values []string) []string {
	var out []string
	for _, v := range values {
		out = append(out, strings.Split(v, ", ")...)
	}
	return out
}

// checkFile checks one file of testdata/check as its comments say.
func checkFile(t *testing.T, name string) (text string, findings []policy.Finding) {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	text = strings.ReplaceAll(string(data), "\r\n", "\n")
	file, findings := policy.Parse(filepath.Base(name), []byte(text))
	files := []*policy.File{file}
	var opts policy.CheckOptions
	tags, known := directive(text, "tags")
	if known {
		opts.Tags = listed(tags)
	}
	models, _ := directive(text, "models")
	for _, m := range listed(models) {
		opts.Models = append(opts.Models, policy.ModelLabels{Name: m})
	}
	manifests, _ := directive(text, "manifests")
	for _, m := range listed(manifests) {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(name), m+".manifest"))
		require.NoError(t, err)
		manifest, wrong := policy.Parse(m, data)
		require.Empty(t, wrong)
		files = append(files, manifest)
	}
	findings = append(findings, policy.Check(files, opts)...)
	return text, findings
}

// Each file has one kind of fault, and says in comments which findings are expected
// where. The golden file has the findings in full.
func TestCheckFindsEachKindOfFault(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "check", "*.yaml"))
	require.NoError(t, err)
	require.Greater(t, len(names), 60)
	var golden strings.Builder
	for _, name := range names {
		text, findings := checkFile(t, name)
		var got []string
		for _, f := range findings {
			got = append(got, fmt.Sprintf("%d:%d %s %s", f.Line, f.Column, f.Severity, f.Code))
			golden.WriteString(f.String() + "\n")
		}
		want, _ := directive(text, "want")
		assert.ElementsMatch(t, want, got, "%s\n%v", name, findings)
	}
	path := filepath.Join("testdata", "check", "findings.golden")
	if *updateFindings {
		require.NoError(t, os.WriteFile(path, []byte(golden.String()), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, strings.ReplaceAll(string(want), "\r\n", "\n"), golden.String(), "if that is meant: go test -update-findings ./policy")
}
