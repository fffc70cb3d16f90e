//go:build unix

package redis

import (
	"context"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

var program = flag.String("redis.server", "redis-server", "the server to test with: a redis-server or valkey-server")

// server is a real Redis on a socket of its own, nothing saved but what a test asks for.
type server struct {
	t      testing.TB
	path   string // of the program
	dir    string
	socket string
	args   []string
	cmd    *exec.Cmd
	over   chan struct{} // cmd has ended
}

// longEnough is for whatever a busy machine has to do.
const longEnough = 30 * time.Second

func newServer(t testing.TB, args ...string) *server {
	t.Helper()
	s := prepareServer(t, args...)
	s.start()
	return s
}

// newClusterServer is a Redis Cluster of one node. Both of its ports were free a moment
// ago: if somebody was faster, others are tried.
func newClusterServer(t testing.TB) (s *server, address string) {
	t.Helper()
	for range 20 {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		b, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address = a.Addr().String()
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		_, bus, err := net.SplitHostPort(b.Addr().String())
		require.NoError(t, err)
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
		s = prepareServer(t, "--cluster-enabled", "yes", "--port", port, "--cluster-port", bus, "--bind", "127.0.0.1")
		if !s.tryStart() {
			continue
		}
		s.beCluster()
		return s, address
	}
	require.Fail(t, "no free ports for a cluster")
	return nil, ""
}

// beCluster gives all slots to s.
func (s *server) beCluster() {
	s.t.Helper()
	c := s.client(s.t)
	defer c.Close()
	ctx := context.Background()
	require.NoError(s.t, c.ClusterAddSlotsRange(ctx, 0, 16_383).Err())
	require.Eventually(s.t, func() bool {
		return strings.Contains(c.ClusterInfo(ctx).Val(), "cluster_state:ok")
	}, longEnough, 10*time.Millisecond)
}

// prepareServer is a server that doesn't run yet.
func prepareServer(t testing.TB, args ...string) *server {
	t.Helper()
	path, err := exec.LookPath(*program)
	require.NoError(t, err, "these tests need a Redis of version 7 or newer: apt-get install redis-server (make test-deps does it)")
	dir, err := os.MkdirTemp("", "kvsteer-redis") //nolint:usetesting // t.TempDir may be too long for a socket
	require.NoError(t, err)
	s := &server{t: t, path: path, dir: dir, socket: filepath.Join(dir, "s"), args: args}
	t.Cleanup(func() {
		s.kill()
		require.NoError(t, os.RemoveAll(dir))
	})
	return s
}

func (s *server) start() {
	s.t.Helper()
	require.True(s.t, s.tryStart(), "the server has ended")
}

// tryStart reports whether the server answers; else it has ended.
func (s *server) tryStart() (answers bool) {
	s.t.Helper()
	s.cmd = exec.Command(s.path, append([]string{
		"--port", "0", "--unixsocket", s.socket, "--dir", s.dir, "--save", "", "--daemonize", "no",
	}, s.args...)...)
	s.cmd.Stdout, s.cmd.Stderr = io.Discard, io.Discard
	require.NoError(s.t, s.cmd.Start())
	cmd, over := s.cmd, make(chan struct{})
	s.over = over
	go func() {
		defer close(over)
		_ = cmd.Wait()
	}()
	c := s.client(s.t)
	defer c.Close()
	require.Eventually(s.t, func() bool {
		select {
		case <-over:
			return true
		default:
			answers = c.Ping(context.Background()).Err() == nil
			return answers
		}
	}, longEnough, 5*time.Millisecond)
	return answers
}

// kill ends it without a word.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.over
	s.cmd = nil
}

func (s *server) signal(sig syscall.Signal) { require.NoError(s.t, s.cmd.Process.Signal(sig)) }

// client is one whose own timeouts are long, since the machine may be busy: what it sends
// twice may be done twice.
func (s *server) client(t testing.TB) *goredis.Client {
	t.Helper()
	return s.clientThatReads(t, longEnough)
}

// clientThatReads is one whose reads take no longer than a timeout, with which it tries
// again.
func (s *server) clientThatReads(t testing.TB, timeout time.Duration) *goredis.Client {
	t.Helper()
	return goredis.NewClient(&goredis.Options{
		Network: "unix", Addr: s.socket, ContextTimeoutEnabled: true, DialerRetries: 1, MinRetryBackoff: -1, MaxRetryBackoff: -1,
		DialTimeout: longEnough, ReadTimeout: timeout, WriteTimeout: longEnough, PoolTimeout: longEnough,
		MaxRetries: int(max(3, longEnough/timeout)),
	})
}

// growing tries with ever longer times whether something that depends on them holds: on a
// machine that pauses it may need one that is longer than the pauses.
func growing(t *testing.T, first time.Duration, holds func(time.Duration) bool) {
	t.Helper()
	for d := first; d < 2*longEnough; d *= 2 {
		if holds(d) {
			return
		}
		t.Logf("not with %v", d)
	}
	require.Fail(t, "not with any time")
}

// limiter is one of a router on s. Its deadline is long, since the machine may be busy; o
// may say another.
func (s *server) limiter(t testing.TB, o Options) *Limiter {
	t.Helper()
	if o.Client == nil {
		c := s.client(t)
		t.Cleanup(func() { _ = c.Close() })
		o.Client = c
	}
	if o.Deadline == 0 {
		o.Deadline = longEnough
	}
	l, err := New(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), longEnough)
		defer cancel()
		if s.cmd == nil { // nobody to tell
			cancel()
		}
		_ = l.Close(ctx)
	})
	return l
}

// settled waits until Redis has been told everything.
func (l *Limiter) settled(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool { return l.Stats().Waiting == 0 }, longEnough, time.Millisecond)
}

// slow is a way to a Redis that can be made slow, or cut.
type slow struct {
	listener net.Listener
	delay    atomic.Int64
}

func newSlow(t testing.TB, s *server) *slow {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(s.dir, "slow"))
	require.NoError(t, err)
	p := &slow{listener: l}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("unix", s.socket)
			if err != nil {
				_ = in.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })
			go p.copy(ctx, out, in)
			go p.copy(ctx, in, out)
		}
	}()
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		<-done
	})
	return p
}

func (p *slow) copy(ctx context.Context, to, from net.Conn) {
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(p.delay.Load())):
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// dump logs what Redis holds.
func (s *server) dump(t *testing.T) {
	t.Helper()
	c := s.client(t)
	defer c.Close()
	held, err := c.Eval(context.Background(), `
		local out = {}
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local kind, value = redis.call('TYPE', key).ok, ''
			if kind == 'string' then pcall(function() value = cjson.encode(cmsgpack.unpack(redis.call('GET', key))) end) end
			if kind == 'hash' then value = cjson.encode(redis.call('HKEYS', key)) end
			out[#out + 1] = key .. ' ' .. kind .. ' ' .. value
		end
		return out`, nil).Result()
	t.Logf("%q %v", held, err)
}
