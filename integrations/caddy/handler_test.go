package kvsteercaddy

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

const plain = "kvsteer {\n fleet DIR/fleet.yaml\n}"

// A request is answered by a worker; which one, and why, is in placeholders and in the
// access log, beside what the engine said.
func TestAnswers(t *testing.T) {
	r := newRig(t, fleettest.Config{}, fleettest.Config{})
	r.load("header >X-Why \"{http.kvsteer.worker} {http.kvsteer.rule} {http.kvsteer.attempt} {http.kvsteer.model}\"\n" + plain)
	text := fleettest.Text(1, 200)
	first := r.ask(text)
	require.Equal(t, http.StatusOK, first.status, first.body)
	require.Contains(t, first.body, `"chat.completion"`)
	require.Regexp(t, `^w[01] .+ 1 m$`, first.header.Get("X-Why"))
	r.accessLog(1) // so that the second comes after it
	second := r.ask(text + " and more")
	require.Equal(t, first.header.Get("X-Why"), second.header.Get("X-Why"), "it goes where the prefix is")

	seen := r.accessLog(2)[1]
	require.Equal(t, http.StatusOK, seen.Status)
	require.Equal(t, strings.Fields(second.header.Get("X-Why"))[0], seen.Kvsteer["worker"])
	require.Greater(t, seen.Kvsteer["prompt_tokens"], 200.0)
	require.Greater(t, seen.Kvsteer["cached_tokens"], 100.0)
	require.Greater(t, seen.Kvsteer["reported_cached_tokens"], 100.0)
	require.Greater(t, seen.Kvsteer["predicted_ttft_ms"], 0.0)
	require.Positive(t, seen.Kvsteer["output_tokens"])
	require.NotContains(t, seen.Kvsteer, "error")
	r.idle()
	noTrails(t)
}

// Other paths of the API are served as well, and those of engines' administration are not.
func TestOtherPaths(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load(plain)
	require.Contains(t, r.send(http.MethodGet, "/v1/models", "").body, `"m"`)
	require.Equal(t, http.StatusOK, r.send(http.MethodPost, "/v1/embeddings", `{"model":"m","input":"hi"}`).status)
	require.Equal(t, http.StatusOK, r.send(http.MethodPost, "/v1/messages", `{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`).status)
	require.Equal(t, http.StatusNotFound, r.send(http.MethodPost, "/reset_prefix_cache", "").status)
	require.Equal(t, http.StatusNotFound, r.send(http.MethodGet, "/nothing/here", "").status)
}

// What a worker sends reaches the client at once, compressed or not, and a client that
// leaves ends it at the engine.
func TestStreams(t *testing.T) {
	for name, directives := range map[string]string{"plain": plain, "encode": "encode\n" + plain, "HTTP2": plain} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fleettest.Config{})
			if name == "HTTP2" {
				r.speakHTTP2()
			}
			r.load("log_skip /nothing\n" + directives)
			r.engines[0].Faults().Hang(fleettest.HangMidStream)
			resp, from := r.stream(t.Context(), "hi")
			require.Equal(t, name == "HTTP2", resp.ProtoMajor == 2)
			r.engines[0].Faults().Clear() // the first line was here before
			rest, err := io.ReadAll(from)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Contains(t, string(rest), "[DONE]")
			r.idle()

			r.engines[0].Faults().Hang(fleettest.HangMidStream)
			ctx, leave := context.WithCancel(t.Context())
			resp, _ = r.stream(ctx, "hello")
			require.Equal(t, 1, r.status()[0].InFlight)
			leave()
			_ = resp.Body.Close()
			r.idle()
			require.Equal(t, "w0", r.accessLog(2)[1].Kvsteer["worker"], "the log has it too")
			r.engines[0].Faults().Clear()
		})
	}
}

// An answer that breaks off breaks off at the client: it never looks complete.
func TestBrokenAnswer(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load(plain)
	r.engines[0].Faults().DieMidStream(1, 3)
	resp, from := r.stream(t.Context(), "hi")
	_, err := io.ReadAll(from)
	require.Error(t, err)
	require.NoError(t, resp.Body.Close())
	r.idle()
	require.Equal(t, "w0", r.accessLog(1)[0].Kvsteer["worker"])
}

