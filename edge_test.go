package kvsteer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// heard is what a scripted worker was sent.
type heard struct {
	mu   sync.Mutex
	with []http.Header // headers and trailers
}

func (h *heard) note(q *http.Request) {
	all := q.Header.Clone()
	maps.Copy(all, q.Trailer)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.with = append(h.with, all)
}

// internal are the names of internal headers that came, in any spelling.
func (h *heard) internal() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.with {
		for name := range one {
			plain := strings.ReplaceAll(strings.ToLower(name), "_", "-")
			if strings.HasPrefix(plain, "x-kvsteer") || plain == "x-data-parallel-rank" {
				names = append(names, name)
			}
		}
	}
	return names
}

func (h *heard) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.with)
}

// raw sends bytes to the gateway as they are, and returns the answer's status.
func (r *rig) raw(request string) int {
	r.t.Helper()
	conn, err := new(net.Dialer).DialContext(r.t.Context(), "tcp", strings.TrimPrefix(r.gateway.URL, "http://"))
	require.NoError(r.t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(r.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(r.t, err)
	_ = resp.Body.Close()
	return resp.StatusCode
}

// However an internal header is spelled, no worker sees it.
func TestNoSpellingBringsAnInternalHeaderThrough(t *testing.T) {
	t.Parallel()
	var got heard
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		got.note(q)
		whole(w, q)
	})})
	body := chatBody("hi", false)
	passed := 0
	for _, lines := range []string{
		"X-Kvsteer-Worker: w9\r\nx-kvsteer-worker: w8\r\nX-KVSTEER-WORKER: w7",
		"x_kvsteer_worker: w9\r\nX_Data_Parallel_Rank: 3\r\nX-Data_Parallel-Rank: 3",
		"X-Kvsteer-Worker : w9",  // a space before the colon
		"X-Kvsteer-Worker\t: w9", // or a tab
		" X-Kvsteer-Worker: w9",  // a line that goes on
		"X-Fine: a\r\n X-Data-Parallel-Rank: 3",
		"X-Fine: a\r\n\tX-Kvsteer-Worker: w9",
		"X-Fine: a\nX-Data-Parallel-Rank: 3",
		"X-Fine: a\rX-Data-Parallel-Rank: 3",
		"Connection: x-fine, X-Kvsteer-Worker\r\nX-Kvsteer-Worker: w9",
		"X-Kvsteer-" + strings.Repeat("a", 1000) + ": 1",
		strings.Repeat("X-Data-Parallel-Rank: 3\r\n", 100) + "X-Fine: a",
	} {
		status := r.raw("POST /v1/chat/completions HTTP/1.1\r\nHost: any\r\nConnection: close\r\n" + lines +
			fmt.Sprintf("\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		if status == http.StatusOK {
			passed++
		} else {
			require.Equal(t, http.StatusBadRequest, status, lines)
		}
	}
	require.Positive(t, passed)
	require.Equal(t, passed, got.count())
	require.Empty(t, got.internal())
	r.idle()
}

// Trailers are headers that come late, and Connection names those that end here.
func TestInternalTrailersAndListedHeaders(t *testing.T) {
	t.Parallel()
	var got heard
	r := newScripted(t, rigConfig{}, worker{serve: func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		got.note(q)
	}})
	q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://any/v1/audio/transcriptions", strings.NewReader("some audio"))
	q.RequestURI, q.ContentLength = "", -1
	q.Header.Set("Content-Type", "audio/wav")
	q.Header["Connection"] = []string{"X-Request-Id, keep-alive", "x-private"}
	q.Header.Set("X-Request-Id", "theirs")
	q.Header.Set("X-Private", "theirs")
	q.Trailer = http.Header{"X-Kvsteer-Worker": {"w9"}, "X_data_parallel_rank": {"3"}, "X-Sum": {"1"}}
	resp, err := r.transport.RoundTrip(q)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Empty(t, got.internal())
	require.Equal(t, 1, got.count())
	require.Equal(t, "1", got.with[0].Get("X-Sum"), "others' pass")
	require.Empty(t, got.with[0].Get("X-Request-Id"))
	require.Empty(t, got.with[0].Get("X-Private"))
	require.Equal(t, "theirs", q.Header.Get("X-Request-Id"), "the caller's request is as it was")
	r.idle()
}

// What a proxy behind the gateway removes because of the client's Connection must not be
// what the router says itself.
func TestConnectionDoesNotNameTheRoutersHeaders(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("X-Seen", strings.Join(q.Header["Connection"], ","))
		whole(w, q)
	})})
	q := postRequest(t, "/v1/chat/completions", chatBody("hi", false))
	q.Header["Connection"] = []string{"close, X-Data-Parallel-Rank", "accept-encoding"}
	resp, err := r.transport.RoundTrip(q)
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "close", strings.ToLower(resp.Header.Get("X-Seen")))
	r.idle()
}

// A worker does not speak for the router: neither in headers nor in trailers.
func TestWorkersSayNothingInternal(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		h.Set("Trailer", "X-Kvsteer-Budget, X-Cost")
		h["x_kvsteer_token_source"] = []string{"caller"}
		h.Set(kvsteer.HeaderBudget, "rule=\"none\"")
		h.Set("X-Engine", "mine")
		whole(w, q)
		w.(http.Flusher).Flush()
		h.Set("X-Kvsteer-Budget", "late")
		h.Set("X-Cost", "7")
	})})
	for _, path := range []string{"/v1/chat/completions", "/v1/score"} {
		resp, err := r.gateway.Client().Post(r.gateway.URL+path, "application/json", strings.NewReader(chatBody("hi", false)))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, "mine", resp.Header.Get("X-Engine"))
		require.Equal(t, "7", resp.Trailer.Get("X-Cost"), path)
		for _, name := range slices.Concat(slices.Collect(maps.Keys(resp.Header)), slices.Collect(maps.Keys(resp.Trailer))) {
			require.False(t, kvsteer.InternalHeader(name), "%s: %s", path, name)
		}
	}
	r.idle()
}

