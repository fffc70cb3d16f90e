//go:build unix

package sqlledger_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/tenancy/ledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger"
	"github.com/kvsteer/kvsteer/tenancy/ledger/sqlledger/postgres"
	"github.com/kvsteer/kvsteer/tenancy/ledger/usage"
)

// server is a real PostgreSQL, reached by a socket in a folder of its own.
type server struct {
	t    *testing.T
	bin  string
	dir  string
	attr *syscall.SysProcAttr
	stop func() // kills it and waits until it is dead; nil if it is
}

// binaries finds where initdb and postgres are: distributions hide them.
func binaries(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		path, err = filepath.EvalSymlinks(path)
		require.NoError(t, err)
		return filepath.Dir(path)
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	require.NoError(t, err)
	if len(found) == 0 {
		t.Fatal("these tests need a PostgreSQL server: install Debian's postgresql (`make test-deps` does), or put initdb and postgres into PATH")
	}
	return filepath.Dir(slices.Max(found))
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, bin: binaries(t), attr: &syscall.SysProcAttr{}}
	dieWithParent(s.attr)
	dir, err := os.MkdirTemp("", "pg") //nolint:usetesting // a short path: those of sockets may not be long
	require.NoError(t, err)
	t.Cleanup(func() { // the server is killed, but others of its processes may write until they notice
		require.Eventually(t, func() bool { return os.RemoveAll(dir) == nil }, soon, 10*time.Millisecond)
	})
	s.dir = dir
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		u, err := user.Lookup("postgres")
		if err != nil {
			u, err = user.Lookup("nobody")
		}
		require.NoError(t, err)
		uid, err := strconv.Atoi(u.Uid)
		require.NoError(t, err)
		gid, err := strconv.Atoi(u.Gid)
		require.NoError(t, err)
		s.attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		require.NoError(t, os.Chown(dir, uid, gid))
	}
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "-D", dir+"/data", "-U", "kvsteer", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.SysProcAttr, initdb.Dir = s.attr, dir
	out, err := initdb.CombinedOutput()
	require.NoError(t, err, "%s", out)
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	s.t.Helper()
	deadline := time.Now().Add(soon)
	for {
		args := []string{"-D", s.dir + "/data", "-k", s.dir, "-h", ""}
		if runtime.GOOS == "linux" { // after a kill a server flushes its files one by one, which takes seconds
			args = append(args, "-c", "recovery_init_sync_method=syncfs")
		}
		cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
		cmd.SysProcAttr, cmd.Dir = s.attr, s.dir
		var log bytes.Buffer
		cmd.Stderr = &log
		require.NoError(s.t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait() // it is killed
			close(ended)
		}()
		s.stop = func() {
			_ = cmd.Process.Kill() // it may have ended
			<-ended
		}
		for {
			db, err := sql.Open("pgx", s.address("postgres"))
			require.NoError(s.t, err)
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			err = db.PingContext(ctx)
			cancel()
			require.NoError(s.t, db.Close())
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				s.stop()
				s.t.Fatalf("the server does not come up: %v\n%s", err, &log)
			}
			select {
			case <-ended: // processes of the one that was killed may still be there
			case <-time.After(20 * time.Millisecond):
				continue
			}
			break
		}
	}
}

// kill is SIGKILL to the server; its other processes see that it is gone and end.
func (s *server) kill() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

func (s *server) address(database string) string {
	return fmt.Sprintf("host=%s user=kvsteer dbname=%s", s.dir, database)
}

func (s *server) exec(t *testing.T, database string, statements ...string) {
	t.Helper()
	db, err := sql.Open("pgx", s.address(database))
	require.NoError(t, err)
	for _, q := range statements {
		_, err := db.ExecContext(t.Context(), q)
		require.NoError(t, err, q)
	}
	require.NoError(t, db.Close())
}

func (s *server) database(t *testing.T, name string) string {
	t.Helper()
	s.exec(t, "postgres", `CREATE DATABASE `+name)
	return s.address(name)
}

