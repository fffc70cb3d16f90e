package kvsteer_test

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/kvcache/prompt/local"
)

// The lines between the markers stand in docs/prompts.md;
// TestPromptsDocumentIsThisCode compares them.
func localPrompts(workers *fleet.Fleet, logger *slog.Logger) error {
	// DOCS begin
	source, err := local.New(local.Options{Models: map[string]local.Model{
		"qwen3": {Dir: "kvcache/prompt/local/testdata/models/qwen"},
	}})
	if err != nil {
		return err // a *local.AssetError for each model that can't be served, and why
	}
	prover := prompt.NewProver(source, prompt.ProverOptions{
		OnReport: func(r *prompt.ProofReport) { logger.Info("local prompts", "proof", r.String()) },
	})
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{prover}})
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithEncoder(encoder))
	// DOCS end
	if err != nil {
		return err
	}
	return errors.Join(router.Close(), encoder.Close(), prover.Close(), source.Close())
}

func TestPromptsDocumentIsThisCode(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("example_docs_test.go")
	require.NoError(t, err)
	document, err := os.ReadFile("docs/prompts.md")
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(source), "\t// DOCS begin\n")
	require.True(t, ok)
	code, _, ok = strings.Cut(code, "\t// DOCS end\n")
	require.True(t, ok)
	var plain strings.Builder
	for line := range strings.Lines(code) {
		plain.WriteString(strings.TrimPrefix(line, "\t"))
	}
	// The document names a folder of the reader's.
	want := strings.Replace(plain.String(), "kvcache/prompt/local/testdata/models/qwen", "/models/qwen3", 1)
	require.Contains(t, string(document), "```go\n"+want+"```", "docs/prompts.md and this file differ")

	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	require.NoError(t, localPrompts(workers, slog.New(slog.DiscardHandler)))
	require.NoError(t, workers.Close())
}