// only is a base that fails a test which sends anywhere but to the addresses given.
type only struct {
	t       *testing.T
	allowed []string // host:port

	mu     sync.Mutex
	dialed int
}

func (o *only) base() *http.Transport {
	base := kvsteer.NewBase()
	dial := base.DialContext
	base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		o.mu.Lock()
		o.dialed++
		o.mu.Unlock()
		if !slices.Contains(o.allowed, address) {
			o.t.Errorf("%s was dialled", address)
			return nil, fmt.Errorf("%s is not registered", address)
		}
		return dial(ctx, network, address)
	}
	return base
}

// Whatever a client writes, and whatever a worker answers, requests go to the host and port
// that were registered, and nowhere else.
func TestOnlyRegisteredAddressesAreDialled(t *testing.T) {
	t.Parallel()
	guard := &only{t: t}
	away := "http://127.0.0.1:1"
	r := newScripted(t, rigConfig{transport: kvsteer.TransportOptions{
		Base: guard.base(), Forward: func(*http.Request) bool { return true },
	}}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.Contains(q.URL.RawQuery, "redirect"):
			w.Header().Set("Location", away+q.URL.Path)
			w.Header().Set("Content-Location", away)
			w.Header().Set("Refresh", "0; url="+away)
			w.Header().Set("Alt-Svc", `h2="127.0.0.1:1"`)
			w.Header().Set("Link", "<"+away+">; rel=preload")
			w.WriteHeader(http.StatusTemporaryRedirect)
		case strings.Contains(q.URL.RawQuery, "proxy"):
			w.Header().Set("Location", away)
			w.WriteHeader(http.StatusUseProxy)
		default:
			whole(w, q)
		}
	})})
	guard.allowed = []string{strings.TrimPrefix(r.fleet.Snapshot().Members()[0].URL().String(), "http://")}
	body := `{"model":"m","base_url":"` + away + `","api_base":"` + away + `","webhook":"` + away + `","messages":[{"role":"user","content":[` +
		`{"type":"image_url","image_url":{"url":"` + away + `/a.png"}},{"type":"text","text":"` + away + `"}]}],` +
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"$ref":"` + away + `/schema.json"}}}],` +
		`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"$ref":"` + away + `/s.json#/a"}}}}`
	for _, target := range []string{
		"/v1/chat/completions", away + "/v1/chat/completions", "http://user:pass@127.0.0.1:1/v1/chat/completions",
		"/v1/chat/completions?redirect", "/v1/chat/completions?proxy", "/v1/score?redirect",
		"//127.0.0.1:1/v1/chat/completions", "///127.0.0.1:1/", "/\\127.0.0.1:1/v1/models", "/v1/../..//127.0.0.1:1/",
		"/v1/%2e%2e/%2f%2f127.0.0.1:1/", "/@127.0.0.1:1/v1/x", "/v1/x%00@127.0.0.1:1", "/v1/x%0d%0aHost:%20127.0.0.1:1",
		"/v1/http://127.0.0.1:1/", "/http:127.0.0.1:1", "/v1/x?url=" + away, "/v1/x;@127.0.0.1:1", "/:1/v1/x", "/.127.0.0.1:1",
	} {
		for _, host := range []string{"any", "127.0.0.1:1", "127.0.0.1:1@any", "[::1]:1", ""} {
			status := r.raw("POST " + target + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" +
				"X-Forwarded-Host: 127.0.0.1:1\r\nForwarded: host=127.0.0.1:1\r\nX-Original-Url: " + away + "\r\nX-Rewrite-Url: " + away + "\r\n" +
				"Referer: " + away + "\r\nOrigin: " + away + "\r\nDestination: " + away + "\r\n" +
				"Content-Type: application/json\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body))
			require.NotZero(t, status)
		}
	}
	for _, request := range []string{
		"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n",
		"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		"GET http://127.0.0.1:1/v1/models/x HTTP/1.1\r\nHost: any\r\n\r\n",
	} {
		require.NotZero(t, r.raw(request))
	}
	require.Positive(t, guard.dialed)

	// Callers that make requests themselves may give any URL.
	for _, given := range []string{away, "ftp://127.0.0.1:1", "http://127.0.0.1:1@any", "unix:///tmp/x"} {
		q := postRequest(t, "/v1/chat/completions", chatBody("hi", false))
		u := *q.URL
		scheme, host, _ := strings.Cut(given, "://")
		u.Scheme, u.Host, u.Opaque = scheme, host, "//127.0.0.1:1/v1/chat/completions"
		q.URL, q.Host = &u, host
		resp, err := r.transport.RoundTrip(q)
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		require.NoError(t, resp.Body.Close())
	}
	r.idle()
}

// The header of an answer is bounded, and one that is larger is the worker's failure.
func TestAnEndlessAnswerHeaderIsAFailure(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		for i := range 40 {
			w.Header().Set(fmt.Sprintf("X-Long-%d", i), strings.Repeat("a", 64<<10))
		}
		whole(w, q)
	})}, worker{serve: prompts(whole)})
	for range 4 { // whichever is asked first
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody("hi", false)).status)
	}
	r.idle()
}
