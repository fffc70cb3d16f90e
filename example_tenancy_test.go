package kvsteer_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/tenancy"
	keyfile "github.com/kvsteer/kvsteer/tenancy/file"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	pricefile "github.com/kvsteer/kvsteer/tenancy/price/file"
	"github.com/kvsteer/kvsteer/tenancy/quota"
	limitfile "github.com/kvsteer/kvsteer/tenancy/quota/file"
	"github.com/kvsteer/kvsteer/tenancy/salt"
)

// The lines between the markers stand in docs/tenancy.md;
// TestTenancyDocumentIsThisCode compares them.
func tenants(workers *fleet.Fleet, logger *slog.Logger, secret []byte) error {
	// DOCS begin
	keys, err := keyfile.Open("keys.yaml", keyfile.Options{Logger: logger})
	if err != nil {
		return err
	}
	limits, err := quota.New(quota.Options{MaxAge: 2 * time.Hour})
	if err != nil {
		return err
	}
	rules, err := limitfile.Follow("limits.yaml", limits, limitfile.Options{Logger: logger})
	if err != nil {
		return err
	}
	list, err := os.ReadFile("prices.yaml")
	if err != nil {
		return err
	}
	parsed, err := pricefile.Parse(list)
	if err != nil {
		return err
	}
	prices, err := parsed.Table()
	if err != nil {
		return err
	}
	sink, err := ledger.OpenJSONL("usage.jsonl", ledger.JSONLOptions{})
	if err != nil {
		return err
	}
	book, err := ledger.New(ledger.Options{Sink: sink, Spool: "usage.spool", Logger: logger})
	if err != nil {
		return err
	}
	salter, err := salt.New(salt.Key{ID: "2026-11", Secret: secret}) // 32 random bytes, the same on every gateway
	if err != nil {
		return err
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithLogger(logger), kvsteer.WithTenancy(kvsteer.TenancyOptions{
		Identify: keys, RefuseAnonymous: true,
		Limits: limits, Prices: prices, Ledger: book, Salter: salter,
	}))
	// DOCS end
	if err != nil {
		return err
	}
	ctx := context.Background()
	q := &kvsteer.Request{
		API: kvsteer.ChatCompletions, Body: []byte(`{"model":"m","messages":[{"role":"user","content":"hello"}]}`),
		Header: http.Header{"Authorization": {"Bearer " + exampleKey}},
	}
	if _, err = router.Explain(ctx, q); kvsteer.CodeOf(err) == kvsteer.CodeNoCandidates {
		err = nil // there are no workers, but who asks is known
	}
	return errors.Join(err, router.Close(), rules.Close(), keys.Close(), book.Close(), sink.Close())
}

const exampleKey = "kv-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestTenancyDocumentIsThisCode(t *testing.T) {
	source, err := os.ReadFile("example_tenancy_test.go")
	require.NoError(t, err)
	document, err := os.ReadFile("docs/tenancy.md")
	require.NoError(t, err)
	_, code, ok := strings.Cut(string(source), "\t// DOCS begin\n")
	require.True(t, ok)
	code, _, ok = strings.Cut(code, "\t// DOCS end\n")
	require.True(t, ok)
	var plain strings.Builder
	for line := range strings.Lines(code) {
		plain.WriteString(strings.TrimPrefix(line, "\t"))
	}
	require.Contains(t, string(document), "```go\n"+plain.String()+"```", "docs/tenancy.md and this file differ")

	hash, err := tenancy.HashKey(exampleKey)
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"keys.yaml":   "keys: [{id: k, tenant: acme, hash: \"" + hash + "\"}]\n",
		"limits.yaml": "rules: [{name: tenants, scope: tenant, tokens: 100_000}]\n",
		"prices.yaml": "models: [{model: m, input: 0.10, output: 0.40}]\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(".", name), []byte(text), 0o600))
	}
	workers, err := fleet.New(fleet.Options{Discoverer: fleet.Static()})
	require.NoError(t, err)
	require.NoError(t, tenants(workers, slog.New(slog.DiscardHandler), []byte(strings.Repeat("k", 32))))
	require.NoError(t, workers.Close())
}
