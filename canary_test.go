package kvsteer_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/internal/canary"
	"github.com/kvsteer/kvsteer/policy"
)

// entrusted are requests with a canary in each field of the APIs that holds what clients
// entrust to the gateway, and broken ones.
func entrusted(c *canary.Canary) map[string][]string {
	in := c.In
	chat := `{"model":"m","stream":%s,"user":"` + in("user") + `","session_id":"` + in("session") + `","prompt_cache_key":"` + in("cachekey") +
		`","safety_identifier":"` + in("safety") + `","metadata":{"` + in("metakey") + `":"` + in("metadata") + `"},"stop":["` + in("stop") + `"],` +
		`"messages":[{"role":"system","content":"` + in("system") + `"},{"role":"user","name":"` + in("name") + `","content":[` +
		`{"type":"text","text":"` + in("prompt") + `"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + in("image") + `"}}]},` +
		`{"role":"assistant","reasoning_content":"` + in("reasoning") + `","tool_calls":[{"id":"` + in("callid") + `","type":"function","function":{"name":"f","arguments":"{\"a\":\"` + in("arguments") + `\"}"}}]},` +
		`{"role":"tool","tool_call_id":"` + in("callid") + `","content":"` + in("result") + `"}],` +
		`"tools":[{"type":"function","function":{"name":"` + in("tool") + `","description":"` + in("description") + `","parameters":{"type":"object","properties":{"` + in("property") + `":{}}}}}],` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"title":"` + in("schema") + `"}}},"cache_salt":"` + in("salt") + `",` +
		`"kv_transfer_params":{"remote_host":"` + in("transfer") + `"},"` + in("unknownkey") + `":"` + in("unknown") + `"}`
	plain := fmt.Sprintf(chat, "false")
	all := map[string][]string{
		"/v1/chat/completions": {
			plain, fmt.Sprintf(chat, "true"), `{"model":"m","messages":"` + in("messages") + `"}`, `{"model":"m","` + in("badkey") + `":nul}`,
			`{"model":"m","messages":[{"role":"user","content":"` + in("unended"), in("nojson"), `["` + in("array") + `"]`,
			`{"model":"m","messages":[{"role":"` + in("role") + `","content":{"a":"` + in("content") + `"}}]}`, `{"model":["` + in("model") + `"]}`,
			plain + in("behind"), "\x1f\x8b" + in("gzip"), strings.Replace(plain, `"model":"m",`, "", 1), `{"model":"m","messages":[],"stream":"` + in("stream") + `"}`,
			`{"model":"m","max_tokens":"` + in("maxtokens") + `","n":"` + in("n") + `","messages":[{"role":"user","content":"` + in("short") + `"}]}`,
			"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"" + in("invalid") + "\xff\xfe\\ud800\"}]}",
		},
		"/v1/completions":           {`{"model":"m","prompt":"` + in("prompt") + `","suffix":"` + in("suffix") + `"}`, `{"model":"m","prompt":[1,"` + in("ids") + `"]}`},
		"/v1/messages":              {`{"model":"m","max_tokens":9,"system":"` + in("system") + `","messages":[{"role":"user","content":"` + in("prompt") + `"}]}`},
		"/v1/responses":             {`{"model":"m","input":"` + in("prompt") + `","instructions":"` + in("instructions") + `","previous_response_id":"` + in("previous") + `"}`},
		"/v1/embeddings":            {`{"model":"m","input":["` + in("prompt") + `"]}`},
		"/v1/messages/count_tokens": {`{"model":"m","messages":[{"role":"user","content":"` + in("prompt") + `"}]}`},
		"/v1/rerank":                {`{"model":"m","query":"` + in("prompt") + `"}`},
		"/v1/score":                 {`{"model":"m","a":"` + in("prompt") + `"}`, in("nojson")},
	}
	for i := 1; i < 12; i++ { // cut anywhere
		all["/v1/chat/completions"] = append(all["/v1/chat/completions"], plain[:len(plain)*i/12])
	}
	return all
}

// secrets are the headers of a request in which clients send what is nobody else's.
func secrets(c *canary.Canary, h http.Header) {
	for _, name := range []string{
		"Authorization", "X-Api-Key", "Api-Key", "Cookie", "Proxy-Authorization", "X-Goog-Api-Key", "X-Amz-Security-Token",
		"X-Session-Id", "X-Slo-Ttft-Ms", "X-Request-Id", "X-Kvsteer-Tags", "Traceparent", "X-Forwarded-For", "Idempotency-Key", "User-Agent",
	} {
		h.Set(name, "Bearer "+c.In(strings.ToLower(strings.ReplaceAll(name, "-", ""))))
	}
	h.Set("Content-Type", "application/json")
}

