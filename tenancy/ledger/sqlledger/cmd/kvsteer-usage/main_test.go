package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/sqlite"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

func called(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// The report is the one that the same records give from files.
func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.db")
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	tally, err := usage.New(usage.Query{Tenants: []string{"t0", "t1"}, Zone: time.UTC})
	require.NoError(t, err)
	var records []ledger.Record
	for i := range 100 {
		r := ledger.Record{
			ID: fmt.Sprint(i), Attempt: 1, State: ledger.Reserved, At: time.Date(2026, 11, 1, i, 0, 0, 0, time.UTC),
			Tenant: fmt.Sprintf("t%d", i%3), Model: "m", Uncached: int64(i), Cost: 10,
		}
		records = append(records, r)
		r.State, r.At = ledger.Settled, r.At.Add(time.Hour)
		if i%5 == 0 {
			r.State = ledger.Voided
		}
		if i%7 != 0 {
			records = append(records, r)
		}
	}
	require.NoError(t, store.Write(t.Context(), records))
	require.NoError(t, store.Close())
	for i := range records {
		tally.Add(&records[i])
	}
	for _, format := range []func(*bytes.Buffer) (flag string, err error){
		func(b *bytes.Buffer) (string, error) { return "-json", tally.Report().JSON(b) },
		func(b *bytes.Buffer) (string, error) { return "-csv", tally.Report().CSV(b) },
		func(b *bytes.Buffer) (string, error) { return "-open=20", tally.Report().Table(b, 20) },
	} {
		var want bytes.Buffer
		flag, err := format(&want)
		require.NoError(t, err)
		code, out, errs := called(t, "-sqlite", path, "-tenant", "t0", "-tenant", "t1", flag)
		require.Equal(t, exitOK, code, errs)
		require.Empty(t, errs)
		require.Equal(t, want.String(), out)
	}
}

func TestCalledWrongly(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.db")
	for _, c := range []struct {
		want string
		code int
		args []string
	}{
		{"name a ledger", exitUsage, nil},
		{"name a ledger", exitUsage, []string{"-sqlite", "a", "-postgres", "b"}},
		{"kvsteer usage reads files", exitUsage, []string{"-sqlite", "a", "usage.jsonl"}},
		{"choose one", exitUsage, []string{"-sqlite", "a", "-json", "-csv"}},
		{"not defined", exitUsage, []string{"-frobnicate"}},
		{"missing.db", exitFailed, []string{"-sqlite", missing}},
		{"sqlledger", exitFailed, []string{"-postgres", "host=" + t.TempDir() + " user=nobody"}},
		{"unsplit", exitOK, []string{"-h"}},
	} {
		code, out, errs := called(t, c.args...)
		require.Equal(t, c.code, code, "%v: %s", c.args, errs)
		require.Empty(t, out)
		require.Contains(t, errs, c.want)
	}
	_, err := os.Stat(missing)
	require.ErrorIs(t, err, os.ErrNotExist, "a report makes no ledger")
}
