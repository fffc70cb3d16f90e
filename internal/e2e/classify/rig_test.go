//go:build e2e

package classify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/policy/classify"
)

func TestMain(m *testing.M) { leak.Main(m) }

// setUp installs what the tests need, the first time, and returns where it is.
func setUp(t *testing.T) map[string]string {
	t.Helper()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "bash", "setup.sh")
	cmd.Stdout, cmd.Stderr = &out, &log
	require.NoError(t, cmd.Run(), "%s", log.String())
	env := map[string]string{}
	for line := range strings.Lines(out.String()) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[key] = value
	}
	return env
}

// server is a service in a process group of its own.
type server struct {
	url string
	cmd *exec.Cmd
	// ended is closed when the process has.
	ended chan struct{}
}

// serve starts a program that serves at a port, and waits until it does. It is killed
// with the test.
func serve(t *testing.T, name string, argv func(port int) []string) *server {
	t.Helper()
	port := freePort(t)
	dir := os.Getenv("KVSTEER_E2E_OUT")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "kvsteer-e2e-classify")
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	log, err := os.Create(filepath.Join(dir, name+".log"))
	require.NoError(t, err)
	args := argv(port)
	s := &server{url: fmt.Sprintf("http://127.0.0.1:%d", port), cmd: exec.Command(args[0], args[1:]...), ended: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, s.cmd.Start())
	go func() {
		_ = s.cmd.Wait()
		_ = log.Close()
		close(s.ended)
	}()
	t.Cleanup(s.kill)
	for deadline := time.Now().Add(20 * time.Minute); ; time.Sleep(time.Second) {
		select {
		case <-s.ended:
			t.Fatalf("%s ended while it started: see %s", name, log.Name())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: see %s", name, log.Name())
		}
		if resp, getErr := client(t).Get(s.url + "/health"); getErr == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return s
			}
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	addr, ok := l.Addr().(*net.TCPAddr)
	require.True(t, ok)
	return addr.Port
}

func (s *server) signal(sig syscall.Signal) { _ = syscall.Kill(-s.cmd.Process.Pid, sig) }

// kill ends the process and its children at once.
func (s *server) kill() {
	s.signal(syscall.SIGKILL)
	<-s.ended
}

// client is an HTTP client whose connections end with the test.
func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 5 * time.Minute}
}

// counted counts the calls of a client.
type counted struct {
	http.RoundTripper

	calls atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// endpoint is a service's address for an adapter, and the count of calls to it.
func endpoint(t *testing.T, url string) (classify.Endpoint, *counted) {
	t.Helper()
	c := client(t)
	n := &counted{RoundTripper: c.Transport}
	c.Transport = n
	return classify.Endpoint{URL: url, Client: c}, n
}

// said is a request of one message for each text.
func said(texts ...string) *classify.Input {
	var in classify.Input
	for _, text := range texts {
		in.AddText("user", text)
	}
	return &in
}

// judged is what an adapter says of a request, without a deadline that matters.
func judged(t *testing.T, c classify.Classifier, texts ...string) (*classify.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out classify.Result
	err := c.Classify(ctx, said(texts...), &out)
	return &out, err
}

// call sends a request as it stands.
func call(t *testing.T, method, url, body string) (status int, contentType string, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client(t).Do(req)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	answer, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header.Get("Content-Type"), answer
}

// form is a JSON value without what it says: names, kinds and nesting. What an array
// holds is a set of forms.
func form(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for name, value := range v {
			m[name] = form(value)
		}
		return m
	case []any:
		var forms []string
		for _, value := range v {
			text, _ := json.Marshal(form(value))
			if !slices.Contains(forms, string(text)) {
				forms = append(forms, string(text))
			}
		}
		slices.Sort(forms)
		return forms
	default:
		return fmt.Sprintf("%T", v)
	}
}

// question is a request, and what it is about.
type question struct{ name, method, path, body string }

// sameForms asks a real service and its fake the same, and compares the answers.
func sameForms(t *testing.T, actual, fake string, questions []question) {
	t.Helper()
	for _, q := range questions {
		status, contentType, text := call(t, q.method, actual+q.path, q.body)
		fakeStatus, fakeType, fakeText := call(t, q.method, fake+q.path, q.body)
		var v, fakeV any
		require.NoError(t, json.Unmarshal(text, &v), "%s: %s", q.name, text)
		require.NoError(t, json.Unmarshal(fakeText, &fakeV), "%s: %s", q.name, fakeText)
		require.Equal(t, status, fakeStatus, "%s: %s", q.name, text)
		require.Equal(t, contentType, fakeType, q.name)
		require.Equal(t, form(v), form(fakeV), "%s:\nreal %s\nfake %s", q.name, text, fakeText)
	}
}

// A comparison that would take everything for equal proves nothing.
func TestFormsDiffer(t *testing.T) {
	of := func(text string) any {
		var v any
		require.NoError(t, json.Unmarshal([]byte(text), &v))
		return form(v)
	}
	require.Equal(t, of(`{"a":[1,2],"b":{"c":"x"}}`), of(`{"b":{"c":"y"},"a":[3]}`))
	for _, other := range []string{`{"a":[1],"b":{}}`, `{"a":["1"],"b":{"c":"x"}}`, `{"a":[1],"b":{"c":null}}`, `{"a":[],"b":{"c":"x"}}`, `[]`} {
		require.NotEqual(t, of(`{"a":[1,2],"b":{"c":"x"}}`), of(other), other)
	}
}