// answers are the ways in which a worker answers, most of them with what it was asked.
func answers() map[string]http.HandlerFunc {
	raw := func(text func(asked string) string) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body)
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			asked := strings.NewReplacer("\r", "", "\n", "").Replace(string(body))
			_, _ = io.WriteString(conn, text(asked))
		}
	}
	quoting := func(status int, kind, before, after string) http.HandlerFunc {
		return func(w http.ResponseWriter, q *http.Request) {
			body, _ := io.ReadAll(q.Body)
			w.Header().Set("Content-Type", kind)
			w.Header().Set("X-Echo", q.Header.Get("Authorization"))
			w.Header().Set("Retry-After", q.Header.Get("Authorization"))
			w.WriteHeader(status)
			quoted, _ := json.Marshal(string(body))
			fmt.Fprintf(w, "%s%s%s", before, quoted, after)
		}
	}
	return map[string]http.HandlerFunc{
		"well":              whole,
		"quotes, 200":       quoting(http.StatusOK, "application/json", `{"choices":[{"message":{"content":`, `}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`),
		"quotes, 400":       quoting(http.StatusBadRequest, "application/json", `{"error":{"message":`, `}}`),
		"quotes, 401":       quoting(http.StatusUnauthorized, "application/json", `{"error":{"message":`, `}}`),
		"quotes, 429":       quoting(http.StatusTooManyRequests, "application/json", `{"error":{"message":`, `}}`),
		"quotes, 500":       quoting(http.StatusInternalServerError, "text/plain", ``, ``),
		"quotes, 503":       quoting(http.StatusServiceUnavailable, "application/json", `{"error":{"message":`, `}}`),
		"no JSON":           quoting(http.StatusOK, "application/json", `{"choices":[{"message":`, ``),
		"usage is text":     quoting(http.StatusOK, "application/json", `{"choices":[],"usage":{"prompt_tokens":`, `}}`),
		"error in stream":   quoting(http.StatusOK, "text/event-stream", `data: {"error":{"message":`, "}}\n\n"),
		"no JSON in events": quoting(http.StatusOK, "text/event-stream", `data: {"choices":`, "\n\n"),
		"odd status":        raw(func(asked string) string { return "HTTP/1.1 200 " + asked + "\r\nContent-Length: 0\r\n\r\n" }),
		"no HTTP":           raw(func(asked string) string { return asked + "\r\n\r\n" }),
		"no status":         raw(func(asked string) string { return "HTTP/1.1 " + asked + "\r\n\r\n" }),
		"no header":         raw(func(asked string) string { return "HTTP/1.1 200 OK\r\n" + asked + "\r\n\r\n" }),
		"no header, a blank": raw(func(asked string) string {
			return "HTTP/1.1 200 OK\r\n You asked, my friend: " + strings.ReplaceAll(asked, `"`, "") + "\r\n\r\n"
		}),
		"odd header": raw(func(asked string) string {
			return "HTTP/1.1 200 OK\r\nYou asked, my friend: " + strings.ReplaceAll(asked, `"`, "") + "\r\n\r\n"
		}),
		"odd header, later": raw(func(asked string) string {
			return "HTTP/1.1 200 OK\r\nContent-Length: 0\r\na, b: " + strings.ReplaceAll(asked, `"`, "") + "\r\n\r\n"
		}),
		"odd trailer, no quotes": raw(func(asked string) string {
			return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n6\r\ndata: \r\n0\r\na, b: " +
				strings.ReplaceAll(asked, `"`, "") + "\r\n\r\n"
		}),
		"no length":  raw(func(asked string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + asked + "\r\n\r\n" }),
		"odd coding": raw(func(asked string) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + asked + "\r\n\r\n" }),
		"no chunk": raw(func(asked string) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + asked + "\r\n"
		}),
		"odd trailer": raw(func(asked string) string {
			return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n6\r\ndata: \r\n0\r\n" + asked + "\r\n\r\n"
		}),
		"breaks off": raw(func(asked string) string {
			return "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + asked
		}),
		"says nothing": raw(func(string) string { return "" }),
	}
}