// What the router refuses is answered in the dialect of the path, with the status and the
// time to try again that belong to it.
func TestErrors(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.write("rules.yaml", `apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: cards}
spec:
  rules:
  - name: not-here
    matches: [{tag: pii-detected}]
    route:
      exclude: [{name: all, drop: {}}]
      onEmpty: {action: Reject, status: 451, message: take the card number out}
`)
	r.load("header >X-Rule {http.kvsteer.rule}\nheader >X-Error {http.kvsteer.error}\n@small header X-Small *\nrequest_body @small {\n max_size 100\n}\n" +
		"kvsteer {\n fleet DIR/fleet.yaml\n policy DIR/rules.yaml\n max_body 10kB\n}")
	unknown := r.send(http.MethodPost, chatPath, `{"model":"other","messages":[]}`)
	require.Equal(t, http.StatusNotFound, unknown.status)
	require.Contains(t, unknown.body, `"unknown_model"`)
	require.Equal(t, "unknown model", unknown.header.Get("X-Error"))
	require.Empty(t, unknown.header.Get("X-Rule"), "no rule was asked")
	require.Equal(t, http.StatusBadRequest, r.send(http.MethodPost, chatPath, `{`).status)

	large := r.send(http.MethodPost, "/v1/messages", chat(strings.Repeat("x", 10_000), false))
	require.Equal(t, http.StatusRequestEntityTooLarge, large.status)
	require.Contains(t, large.body, `{"type":"error","error":{"type":"request_too_large"`)
	small := r.request(t.Context(), http.MethodPost, chatPath, chat(strings.Repeat("x", 200), false), "X-Small", "1")
	small.ContentLength = -1 // if it is known, Caddy answers by itself
	limited, err := r.client.Do(small)
	require.NoError(t, err)
	defer limited.Body.Close()
	text, err := io.ReadAll(limited.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestEntityTooLarge, limited.StatusCode, "of request_body")
	require.Contains(t, string(text), `"error":{`)

	rejected := r.ask("charge 4111 1111 1111 1111, please")
	require.Equal(t, http.StatusUnavailableForLegalReasons, rejected.status)
	require.Contains(t, rejected.body, "take the card number out")
	require.Contains(t, rejected.header.Get("X-Rule"), "not-here")
	for _, a := range r.accessLog(5) {
		require.NotContains(t, a.Kvsteer["error"], "4111")
	}

	require.NoError(t, r.engines[0].Kill())
	var gone answer
	require.Eventually(t, func() bool {
		gone = r.ask("hi")
		return gone.status == http.StatusServiceUnavailable
	}, patience, moment)
	require.NotEmpty(t, gone.header.Get("Retry-After"))
	require.Equal(t, http.StatusServiceUnavailable, r.send(http.MethodGet, "/healthz", "").status)
	require.NoError(t, r.engines[0].Revive())
	require.Eventually(t, func() bool { return r.ask("hi").status == http.StatusOK }, patience, moment)
	require.Equal(t, http.StatusOK, r.send(http.MethodGet, "/health", "").status)
	r.idle()
	noTrails(t)
}

// Clients can't say what only the router may say, nor for whom they ask.
func TestForgedHeaders(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load("@gold header Authorization gold\nvars @gold who acme\n" +
		"kvsteer {\n fleet DIR/fleet.yaml\n tenant {vars.who}\n record DIR/decisions\n}")
	r.ask("hi", "X-KVSteer-Worker", "w9", "x-kvsteer-rank", "7", "X-Kvsteer-Rank", "8", "x-data-parallel-rank", "7",
		"x_kvsteer_rank", "7", "X_Data_Parallel_Rank", "7",
		"X-Forwarded-For", "6.6.6.6", "X-Tenant", "evil", "Authorization", "gold")
	got := r.engines[0].Requests()[0].Header
	for name, values := range got {
		require.NotContains(t, strings.ToLower(name), "x-kvsteer")
		require.NotContains(t, values, "7")
		require.NotContains(t, values, "6.6.6.6")
	}
	r.ask("hi", "Who", "evil", "Vars.who", "evil")
	r.closes()
	require.Equal(t, []string{"acme", ""}, r.tenants())
}

// Where no worker is asked there is no worker's name, rather than the placeholder's.
func TestReadinessHasNoWorker(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load("header >X-Worker \"<{http.kvsteer.worker}>\"\n" + plain)
	got := r.send(http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "<>", got.header.Get("X-Worker"))
	require.Empty(t, r.accessLog(1)[0].Kvsteer)
}

