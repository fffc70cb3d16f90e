//go:build unix

package ledger_test

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
)

const (
	childFile  = "KVSTEER_LEDGER_CHILD"
	childSpool = "KVSTEER_LEDGER_SPOOL"
	childRun   = "KVSTEER_LEDGER_RUN"
	kills      = 20
)

// child is the program that is killed: it appends as fast as it can from many goroutines,
// and prints what is acknowledged.
func child(path string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	sink, err := ledger.OpenJSONL(path, ledger.JSONLOptions{MaxBytes: 1 << 20})
	fail(err)
	var to ledger.Sink = sink
	spool := os.Getenv(childSpool)
	if spool != "" { // a sink that is too slow for what comes
		to = ledger.SinkFunc(func(ctx context.Context, r []ledger.Record) error {
			time.Sleep(2 * time.Millisecond)
			return sink.Write(ctx, r)
		})
	}
	l, err := ledger.New(ledger.Options{
		Sink: to, Spool: spool, Buffer: 512, Batch: 64, Patience: time.Minute,
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
	run := os.Getenv(childRun)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				if spool != "" && i == 200 { // each run writes again what the ones before left there
					select {}
				}
				r := record(i)
				r.ID = fmt.Sprintf("%s-%d-%d", run, g, i)
				fail(l.Append(r))
				r.State = ledger.Settled
				fail(l.Append(r))
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	all.Wait()
}

// killed runs the child until it has acknowledged some, kills it with SIGKILL, and returns
// what it said.
func killed(t *testing.T, env ...string) (acknowledged []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0]) //nolint:gosec // it is this test
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	stuck := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	most := 1 + rand.IntN(1500)
	in := bufio.NewReader(stdout)
	for {
		text, err := in.ReadString('\n')
		if err != nil { // what it did not say to the end it did not say
			break
		}
		acknowledged = append(acknowledged, strings.TrimSuffix(text, "\n"))
		if len(acknowledged) == most {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.ErrorContains(t, cmd.Wait(), "killed", stderr.String())
	require.GreaterOrEqual(t, len(acknowledged), most, stderr.String())
	return acknowledged
}

func TestKilledTwentyTimes(t *testing.T) {
	for name, spool := range map[string]string{"JSONL": "", "JSONL with a spool": "spool.jsonl"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if spool != "" {
				spool = filepath.Join(dir, spool)
			}
			path := filepath.Join(dir, "usage.jsonl")
			acknowledged := map[string]bool{}
			said := 0
			for run := range kills {
				for _, key := range killed(t, childFile+"="+path, childSpool+"="+spool, childRun+"="+strconv.Itoa(run)) {
					acknowledged[key] = true
					said++
				}
			}
			// As the next start finds it.
			j := jsonl(t, path, ledger.JSONLOptions{})
			replayed := 0
			if spool != "" {
				l := open(t, ledger.Options{Sink: j, Spool: spool, Patience: soon})
				require.NoError(t, l.Append(record(1)))
				flush(t, l)
				replayed = int(l.Stats().Replayed)
				require.NoError(t, l.Close())
			}
			got, twice := readAll(t, files(t, dir)...)
			there := map[string]int{}
			for i := range got {
				there[got[i].ID+" "+string(got[i].State)]++
			}
			for key := range acknowledged {
				require.Equal(t, 1, there[key], key)
			}
			if spool == "" { // nothing is written again but from a spool
				require.Zero(t, twice)
				require.Len(t, acknowledged, said)
			}
			t.Logf("%d kills: %d acknowledged, %d of them told once; %d in %d files, %d more lines twice, dropped by the reader; %d from the spool at the end",
				kills, said, len(acknowledged), len(got), len(files(t, dir)), twice, replayed)
		})
	}
}
