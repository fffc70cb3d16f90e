//go:build e2e

package prompt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// script runs one of the folder's scripts and returns what it prints.
func script(t *testing.T, argv ...string) string {
	t.Helper()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "bash", argv...)
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, cmd.Run(), "%v:\n%s", argv, log.String())
	return strings.TrimSpace(out.String())
}

// server is a vLLM process that renders, or serves, model "m".
type server struct {
	url  string
	http *http.Client
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return addr.Port
}

// launch runs a script that becomes a server on the port, waits until it answers and
// returns its URL. The server ends with the test.
func launch(t *testing.T, name string, port int, argv ...string) string {
	t.Helper()
	url, stop := start(t, name, port, argv...)
	t.Cleanup(stop)
	return url
}

// servers are those that several tests use; they end when all tests have.
var servers struct {
	sync.Mutex

	urls map[string]string
	stop []func()
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range servers.stop {
		stop()
	}
	os.Exit(code)
}

// share is launch for a server that stays for the tests that come after.
func share(t *testing.T, name string, argv func(port int) []string) string {
	t.Helper()
	servers.Lock()
	defer servers.Unlock()
	if url := servers.urls[name]; url != "" {
		return url
	}
	port := freePort(t)
	url, stop := start(t, name, port, argv(port)...)
	if servers.urls == nil {
		servers.urls = map[string]string{}
	}
	servers.urls[name] = url
	servers.stop = append(servers.stop, stop)
	return url
}

func start(t *testing.T, name string, port int, argv ...string) (url string, stop func()) {
	t.Helper()
	dir := os.Getenv("KVSTEER_E2E_OUT")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "kvsteer-e2e-prompt")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	url = fmt.Sprintf("http://127.0.0.1:%d", port)
	log := filepath.Join(dir, name+".log")
	out, err := os.Create(log)
	require.NoError(t, err)
	cmd := exec.Command("bash", argv...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		_ = out.Close()
		close(done)
	}()
	stop = func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-done
	}
	deadline := time.After(20 * time.Minute)
	for {
		select {
		case <-done:
			text, _ := os.ReadFile(log)
			t.Fatalf("%s ended:\n%s", name, text[max(0, len(text)-3000):])
		case <-deadline:
			stop()
			t.Fatalf("%s does not answer; see %s", name, log)
		case <-time.After(time.Second):
		}
		if resp, getErr := http.Get(url + "/health"); getErr == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url, stop
			}
		}
	}
}

// post sends a request and returns the reply of a 200, else an error.
func (s *server) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	reply, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, refused{resp.StatusCode, string(reply)}
	}
	return reply, nil
}

type refused struct {
	status int
	reply  string
}

func (r refused) Error() string { return fmt.Sprintf("%d: %s", r.status, r.reply) }

type rendered struct {
	IDs []json.Number `json:"token_ids"` // the engine repeats ids of any size
}

// render returns the ids of the request's first prompt, and the number of all.
func (s *server) render(ctx context.Context, api prompt.API, body []byte) (first []uint32, count int, err error) {
	reply, err := s.post(ctx, api.Path()+"/render", body)
	var no refused
	if err != nil && !errors.As(err, &no) {
		reply, err = s.post(ctx, api.Path()+"/render", body) // a connection may be reset once
	}
	if err != nil {
		return nil, 0, err
	}
	var many []rendered
	if api == prompt.Completions {
		err = json.Unmarshal(reply, &many)
	} else {
		many = make([]rendered, 1)
		err = json.Unmarshal(reply, &many[0])
	}
	if err != nil || len(many) == 0 {
		return nil, 0, errors.Join(err, errors.New("no ids in the reply"))
	}
	for _, r := range many {
		count += len(r.IDs)
	}
	for _, id := range many[0].IDs {
		n, parseErr := strconv.ParseUint(id.String(), 10, 32)
		if parseErr != nil {
			return nil, 0, refused{http.StatusOK, "ids that no engine can have"}
		}
		first = append(first, uint32(n))
	}
	return first, count, nil
}
