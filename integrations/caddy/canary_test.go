package kvsteercaddy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/internal/canary"
)

// quoting is a worker that is well, and answers as it is told, with what it was asked.
func quoting(t *testing.T, how *atomic.Value) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/health":
		case "/v1/models":
			_, _ = io.WriteString(w, `{"data":[{"id":"m","owned_by":"vllm"}]}`)
		case chatPath:
			asked, _ := io.ReadAll(q.Body)
			quoted, _ := json.Marshal(string(asked))
			text := strings.NewReplacer("QUOTED", string(quoted), "RAW", strings.NewReplacer("\r", "", "\n", "").Replace(string(asked))).Replace(how.Load().(string))
			if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
			}
		default:
			http.NotFound(w, q)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// What clients entrust to the gateway comes out in none of the module's logs at any level, in
// no field that it adds to the access log, in no decision and no answer of its own, whatever
// workers make of it.
func TestCanary(t *testing.T) {
	c := canary.New(t)
	r := newRig(t, fleettest.Config{}) // whose place the worker takes
	var how atomic.Value
	how.Store("")
	r.write("fleet.yaml", fmt.Sprintf("workers:\n  - {name: w0, url: %q}\n", quoting(t, &how)))
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n record DIR/decisions\n}")
	bodies := []string{
		chat(c.In("prompt"), false), chat(c.In("prompt"), true), `{"model":"m","messages":"` + c.In("messages") + `"}`,
		`{"model":"m","messages":[{"role":"user","content":"` + c.In("unended"), c.In("nojson"), `{"model":["` + c.In("model") + `"]}`,
		`{"model":"m","` + c.In("badkey") + `":nul}`, chat(c.In("prompt"), false) + c.In("behind"),
	}
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: "
	n := 0
	for _, answer := range []string{
		ok + "application/json\r\n\r\n{\"choices\":[{\"message\":{\"content\":QUOTED}}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}",
		ok + "application/json\r\n\r\n{\"choices\":[{\"message\":QUOTED", ok + "text/event-stream\r\n\r\ndata: {\"error\":{\"message\":QUOTED}}\n\n",
		ok + "text/event-stream\r\n\r\ndata: {\"choices\":QUOTED\n\n", ok + "application/json\r\nContent-Length: 100000\r\n\r\nRAW",
		"HTTP/1.1 400 Bad Request\r\nX-Echo: RAW\r\n\r\n{\"error\":{\"message\":QUOTED}}",
		"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\n\r\nRAW", "HTTP/1.1 500 RAW\r\nX-Of: 1\r\n\r\nRAW",
		"HTTP/1.1 200 RAW\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\nRAW\r\n\r\n", "RAW\r\n\r\n", "",
	} {
		// Whoever failed is left alone for a while, and nothing would come to it.
		how.Store(ok + "application/json\r\n\r\n{}")
		require.Eventually(t, func() bool {
			n++
			return r.ask("hi").status == http.StatusOK
		}, patience, moment)
		how.Store(answer)
		for _, body := range bodies {
			req := r.request(t.Context(), http.MethodPost, chatPath, body,
				"Authorization", "Bearer "+c.In("bearer"), "X-Api-Key", c.In("key"), "Cookie", c.In("cookie"), "X-Session-Id", c.In("session"))
			resp, err := r.client.Do(req)
			if err != nil {
				continue // an answer that nobody can read is torn off
			}
			n++
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if answer == "" || strings.HasPrefix(answer, "RAW") { // else it is the worker's word
				c.Text("an answer", fmt.Sprint(resp.Header, string(text)))
			}
		}
	}
	require.Positive(t, n)
	for _, a := range r.accessLog(n) {
		c.JSON("the access log", a.Kvsteer)
	}
	r.closes()
	decisions, err := os.ReadFile(r.path("decisions"))
	require.NoError(t, err)
	require.NotEmpty(t, decisions)
	c.Text("the decision log", string(decisions))
	log, err := os.ReadFile(r.path("log"))
	require.NoError(t, err)
	ours := 0
	for line := range strings.Lines(string(log)) {
		// Caddy's own lines about a request show all of its headers but some.
		if strings.Contains(line, "kvsteer") && !strings.Contains(line, `"logger":"http.log.`) {
			ours++
			c.Text("the log", line)
		}
	}
	require.Positive(t, ours, "something was logged")
}
