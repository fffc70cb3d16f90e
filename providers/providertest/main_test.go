package providertest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	hello  = `[{"role":"user","content":"How are you"}]`
	chat   = "/v1/chat/completions"
	claude = "/v1/messages"
)

// client has connections of its own, which end with the test.
func client(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// ask posts a body and returns what came, whole.
func ask(t *testing.T, url, body string, header ...string) (status int, h http.Header, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Anthropic-Version", "2023-06-01")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := client(t).Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, string(data)
}

// parse is JSON as it comes.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	var o map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &o), text)
	return o
}

// at walks into JSON.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			o, _ := v.(map[string]any)
			v = o[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// frames takes a stream apart, the plain way.
func frames(t *testing.T, text string) (names, data []string) {
	t.Helper()
	s := bufio.NewScanner(strings.NewReader(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")))
	s.Buffer(nil, 16<<20)
	name, open := "", false
	for s.Scan() {
		line := s.Text()
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case len(line) == 0:
			open, name = false, ""
		case key == "event":
			name = value
		case key == "data":
			require.False(t, open, "two lines of data in one event")
			open = true
			names, data = append(names, name), append(data, value)
		}
	}
	require.NoError(t, s.Err())
	return names, data
}

func start(t *testing.T, d providertest.Dialect, o providertest.Options, script ...providertest.Answer) *providertest.Server {
	t.Helper()
	s := providertest.New(t, d, o)
	s.Script(script...)
	return s
}
