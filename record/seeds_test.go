package record_test

import (
	"bytes"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/record"
)

var update = flag.Bool("update", false, "write the seeds of FuzzRead anew")

// The seeds are what a Recorder writes today, and what may happen to it.
func TestSeeds(t *testing.T) {
	if !*update {
		t.Skip("only with -update")
	}
	var log bytes.Buffer
	at := time.Unix(1_800_000_000, 0)
	r, err := record.New(&log, record.Options{CloseTimeout: patient, HashTenants: true, HashKey: []byte("seed"), Now: func() time.Time { return at }})
	require.NoError(t, err)
	for id := range uint64(2) {
		d := decided(id)
		r.OnDecision(d)
		r.OnOutcome(ended(d))
	}
	refused := decided(0)
	refused.Chosen = -1
	r.OnRejection(refused, &kvsteer.Error{Code: kvsteer.CodeRejectedByPolicy})
	require.NoError(t, r.Close())
	whole := log.Bytes()
	for name, b := range map[string][]byte{
		"whole": whole, "torn": whole[:len(whole)-200], "twice": append(bytes.Clone(whole[:900]), whole[:3000]...),
		"version": []byte(`{"kvsteer_log":{"version":3}}` + "\n"),
		"lost":    []byte(header + `{"at":"2026-01-02T03:04:05Z","lost":{"entries":3,"reason":"buffer full"}}` + "\n"),
	} {
		require.NoError(t, os.WriteFile("testdata/seeds/"+name, b, 0o600))
	}
}
