package kvsteer_test

import (
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/record"
	"github.com/kvsteer/kvsteer/tenancy"
	"github.com/kvsteer/kvsteer/tenancy/file"
	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/quota"
	quotafile "github.com/kvsteer/kvsteer/tenancy/quota/file"
)

// Code of the pages in docs that no other test has: internal/docscheck looks for it here,
// without the lines that say that they are not shown. Paths are a server's.

// This is in docs/replay.md.
func recording(workers *fleet.Fleet) error {
	recorder, err := record.Open("decisions.jsonl", record.Options{MaxBytes: 1 << 30})
	if err != nil {
		return err
	}
	router, err := kvsteer.New(kvsteer.WithFleet(workers), kvsteer.WithHooks(recorder))
	if err != nil {
		return err
	}
	err = router.Close()
	if err != nil { // not shown
		return err // not shown
	} // not shown
	err = recorder.Close() // after the router: writes what waits, 5 s at most
	return err
}

// These are in docs/tenancy.md.
func identities(logger *slog.Logger, tokens tenancy.Resolver) (tenancy.Chain, func() error, error) {
	keys, err := file.Open("keys.yaml", file.Options{Logger: logger}) // or a directory
	if err != nil {
		return nil, nil, err
	}
	certificates, err := tenancy.NewCertificates(tenancy.CertificateRule{
		SPIFFE:   "spiffe://prod.example/ns/{namespace}/sa/{account}",
		Identity: tenancy.Identity{Org: "acme", Tenant: "{namespace}", Key: "{account}"},
	})
	if err != nil {
		return nil, nil, err
	}
	gateways, err := tenancy.NewPeers(tenancy.PeersOptions{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Headers:  tenancy.PeerHeaders{Tenant: "X-Tenant", Groups: "X-Groups"},
	})
	if err != nil {
		return nil, nil, err
	}
	who := tenancy.Chain{tokens, certificates, gateways, keys}
	return who, keys.Close, nil
}

func followedLimits(logger *slog.Logger) error {
	limiter, err := quota.New(quota.Options{MaxAge: 2 * time.Hour})
	if err != nil { // not shown
		return err // not shown
	} // not shown
	limits, err := quotafile.Follow("limits.yaml", limiter, quotafile.Options{Logger: logger})
	if err != nil { // not shown
		return err // not shown
	} // not shown
	defer limits.Close()
	return nil
}

func booked() error {
	sink, err := ledger.OpenJSONL("/var/lib/gateway/usage.jsonl", ledger.JSONLOptions{MaxAge: 24 * time.Hour})
	if err != nil { // not shown
		return err // not shown
	} // not shown
	book, err := ledger.New(ledger.Options{Sink: sink, Spool: "/var/lib/gateway/usage.spool"})
	if err != nil {
		_ = sink.Close()
		return err
	}
	err = book.Close() // writes what waits, 10 s at most
	if err != nil {    // not shown
		return err // not shown
	} // not shown
	err = sink.Close() // after the Ledger
	return err
}

func fairQueue(weights map[string]float64) kvsteer.Option {
	queue := kvsteer.WithQueue(kvsteer.QueueOptions{Fair: kvsteer.FairOptions{
		Weight:   func(tenant string) float64 { return weights[tenant] }, // none, or no positive number, is 1
		HalfLife: 5 * time.Minute,
		Starve:   10 * time.Second,
	}})
	return queue
}

func TestPages(t *testing.T) {
	t.Chdir(t.TempDir())
	logger := slog.New(slog.DiscardHandler)
	workers, err := fleet.New(fleet.Options{})
	require.NoError(t, err)
	defer workers.Close()
	require.NoError(t, recording(workers))
	require.FileExists(t, "decisions.jsonl")

	none, err := tenancy.NewKeys(tenancy.KeysOptions{})
	require.NoError(t, err)
	_, _, err = identities(logger, none)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile("keys.yaml", []byte("keys: []\n"), 0o600))
	who, closeKeys, err := identities(logger, none)
	require.NoError(t, err)
	require.Len(t, who, 4)
	require.NoError(t, closeKeys())

	require.ErrorIs(t, followedLimits(logger), os.ErrNotExist)
	require.NoError(t, os.WriteFile("limits.yaml", []byte("rules: []\n"), 0o600))
	require.NoError(t, followedLimits(logger))
	if _, err := os.Stat("/var/lib/gateway"); err != nil {
		require.ErrorIs(t, booked(), os.ErrNotExist)
	}

	router, err := kvsteer.New(kvsteer.WithFleet(workers), fairQueue(map[string]float64{"a": 2}))
	require.NoError(t, err)
	require.NoError(t, router.Close())
}
