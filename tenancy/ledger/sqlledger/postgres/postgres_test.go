package postgres_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/postgres"
)

func TestMain(m *testing.M) { leak.Main(m) }

// However an address is mistaken, no error has a part of the password, which may end up
// in a log.
func TestNoErrorHasThePassword(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is to be found there anyway
	for _, address := range []string{
		"postgres://u:pa@tops%zz@db.invalid/x",
		"postgres://u:tops/pa@db.invalid/x",
		"postgres://u:5/tops@db.invalid/x",
		"postgres://u:pa@tops@db.invalid/x",
		"postgres://u:pa@tops/pa@db.invalid/x",
		"postgres://u:pa@tops?pa@db.invalid/x",
		"postgres://u:5/tops?pa@db.invalid/x",
		"postgres://u:tops%zz@db.invalid/x",
		"postgres://u:pa?tops@db.invalid:port/x",
		"postgresql://u@db.invalid/x?password=tops%zz",
		"host=db.invalid password = 'tops' port=abc",
		`host=db.invalid password=pa\ tops port=abc`,
		"host=db.invalid password=pa tops",
		"host=db.invalid password='tops",
		"tops",
		"tops://u:tops@db.invalid/x",
	} {
		_, err := postgres.Open(ctx, address)
		require.ErrorContains(t, err, "write postgres://user:password@host", address)
		for e := err; e != nil; {
			require.NotContains(t, e.Error(), "tops", address)
			u, ok := e.(interface{ Unwrap() error })
			if !ok {
				break
			}
			e = u.Unwrap()
		}
	}
}

// Addresses that are right are not refused, whatever their settings hold.
func TestAddresses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, address := range []string{
		"postgres://db.invalid/x",
		"postgres://u:p%40%2F%25s@db.invalid:5432/x",
		"postgres://u:p?s@db.invalid,other.invalid/x?application_name=a@b/c",
		"postgres:///x?host=/run/postgresql&user=a@b",
		"postgresql://db.invalid",
		"host=db.invalid dbname=x user=u@v password='a://b@c@d'",
		"",
	} {
		_, err := postgres.Open(ctx, address)
		require.ErrorIs(t, err, context.Canceled, address)
	}
}
