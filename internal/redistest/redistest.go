// Package redistest starts a real Redis for tests of gateways that share one. The tests of
// tenancy/redis have their own, which they kill, stop and restart.
package redistest

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// patience bounds the wait for its first answer, on whatever machine.
const patience = time.Minute

// Start starts a Redis that saves nothing, on a socket of its own, until the test ends, and
// returns its address, a URL. A machine without redis-server fails the test.
func Start(tb testing.TB) (address string) {
	tb.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Fatalf("this test needs a Redis of version 7 or newer: apt-get install redis-server (make test-deps does it): %v", err)
	}
	dir, err := os.MkdirTemp("", "kvsteer-redis") //nolint:usetesting // tb.TempDir may be too long for a socket
	if err != nil {
		tb.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	//nolint:gosec,noctx // it ends below
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--daemonize", "no")
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it says that it was killed
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	looks := time.NewTicker(5 * time.Millisecond)
	defer looks.Stop()
	for end := time.Now().Add(patience); ; <-looks.C {
		conn, err := net.Dial("unix", socket) //nolint:noctx // a socket of this machine
		switch {
		case err == nil:
			_ = conn.Close()
			return "unix://" + socket
		case time.Now().After(end):
			tb.Fatalf("redis-server does not answer: %v", err)
		}
	}
}
