//go:build e2e

package kubernetes_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// realCluster is etcd and a kube-apiserver, without controllers and nodes: pods are
// what the tests say they are.
type realCluster struct {
	t         *testing.T
	bin, dir  string
	etcdPort  string
	port      string
	apiserver *exec.Cmd
	log       *os.File
	// Admin is the address and the credentials of who may do everything.
	Admin *rest.Config
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	return port
}

func newRealCluster(t *testing.T) *realCluster {
	t.Helper()
	build := exec.Command("../../scripts/kube-apiserver.sh")
	build.Stderr = os.Stderr
	out, err := build.Output()
	require.NoError(t, err)
	c := &realCluster{t: t, bin: strings.TrimSpace(string(out)), dir: t.TempDir(), etcdPort: freePort(t), port: freePort(t)}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	c.write("sa.key", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	c.write("tokens.csv", "admin-token,admin,admin,system:masters\n")
	c.log, err = os.Create(c.path("log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(c.path("log"))
			t.Logf("the end of the servers' log:\n%s", text[max(0, len(text)-3000):])
		}
	})
	etcd := exec.Command(filepath.Join(c.bin, "etcd"), "--data-dir", c.path("etcd"),
		"--listen-client-urls", "http://127.0.0.1:"+c.etcdPort, "--advertise-client-urls", "http://127.0.0.1:"+c.etcdPort,
		"--listen-peer-urls", "http://127.0.0.1:"+freePort(t), "--unsafe-no-fsync", "--log-level", "error")
	etcd.Stdout, etcd.Stderr = c.log, c.log
	require.NoError(t, etcd.Start())
	t.Cleanup(func() { end(etcd) })
	c.Admin = &rest.Config{
		Host: "https://127.0.0.1:" + c.port, BearerToken: "admin-token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1,
	}
	c.write("kubeconfig", fmt.Sprintf(kubeconfig, c.Admin.Host, c.Admin.BearerToken))
	c.Start()
	t.Cleanup(c.Stop)
	return c
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: "%s"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

func (c *realCluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *realCluster) write(name, text string) {
	c.t.Helper()
	require.NoError(c.t, os.WriteFile(c.path(name), []byte(text), 0o600))
}

// Start starts the API server and waits until it is ready.
func (c *realCluster) Start() {
	c.t.Helper()
	c.apiserver = exec.Command(filepath.Join(c.bin, "kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:"+c.etcdPort, "--secure-port="+c.port, "--bind-address=127.0.0.1",
		"--cert-dir="+c.path("certs"), "--token-auth-file="+c.path("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.path("sa.key"),
		"--service-account-signing-key-file="+c.path("sa.key"), "--service-cluster-ip-range=10.96.0.0/16",
		"--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none", "--shutdown-delay-duration=0s")
	c.apiserver.Stdout, c.apiserver.Stderr = c.log, c.log
	require.NoError(c.t, c.apiserver.Start())
	require.Eventually(c.t, func() bool {
		out, err := c.kubectl("", "get", "--raw", "/readyz")
		return err == nil && strings.TrimSpace(out) == "ok"
	}, 3*time.Minute, 200*time.Millisecond)
}

// Stop ends the API server.
func (c *realCluster) Stop() { end(c.apiserver) }

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	late.Stop()
}

// kubectl runs kubectl as the administrator and returns what it prints.
func (c *realCluster) kubectl(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), append([]string{"--kubeconfig", c.path("kubeconfig")}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+c.dir)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (c *realCluster) must(stdin string, args ...string) string {
	c.t.Helper()
	out, err := c.kubectl(stdin, args...)
	require.NoError(c.t, err, out)
	return out
}

// wire passes connections on to the API server until it is cut.
type wire struct {
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	conns    map[net.Conn]bool
	wg       sync.WaitGroup
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &wire{listener: l, conns: map[net.Conn]bool{}}
	w.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil || !w.hold(in, out) {
				_ = in.Close()
				if out != nil {
					_ = out.Close()
				}
				continue
			}
			w.wg.Go(func() { _, _ = io.Copy(out, in); w.drop(in, out) })
			w.wg.Go(func() { _, _ = io.Copy(in, out); w.drop(in, out) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		w.Cut(true)
		w.wg.Wait()
	})
	return w
}

func (w *wire) hold(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
	return !w.cut
}

func (w *wire) drop(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(w.conns, c)
	}
}

// Cut ends all connections, and new ones at once until it is undone.
func (w *wire) Cut(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = on
	for c := range w.conns {
		_ = c.Close()
	}
}