// A pool that should be said and is not never means all workers.
func TestPoolFailsClosed(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.write("fleet.yaml", "workers:\n  - {name: w0, url: \""+r.engines[0].URL()+"\", pool: gold}\n")
	for name, pool := range map[string]string{"variable": "{vars.pool}", "unknown": "{http.nobody.says}"} {
		t.Run(name, func(t *testing.T) {
			r.load("@gold header Authorization gold\nvars @gold pool gold\nvars other 1\nheader >X-Error {http.kvsteer.error}\n" +
				"kvsteer {\n fleet DIR/fleet.yaml\n tenant {vars.who}\n pool " + pool + "\n}")
			got := r.ask("hi", "Authorization", "none")
			require.Equal(t, http.StatusServiceUnavailable, got.status, got.body)
			require.Contains(t, got.body, "which pool of workers")
			require.Equal(t, "no candidates", got.header.Get("X-Error"))
			require.Empty(t, r.engines[0].Requests())
			require.Equal(t, http.StatusOK, r.send(http.MethodGet, "/healthz", "").status)
		})
	}
	r.logged("an empty pool would be all workers")
	r.load("@gold header Authorization gold\nvars @gold pool gold\nkvsteer {\n fleet DIR/fleet.yaml\n tenant {vars.who}\n pool {vars.pool}\n}")
	require.Equal(t, http.StatusOK, r.ask("hi", "Authorization", "gold").status)
	r.logged("nobody's in particular")
}

// A client can't hide from policies what a handler in front has set, by declaring it a
// matter of the connection.
func TestHiddenHeaders(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.write("rules.yaml", `apiVersion: kvsteer.dev/v1alpha1
kind: InferencePolicy
metadata: {name: classes}
spec:
  rules:
  - name: trial
    matches: [{header: {name: X-Class, value: trial}}]
    route:
      exclude: [{name: all, drop: {}}]
      onEmpty: {action: Reject, status: 402, message: pay}
  - {name: rest, route: {}}
`)
	r.load("request_header X-Class trial\nkvsteer {\n fleet DIR/fleet.yaml\n policy DIR/rules.yaml\n}")
	for _, hidden := range [][]string{nil, {"Connection", "X-Class"}, {"Connection", "close, x-class"}} {
		require.Equal(t, http.StatusPaymentRequired, r.ask("hi", hidden...).status, hidden)
	}
	sent := http.Header{"X-Forwarded-For": {"us"}}
	got := described(sent, http.Header{
		"Connection": {"x-forwarded-for, x-forwarded-host", "x-class,x-kvsteer-worker, nothing"},
		"X-Class":    {"a", "b"}, "X-Forwarded-For": {"them"}, "X-Forwarded-Host": {"them"}, "X-Kvsteer-Worker": {"w9"},
	})
	require.Equal(t, http.Header{"X-Forwarded-For": {"us"}, "X-Class": {"a", "b"}}, got)
	require.Len(t, sent, 1, "it belongs to the request that is sent")
}

// A proxy in front that is trusted says what the client asked for; others don't.
func TestForwarded(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		in := httptest.NewRequest(http.MethodPost, "http://gateway/", http.NoBody)
		for name, v := range map[string]string{"For": "6.6.6.6", "Proto": "https", "Host": "api.example.com"} {
			in.Header.Set("X-Forwarded-"+name, v)
		}
		in = in.WithContext(context.WithValue(in.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.TrustedProxyVarKey: trusted}))
		out := in.Clone(in.Context())
		for _, name := range []string{"For", "Proto", "Host"} {
			out.Header.Del("X-Forwarded-" + name) // as the ReverseProxy does
		}
		forwarded(&httputil.ProxyRequest{In: in, Out: out})
		want := []string{"192.0.2.1", "http", "gateway"}
		if trusted {
			want = []string{"6.6.6.6, 192.0.2.1", "https", "api.example.com"}
		}
		require.Equal(t, want, []string{
			out.Header.Get("X-Forwarded-For"), out.Header.Get("X-Forwarded-Proto"), out.Header.Get("X-Forwarded-Host"),
		})
	}
}

// What is seldom meant is said in Caddy's log.
func TestWarnings(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n tenant {http.request.header.X-Tenant}\n qos {http.nobody.says}\n record DIR/decisions\n}")
	r.logged("clients say themselves what this is")
	require.Equal(t, http.StatusOK, r.ask("hi", "X-Tenant", "a").status)
	require.Equal(t, http.StatusOK, r.ask("hi", "X-Tenant", "b").status)
	r.logged("nothing fills in a placeholder")
	r.closes()
	require.Equal(t, []string{"a", "b"}, r.tenants(), "who wants to trust clients may")
}
