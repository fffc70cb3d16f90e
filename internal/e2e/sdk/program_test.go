//go:build e2e

package sdk

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/providers/providertest"
)

// TestProgram goes the whole way of somebody who runs the gateway and writes no code: the
// program is built, reads its settings, providers and policy from files, and stands between
// each SDK and a service of the other's dialect.
func TestProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "nethttp")
	build(t, program)
	claude := providertest.New(t, providertest.Anthropic, providertest.Options{Key: "key-of-claude"})
	gpt := providertest.New(t, providertest.OpenAI, providertest.Options{Key: "key-of-gpt"})
	p := run(t, program, claude, gpt)

	for _, c := range []struct {
		name  string
		make  func(*place) client
		model string
		fake  *providertest.Server
		// names are those of the service for the model, and of the path that it is asked at.
		upstream, path string
		stop           string
		limited        string
	}{
		{"chat", newChat, "house-claude", claude, "claude-opus-4-7", "/v1/messages", "tool_calls", "rate_limit_exceeded"},
		{"messages", newMessages, "house-gpt", gpt, "gpt-5", "/v1/chat/completions", "tool_use", "rate_limit_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := *p
			at.model = c.model
			sdk := c.make(&at)
			text := providertest.Answer{Thinking: "Well, well.", Text: "Good morning, all.", Usage: providertest.Usage{Input: 120, CacheRead: 100, Output: 7}}
			c.fake.Script(text)
			events := 0
			got, err := sdk.stream(t.Context(), &question{system: "Be kind.", effort: "low", turns: []turn{{text: "Hello"}}}, func() { events++ })
			require.NoError(t, err, c.fake.Last().Problem)
			assert.Greater(t, events, 3)
			assert.Equal(t, said{
				Model: c.model, Text: text.Text, Thinking: text.Thinking, Stop: got.Stop, Input: 120, Cached: 100, Output: 7,
			}, got)
			assert.Equal(t, []any{c.upstream, c.path}, []any{c.fake.Last().Model, c.fake.Last().Path})
			assert.Contains(t, string(c.fake.Last().Body), "Be kind.")

			q := &question{tools: []string{"f", "g"}, turns: []turn{
				{text: "Go"}, {calls: []call{{ID: "call_1", Name: "f", Arguments: `{"a":1}`}}, results: []string{"one"}},
			}}
			answer := providertest.Answer{Text: "Once more.", Calls: []providertest.Call{{ID: "call_2", Name: "g", Arguments: `{"a":2}`}}}
			c.fake.Script(answer, answer)
			whole, err := sdk.whole(t.Context(), q)
			require.NoError(t, err, c.fake.Last().Problem)
			streamed, err := sdk.stream(t.Context(), q, func() {})
			require.NoError(t, err, c.fake.Last().Problem)
			assert.Equal(t, whole, streamed)
			assert.Equal(t, []any{"Once more.", []call{{ID: "call_2", Name: "g", Arguments: `{"a":2}`}}, c.stop}, []any{whole.Text, whole.Calls, whole.Stop})
			for _, word := range []string{"call_1", "one", `"f"`, `"g"`} {
				assert.Contains(t, string(c.fake.Last().Body), word)
			}

			c.fake.Script(providertest.Answer{Text: "A pixel."})
			got, err = sdk.whole(t.Context(), &question{turns: []turn{{text: "What is it?", image: true}}})
			require.NoError(t, err, c.fake.Last().Problem)
			assert.Equal(t, []any{"A pixel.", 1}, []any{got.Text, c.fake.Last().Images})

			c.fake.Script(providertest.Answer{Fault: providertest.ContextTooLong})
			_, err = sdk.stream(t.Context(), hello(), func() {})
			status, _ := sdk.failure(err)
			assert.Equal(t, http.StatusBadRequest, status)
			c.fake.Script(providertest.Answer{Fault: providertest.RateLimited, RetryAfter: time.Hour})
			_, err = sdk.whole(t.Context(), hello())
			status, kind := sdk.failure(err)
			assert.Equal(t, []any{http.StatusTooManyRequests, c.limited}, []any{status, kind})
		})
	}
}

func build(t *testing.T, program string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	c.Dir = filepath.Join("..", "..", "..", "examples", "nethttp")
	c.Env = append(os.Environ(), "GOWORK=off")
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// run starts the program with files as docs/gateway.md and docs/providers.md have them, and
// stops it in the end as an init system does.
func run(t *testing.T, program string, claude, gpt *providertest.Server) *place {
	t.Helper()
	dir := t.TempDir()
	address := freeAddress(t)
	for name, text := range map[string]string{
		"gateway.yaml": "listen: " + address + "\nfleet: {file: fleet.yaml}\npolicy: policy.yaml\nproviders: providers.yaml\nnotice: 0s\ngrace: 10s\n",
		"fleet.yaml":   "workers: []\n", "policy.yaml": outside, "claude.key": "key-of-claude\n", "gpt.key": "key-of-gpt\n",
		"providers.yaml": manifest("claude", "Anthropic", claude.BaseURL(), "{name: house-claude, upstreamName: claude-opus-4-7}") + "---\n" +
			manifest("gpt", "OpenAI", gpt.BaseURL(), "{name: house-gpt, upstreamName: gpt-5}"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var log bytes.Buffer
	c := exec.Command(program, "-config", filepath.Join(dir, "gateway.yaml"))
	c.Stdout, c.Stderr = &log, &log
	require.NoError(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = c.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case err := <-ended:
			assert.NoError(t, err, "%s", log.String())
			for _, secret := range []string{"key-of-claude", "key-of-gpt"} {
				assert.NotContains(t, log.String(), secret)
			}
		case <-time.After(patience):
			_ = c.Process.Kill()
			t.Errorf("the program doesn't stop: %v\n%s", <-ended, log.String())
		}
	})
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			require.NoError(t, conn.Close())
			break
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the program ended: %v\n%s", err, log.String())
		default:
		}
		require.True(t, time.Now().Before(end), "nobody listens")
	}
	url := "http://" + address
	return &place{url: url, v1: url + "/v1", key: "client-key", client: &http.Client{Transport: transport}}
}

func manifest(name, kind, url, model string) string {
	return fmt.Sprintf(strings.TrimLeft(`
apiVersion: kvsteer.dev/v1alpha1
kind: InferenceProvider
metadata: {name: %s}
spec:
  kind: %s
  url: %s
  credentials: {file: %s.key}
  models: [%s]
`, "\n"), name, kind, url, name, model)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