func openPostgres(t *testing.T, address string) *sqlledger.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), address)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestPostgreSQL(t *testing.T) {
	server := startServer(t)
	n := 0
	suite(t, func(t *testing.T) *sqlledger.Store {
		t.Helper()
		n++
		return openPostgres(t, server.database(t, fmt.Sprintf("db%d", n)))
	})
	t.Run("migrates once", func(t *testing.T) {
		address := server.database(t, "migrated")
		migratesOnce(t, func() (*sqlledger.Store, error) { return postgres.Open(t.Context(), address) })
	})
	t.Run("rights", func(t *testing.T) { rights(t, server) })
	t.Run("asynchronous by default", func(t *testing.T) { asynchronous(t, server) })
	t.Run("addresses", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), "postgres://user:sesame@[half")
		require.Error(t, err)
		require.NotContains(t, err.Error(), "sesame")
		_, err = postgres.Open(t.Context(), server.address("nowhere"))
		require.ErrorContains(t, err, "nowhere")
	})
	t.Run("by transaction", func(t *testing.T) {
		s := openPostgres(t, server.database(t, "pooled")+" default_query_exec_mode=exec")
		keepsEverything(t, s)
	})
}

// Once the tables are there a router needs no right but to read and to add.
func rights(t *testing.T, server *server) {
	t.Helper()
	require.NoError(t, openPostgresOnce(t, server.database(t, "rights")))
	server.exec(t, "rights", `CREATE ROLE router LOGIN`, `GRANT SELECT, INSERT ON kvsteer_usage TO router`,
		`GRANT SELECT ON kvsteer_usage_schema TO router`)
	address := fmt.Sprintf("host=%s user=router dbname=rights", server.dir)
	s := openPostgres(t, address)
	require.NoError(t, s.Write(t.Context(), []ledger.Record{record(1), record(1)}))
	require.Len(t, read(t, s, usage.Query{}), 1)
	db, err := sql.Open("pgx", address)
	require.NoError(t, err)
	defer db.Close()
	for _, q := range []string{`DELETE FROM kvsteer_usage`, `UPDATE kvsteer_usage SET cost = 0`} {
		_, err = db.ExecContext(t.Context(), q)
		require.ErrorContains(t, err, "permission denied")
	}
}

func openPostgresOnce(t *testing.T, address string) error {
	t.Helper()
	s, err := postgres.Open(t.Context(), address)
	if err != nil {
		return err
	}
	return s.Close()
}

// A database in which commits don't wait for the disk waits for ours.
func asynchronous(t *testing.T, server *server) {
	t.Helper()
	address := server.database(t, "lazy")
	require.NoError(t, openPostgresOnce(t, address))
	server.exec(t, "lazy", `ALTER DATABASE lazy SET synchronous_commit = off`,
		`CREATE TABLE seen (setting text)`,
		`CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`,
		`CREATE TRIGGER see AFTER INSERT ON kvsteer_usage EXECUTE FUNCTION see()`)
	s := openPostgres(t, address)
	require.NoError(t, s.Write(t.Context(), []ledger.Record{record(1)}))
	db, err := sql.Open("pgx", address)
	require.NoError(t, err)
	defer db.Close()
	var setting, after string
	require.NoError(t, db.QueryRowContext(t.Context(), `SELECT setting, current_setting('synchronous_commit') FROM seen`).Scan(&setting, &after))
	require.Equal(t, "on", setting)
	require.Equal(t, "off", after)
}

func TestPostgreSQLKilledTwentyTimes(t *testing.T) {
	killedTwentyTimes(t, startServer(t).database(t, "usage"))
}

// The server itself is killed and started again, four times, while records come: nothing
// that was acknowledged is lost, nothing is there twice, and all comes in the end.
func TestPostgreSQLServerKilled(t *testing.T) {
	server := startServer(t)
	address := server.database(t, "usage")
	presentOnce(t, address, killed(t, address, 1, 4000, func(n int) {
		if n%1000 == 500 {
			server.kill()
			server.start()
		}
	}))
}

// While the server is down requests go on, through the spool; when it is back all is
// there, once.
func TestPostgreSQLServerDown(t *testing.T) {
	server := startServer(t)
	address := server.database(t, "usage")
	store := openPostgres(t, address)
	l, err := ledger.New(ledger.Options{Sink: store, Buffer: 100, Patience: soon, CloseTimeout: soon, Spool: filepath.Join(t.TempDir(), "spool.jsonl")})
	require.NoError(t, err)
	defer l.Close()
	server.kill()
	for i := range 1000 {
		r := record(i)
		require.NoError(t, l.Append(&r))
	}
	require.Eventually(t, func() bool { return l.Stats().Failing && l.Stats().Spooled > 800 }, soon, time.Millisecond)
	server.start()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	require.NoError(t, l.Flush(ctx))
	require.Len(t, read(t, store, usage.Query{}), 1000)
	require.NoError(t, l.Close())
}