// shown gives the Canary everything that a router tells its operator.
func (r *rig) shown(c *canary.Canary) {
	r.observed.mu.Lock()
	defer r.observed.mu.Unlock()
	for _, d := range r.observed.decisions {
		c.JSON("a decision", d)
		c.Text("a decision", d.String())
	}
	for _, d := range r.observed.rejected {
		c.JSON("a rejection", d)
	}
	for _, o := range r.observed.outcomes {
		c.Error("an outcome", o.Err)
		c.JSON("an outcome", o)
	}
	for i := range r.observed.trust {
		c.JSON("a change of trust", r.observed.trust[i])
	}
	c.JSON("the statistics", r.router.Stats())
	for _, m := range r.fleet.Snapshot().Members() {
		c.JSON("a worker's health", m.Health())
	}
}

// What clients entrust to the gateway comes out at the worker that serves them, and nowhere
// else: in no log, error, decision, outcome or figure, whatever goes wrong.
func TestCanary(t *testing.T) {
	t.Parallel()
	for name, serve := range answers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := canary.New(t)
			w := worker{serve: func(w http.ResponseWriter, q *http.Request) { serve(w, q) }} // /tokenize, too
			r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithLogger(c.Logger()), kvsteer.WithMaxBody(1 << 20)}}, w, w)
			sent := 0
			for path, bodies := range entrusted(c) {
				for _, body := range bodies {
					sent++
					q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://any"+path+"?key="+c.In("query"), strings.NewReader(body))
					q.RequestURI = ""
					secrets(c, q.Header)
					if sent%2 == 0 {
						q.Header.Del("X-Slo-Ttft-Ms") // which is refused
					}
					resp, err := r.transport.RoundTrip(q)
					c.Error("the error of a request", err)
					if err != nil {
						w := httptest.NewRecorder()
						kvsteer.WriteError(w, q, err)
						c.Text("the answer to the client", w.Body.String())
						continue
					}
					_, err = io.Copy(io.Discard, resp.Body)
					c.Error("the error of an answer", err)
					require.NoError(t, resp.Body.Close())
				}
			}
			require.Positive(t, sent)
			r.idle()
			r.shown(c)
		})
	}
}

// The same for gateways that drive a request themselves, and for code of theirs that fails
// with what it was given.
func TestCanaryByHand(t *testing.T) {
	t.Parallel()
	c := canary.New(t)
	r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithLogger(c.Logger())}}, worker{serve: prompts(whole)}, worker{serve: prompts(whole)})
	for _, body := range entrusted(c)["/v1/chat/completions"] {
		q := &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(body), Header: http.Header{}}
		secrets(c, q.Header)
		q.Header.Del("X-Slo-Ttft-Ms")
		d, err := r.router.Explain(t.Context(), q)
		c.Error("Explain", err)
		if d != nil {
			c.JSON("Explain", d)
			c.Text("Explain", d.String())
		}
		sel, err := r.router.Select(t.Context(), q)
		c.Error("Select", err)
		if err != nil {
			continue
		}
		a := sel.Answer(http.StatusOK, http.Header{"Content-Type": {"text/event-stream"}})
		a.Pass([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"" + c.In("answer") + "\"}}]}\n\ndata: {\"error\":\"" + c.In("answer") + "\"}\n\n"))
		a.Break(io.ErrUnexpectedEOF)
	}
	r.idle()
	r.shown(c)
}

// A policy's conditions see headers, and say nothing of what is in them; nor of what code of
// the gateway's own fails with.
func TestCanaryInConditions(t *testing.T) {
	t.Parallel()
	c := canary.New(t)
	set, err := policy.Load("canary.yaml", []byte(`apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: canary}
spec:
  rules:
  - name: gold
    matches: [{header: {name: X-Secret, prefix: gold}}]
    route: {select: [{type: Local}]}
  - name: reject
    matches: [{header: {name: X-Secret, prefix: c4}}]
    route:
      exclude: [{name: all, drop: {backend: {type: Local}}}]
      onEmpty: {action: Reject, status: 403, message: not allowed}
`), policy.Options{})
	require.NoError(t, err)
	r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithLogger(c.Logger()), kvsteer.WithPolicy(set)}}, worker{serve: prompts(whole)})
	body := entrusted(c)["/v1/chat/completions"][0]
	for _, secret := range []string{"gold " + c.In("condition"), c.In("condition")} {
		q := &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(body), Header: http.Header{"X-Secret": {secret}}}
		sel, err := r.router.Select(t.Context(), q)
		c.Error("Select", err)
		if err == nil {
			sel.Abort(nil)
		}
	}
	require.Len(t, r.observed.rejections(), 1)
	r.idle()
	r.shown(c)
}
