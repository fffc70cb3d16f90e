//go:build unix

package sqlledger_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/postgres"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/sqlite"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

const (
	childOf  = "KVSTEER_SQLLEDGER_CHILD"
	childRun = "KVSTEER_SQLLEDGER_RUN"
	kills    = 20
	// stuck is when a child is given up: a server may be started several times meanwhile.
	stuck = 15 * time.Minute
)

func openStore(ctx context.Context, address string) (*sqlledger.Store, error) {
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		return sqlite.Open(ctx, path)
	}
	return postgres.Open(ctx, address)
}

// child is the program that is killed: it appends as fast as it can from many goroutines,
// and prints what is acknowledged.
func child(address string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	store, err := openStore(context.Background(), address)
	fail(err)
	l, err := ledger.New(ledger.Options{
		Sink: store, Buffer: 512, Batch: 100, Patience: stuck, WriteTimeout: soon,
		OnDurable: func(records []ledger.Record) {
			var out strings.Builder
			for i := range records {
				fmt.Fprintf(&out, "%s %s\n", records[i].ID, records[i].State)
			}
			_, err := os.Stdout.WriteString(out.String())
			fail(err)
		},
		OnLost: func(r *ledger.Record, err error) { fail(fmt.Errorf("%s is lost: %w", r.ID, err)) },
	})
	fail(err)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				r := record(i)
				r.ID = fmt.Sprintf("%s-%d-%d", os.Getenv(childRun), g, i)
				fail(l.Append(&r))
				r.State = ledger.Settled
				fail(l.Append(&r))
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	all.Wait()
}

// killed runs the child until it has acknowledged some, kills it with SIGKILL, and returns
// what it said. meanwhile, if there is one, is called with each.
func killed(t *testing.T, address string, run, most int, meanwhile func(int)) (acknowledged []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // it is this test
	cmd.Env = append(os.Environ(), childOf+"="+address, childRun+"="+strconv.Itoa(run))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	late := time.AfterFunc(stuck, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	in := bufio.NewReader(stdout)
	for {
		text, err := in.ReadString('\n')
		if err != nil { // what it did not say to the end it did not say
			break
		}
		acknowledged = append(acknowledged, strings.TrimSuffix(text, "\n"))
		if meanwhile != nil {
			meanwhile(len(acknowledged))
		}
		if len(acknowledged) == most {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.ErrorContains(t, cmd.Wait(), "killed", stderr.String())
	require.GreaterOrEqual(t, len(acknowledged), most, stderr.String())
	return acknowledged
}

// presentOnce checks that what was acknowledged is there, and everything once.
func presentOnce(t *testing.T, address string, acknowledged []string) {
	t.Helper()
	s, err := openStore(t.Context(), address)
	require.NoError(t, err)
	there := map[string]int{}
	for _, r := range read(t, s, usage.Query{}) {
		there[r.ID+" "+string(r.State)]++
	}
	require.NoError(t, s.Close())
	for key, n := range there {
		require.Equal(t, 1, n, key)
	}
	told := map[string]bool{}
	for _, key := range acknowledged {
		require.False(t, told[key], "%s was acknowledged twice", key)
		told[key] = true
		require.Equal(t, 1, there[key], key)
	}
	t.Logf("%d acknowledged, all there once; %d in the table", len(told), len(there))
}

func killedTwentyTimes(t *testing.T, address string) {
	t.Helper()
	var acknowledged []string
	for run := range kills {
		acknowledged = append(acknowledged, killed(t, address, run, 1+rand.IntN(2000), nil)...)
	}
	presentOnce(t, address, acknowledged)
}

func TestSQLiteKilledTwentyTimes(t *testing.T) {
	killedTwentyTimes(t, "sqlite:"+filepath.Join(t.TempDir(), "usage.db"))
}
