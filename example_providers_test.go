package kvsteer_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	policyfile "github.com/kvsteer/kvsteer/policy/file"
	"github.com/kvsteer/kvsteer/providers"
	pricefile "github.com/kvsteer/kvsteer/tenancy/price/file"
)

// The lines between the markers stand in docs/providers.md;
// TestProvidersDocumentIsThisCode compares them.
func outsideServices(workers *fleet.Fleet, logger *slog.Logger, entraToken func(context.Context) (string, error)) error {
	// DOCS begin
	list, err := os.ReadFile("model_prices_and_context_window.json")
	if err != nil {
		return err
	}
	public, _, err := pricefile.LiteLLM(list, false)
	if err != nil {
		return err
	}
	prices, err := public.Table()
	if err != nil {
		return err
	}
	outside, err := providers.New([]providers.Provider{
		{
			Name: "openai", Kind: providers.OpenAI{}, Credentials: providers.File("/run/secrets/openai"),
			Models: []providers.Model{{Name: "large", Upstream: "gpt-5"}}, Paths: []string{"/v1/files", "/v1/batches"},
		},
		{
			Name: "databricks", Kind: providers.OpenAI{}, URL: "https://HOST.cloud.databricks.com/serving-endpoints",
			Credentials: providers.File("/run/secrets/databricks"), Labels: map[string]string{"region": "eu"},
			Models: []providers.Model{{Name: "qwen3", Upstream: "databricks-qwen3-next", ContextWindow: 131_072}},
		},
		{
			Name: "azure", Kind: providers.AzureOpenAI{Entra: true}, URL: "https://NAME.openai.azure.com",
			Credentials: providers.Func(entraToken), MaxConcurrent: 64,
			Models: []providers.Model{{Name: "large", Upstream: "my-deployment"}},
		},
		{
			Name: "anthropic", Kind: providers.Anthropic{}, Credentials: providers.File("/run/secrets/anthropic"),
			Models: []providers.Model{{Name: "large", Upstream: "claude-sonnet-4-5"}},
		},
	}, providers.Options{Prices: prices, Logger: logger})
	if err != nil {
		return err // a *providers.ConfigError for each thing that is wrong
	}
	rules, err := policyfile.Open("burst.yaml", policyfile.Options{Logger: logger})
	if err != nil {
		return err
	}
	scanner, err := classify.NewScanner(classify.ScannerOptions{}) // finds what the rules call pii-detected
	if err != nil {
		return err
	}
	tags, err := classify.NewSet(classify.SetOptions{Members: []classify.Member{{Classifier: scanner}}})
	if err != nil {
		return err
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithProviders(outside), kvsteer.WithPolicy(rules),
		kvsteer.WithClassifiers(tags))
	// DOCS end
	if err != nil {
		return err
	}
	return errors.Join(router.Close(), outside.Close(), rules.Close())
}

func TestProvidersDocumentIsThisCode(t *testing.T) {
	source, err := os.ReadFile("example_providers_test.go")
	require.NoError(t, err)
	page, err := os.ReadFile("docs/providers.md")
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(source), "\t// DOCS begin\n")
	require.True(t, ok)
	code, _, ok = strings.Cut(code, "\t// DOCS end\n")
	require.True(t, ok)
	var plain strings.Builder
	for line := range strings.Lines(code) {
		plain.WriteString(strings.TrimPrefix(line, "\t"))
	}
	require.Contains(t, string(page), "```go\n"+plain.String()+"```", "docs/providers.md and this file differ")
	_, rules, ok := strings.Cut(string(page), "```yaml\n")
	require.True(t, ok)
	rules, _, ok = strings.Cut(rules, "```")
	require.True(t, ok)

	_, err = policy.Load("burst.yaml", []byte(rules), policy.Options{})
	require.NoError(t, err)

	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("burst.yaml", rules)
	write("model_prices_and_context_window.json", `{"gpt-5":{"litellm_provider":"openai","input_cost_per_token":1e-6,"output_cost_per_token":1e-5}}`)
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	err = outsideServices(workers, slog.New(slog.DiscardHandler), func(context.Context) (string, error) { return "token", nil })
	require.NoError(t, workers.Close())
	if _, there := os.Stat("/run/secrets/openai"); there == nil {
		t.Skip("this machine has the files that the page names")
	}
	// All of it is right but for the files of secrets, which are the reader's.
	var bad *providers.ConfigError
	require.ErrorAs(t, err, &bad)
	require.Equal(t, "Credentials", bad.Field)
	require.ErrorIs(t, err, os.ErrNotExist)
}
