package kvsteer_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// dropsFirst closes each connection on its second request, without an answer:
// what a POST meets on a connection that was kept from before a restart.
type dropsSecond struct {
	net.Listener
}

func (l dropsSecond) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &dropsSecondConn{Conn: c}, nil
}

type dropsSecondConn struct {
	net.Conn

	answered atomic.Bool
}

func (c *dropsSecondConn) Write(p []byte) (int, error) {
	if c.answered.Swap(true) {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// A POST on a connection that the worker has closed meanwhile is sent again, even
// when that worker is the only one.
func TestADeadKeptConnectionIsNoFailure(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv := &httptest.Server{Listener: dropsSecond{l}, Config: &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			_, _ = io.Copy(io.Discard, q.Body)
			served.Add(1)
			if _, ok := q.Header["X-Idempotency-Key"]; ok {
				t.Error("sent on")
			}
			whole(w, q)
		}),
	}}
	srv.Start()
	defer srv.Close()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(whole)})
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	tr := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: roundTrip(func(q *http.Request) (*http.Response, error) {
		q.URL.Host = srv.Listener.Addr().String()
		return base.RoundTrip(q)
	})})
	for range 5 {
		resp, err := tr.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hi", false)))
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	require.Greater(t, served.Load(), int32(5), "some were dropped")
}

func TestOtherPathsGoToAWorkerThatServesTheModel(t *testing.T) {
	t.Parallel()
	var wrong atomic.Int32
	other := worker{models: []string{"other"}, serve: func(w http.ResponseWriter, _ *http.Request) {
		wrong.Add(1)
		http.NotFound(w, nil)
	}}
	r := newScripted(t, rigConfig{}, other, worker{serve: whole})
	for range 3 {
		require.Equal(t, http.StatusOK, r.post("/v1/rerank", `{"model":"m","query":"x"}`).status)
	}
	require.Zero(t, wrong.Load())
	require.Equal(t, http.StatusNotFound, r.post("/v1/rerank", `{"model":"nobody's","query":"x"}`).status, "anybody's to refuse")
	require.Equal(t, http.StatusBadRequest, r.post("/v1/rerank", `{"model":`).status, "an engine may read what we can't")
	r.idle()
}

func TestOtherPathsTryTheNextWorkerWhenOneIsUnreachable(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: whole}, worker{serve: whole})
	down := r.fleet.Snapshot().Members()[0].URL().Host
	tr := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: roundTrip(func(q *http.Request) (*http.Response, error) {
		if q.URL.Host != down {
			return http.DefaultTransport.RoundTrip(q)
		}
		if q.Body != nil {
			_, _ = io.Copy(io.Discard, q.Body)
			_ = q.Body.Close()
		}
		return nil, &net.OpError{Op: "dial", Err: errors.New("no route")}
	})})
	for _, q := range []*http.Request{
		postRequest(t, "/tokenize", `{"model":"m","prompt":"x"}`),
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://any/version", http.NoBody),
	} {
		q.RequestURI = ""
		resp, err := tr.RoundTrip(q)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
		r.idle()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// What may have been done is not done again.
func TestOtherPathsAreNotRepeatedOnceSent(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: whole}, worker{serve: whole})
	var sent atomic.Int32
	tr := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: roundTrip(func(q *http.Request) (*http.Response, error) {
		sent.Add(1)
		_ = q.Body.Close()
		return nil, io.ErrUnexpectedEOF
	})})
	_, err := tr.RoundTrip(postRequest(t, "/v1/moderations", `{"model":"m"}`)) //nolint:bodyclose // there is none
	require.Equal(t, kvsteer.CodeUpstream, kvsteer.CodeOf(err))
	require.EqualValues(t, 1, sent.Load())
	r.idle()
}

// An engine's realtime API upgrades its connection.
func TestUpgradesPass(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: func(w http.ResponseWriter, _ *http.Request) {
		c, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = buf.Flush()
		line, err := buf.ReadString('\n')
		if err == nil {
			_, _ = io.WriteString(c, line)
		}
	}})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.gateway.URL, "http://"))
	require.NoError(t, err)
	defer c.Close()
	fmt.Fprint(c, "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusSwitchingProtocols, resp.StatusCode)
	fmt.Fprint(c, "hello\n")
	line, err := in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
	require.NoError(t, c.Close())
	r.idle()
}

func TestAnswersWithoutABody(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })})
		require.Equal(t, status, r.post("/v1/chat/completions", chatBody("hi", false)).status)
		require.Equal(t, status, r.get("/version").status)
		q := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "http://any/version", http.NoBody)
		q.RequestURI = ""
		resp, err := r.transport.RoundTrip(q)
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode)
		r.idle()
		require.NoError(t, resp.Body.Close())
	}
}

// A redirect to the worker itself must lead back to the gateway, and not tell the
// worker's address.
func TestRedirectsStayAtTheGateway(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: func(w http.ResponseWriter, q *http.Request) {
		to := "http://" + q.Host + "/v1/moderations?x=1"
		if q.URL.Path == "/v1/audio/speech" {
			to = "https://example.com/a"
		}
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusTemporaryRedirect)
	}})
	for path, want := range map[string]string{"/v1/moderations/": "/v1/moderations?x=1", "/v1/audio/speech": "https://example.com/a"} {
		q := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://any"+path, http.NoBody)
		q.RequestURI = ""
		resp, err := r.transport.RoundTrip(q)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, want, resp.Header.Get("Location"))
	}
}

func TestOneModelIsAnsweredFromTheWholeFleet(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: whole}, worker{models: []string{"org/other"}, serve: whole})
	a := r.get("/v1/models/org/other")
	require.Equal(t, http.StatusOK, a.status)
	require.JSONEq(t, `{"id":"org/other","object":"model","created":0,"owned_by":"kvsteer","parent":null}`, a.body)
	a = r.get("/v1/models/nobody's")
	require.Equal(t, http.StatusNotFound, a.status)
	require.Contains(t, a.body, "models served: m, org/other")
}

// The body is here before it is sent on: there is nothing to wait for.
func TestExpectIsNotPassedOn(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		got.Store(q.Header.Get("Expect"))
		whole(w, q)
	})})
	q := postRequest(t, "/v1/chat/completions", chatBody("hi", false))
	q.Header.Set("Expect", "100-continue")
	resp, err := r.transport.RoundTrip(q)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, got.Load())
}

// Only a false include_usage is overruled; what the engine would refuse, or what
// would put usage where it can't be taken out, stays as it is.
func TestStreamOptionsAreLeftAloneWhereTheyMust(t *testing.T) {
	t.Parallel()
	var got atomic.Value
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		got.Store(string(b))
		sseEvents(`[DONE]`)(w, q)
	})})
	for opts, want := range map[string]string{
		`null`:                            `{"include_usage":true}`,
		`{}`:                              `{"include_usage":true}`,
		`{"include_usage":false}`:         `{"include_usage":true}`,
		`{"include_usage":null}`:          `{"include_usage":true}`,
		`{"a":1}`:                         `{"a":1,"include_usage":true}`,
		`{"include_usage":true}`:          `{"include_usage":true}`,
		`{"include_usage":"yes"}`:         `{"include_usage":"yes"}`,
		`{"include_usage":1}`:             `{"include_usage":1}`,
		`"none"`:                          `"none"`,
		`[]`:                              `[]`,
		`{"continuous_usage_stats":true}`: `{"continuous_usage_stats":true}`,
		`{"continuous_usage_stats":true,"include_usage":false}`: `{"continuous_usage_stats":true,"include_usage":false}`,
	} {
		body := `{"model":"m","stream":true,"stream_options":%s,"messages":[]}`
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", fmt.Sprintf(body, opts)).status)
		require.Equal(t, fmt.Sprintf(body, want), got.Load(), opts)
	}
}

func TestBodiesAtAndBeyondTheLimit(t *testing.T) {
	t.Parallel()
	body := `{"model":"m","messages":[]}`
	for limit, want := range map[int64]int{
		int64(len(body)): http.StatusOK, int64(len(body)) - 1: http.StatusRequestEntityTooLarge, math.MaxInt64: http.StatusOK,
	} {
		r := newScripted(t, rigConfig{options: []kvsteer.Option{kvsteer.WithMaxBody(limit)}}, worker{serve: prompts(whole)})
		for _, declared := range []bool{true, false} {
			q := postRequest(t, "/v1/chat/completions", body)
			if !declared {
				q.ContentLength, q.Body = -1, io.NopCloser(strings.NewReader(body))
			}
			q.URL.Host, q.URL.Scheme = strings.TrimPrefix(r.gateway.URL, "http://"), "http"
			resp, err := r.gateway.Client().Do(q)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, want, resp.StatusCode, "limit %d, declared %v", limit, declared)
		}
	}
}

// A body that is announced and never sent must not take its size in memory.
func TestAnAnnouncedBodyTakesNoMemory(t *testing.T) {
	r := newScripted(t, rigConfig{}, worker{serve: prompts(whole)})
	allocated := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for range b.N {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://any/v1/chat/completions", strings.NewReader("{"))
			require.NoError(b, err)
			q.Header.Set("Content-Type", "application/json")
			q.ContentLength = kvsteer.DefaultMaxBody
			_, err = r.transport.RoundTrip(q) //nolint:bodyclose // there is none
			require.Error(b, err)
		}
	}).AllocedBytesPerOp()
	require.Less(t, allocated, int64(2<<20))
}

type failingBody struct{ err error }

func (b failingBody) Read([]byte) (int, error) { return 0, b.err }
func (failingBody) Close() error               { return nil }

// The text of errors from below may hold addresses or worse.
func TestWriteErrorShowsNoCauses(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(whole)})
	q := postRequest(t, "/v1/chat/completions", "")
	q.ContentLength, q.Body = -1, failingBody{errors.New("read tcp 10.1.2.3:80: i/o timeout")}
	_, err := r.transport.RoundTrip(q) //nolint:bodyclose // there is none
	require.Equal(t, kvsteer.CodeBadRequest, kvsteer.CodeOf(err))
	for _, err := range []error{
		err, errors.New("dial 10.1.2.3:80"),
		&kvsteer.Error{Code: kvsteer.CodeUpstream, Err: errors.New("dial 10.1.2.3:80")},
	} {
		w := httptest.NewRecorder()
		kvsteer.WriteError(w, q, err)
		require.NotContains(t, w.Body.String(), "10.1.2.3")
	}
	a := r.post("/v1/chat/completions", `{"model":"m",nope}`)
	require.Contains(t, a.body, "at byte 13", "where it is wrong is shown")
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "", -time.Second: "", 1: "1", time.Second: "1", time.Second + 1: "2", 1500 * time.Millisecond: "2",
	} {
		w := httptest.NewRecorder()
		kvsteer.WriteError(w, httptest.NewRequest(http.MethodPost, "/", http.NoBody), &kvsteer.Error{Code: kvsteer.CodeLimited, RetryAfter: d})
		require.Equal(t, want, w.Header().Get("Retry-After"), d)
	}
}

// A deadline that somebody on the way set is no client that went away.
func TestADeadlineIsAGatewayTimeout(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	q := postRequest(t, "/v1/chat/completions", chatBody("hi", false)).WithContext(ctx)
	_, err := r.transport.RoundTrip(q) //nolint:bodyclose // there is none
	require.Equal(t, kvsteer.CodeCanceled, kvsteer.CodeOf(err))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	w := httptest.NewRecorder()
	kvsteer.WriteError(w, q, err)
	require.Equal(t, http.StatusGatewayTimeout, w.Code)
	r.idle()
	require.True(t, r.fleet.Snapshot().Members()[0].Healthy())
}

func TestAClientTimeoutReleases(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		sseEvents(`{"choices":[{"delta":{"content":"a"}}]}`)(w, q)
		<-q.Context().Done()
	})})
	ask := func(timeout time.Duration) (*http.Response, error) {
		client := &http.Client{Transport: r.transport, Timeout: timeout}
		return client.Do(postRequest(t, "/v1/chat/completions", chatBody("hi", true)))
	}
	// The timeout must pass within the answer: how long that takes to begin is up to the machine.
	timeout, before := 100*time.Millisecond, 0
	resp, err := ask(timeout)
	for err != nil && timeout < wait {
		r.idle()
		timeout, before = 2*timeout, r.observed.outcomeCount()
		resp, err = ask(timeout)
	}
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.Error(t, err)
	r.idle() // even before Close
	require.NoError(t, resp.Body.Close())
	require.ErrorIs(t, r.observed.nextOutcome(t, before).Err, context.DeadlineExceeded)
	require.True(t, r.fleet.Snapshot().Members()[0].Healthy())
}

func TestAClientThatLeavesCancelsUpstream(t *testing.T) {
	t.Parallel()
	came, gone := make(chan struct{}), make(chan struct{})
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(_ http.ResponseWriter, q *http.Request) {
		close(came)
		<-q.Context().Done()
		close(gone)
	})})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-came
		cancel()
	}()
	_, err := r.try(ctx, "/v1/chat/completions", chatBody("hi", false))
	require.Error(t, err)
	soon(t, func() { <-gone })
	r.idle()
	require.ErrorIs(t, r.observed.nextOutcome(t, 0).Err, context.Canceled)
}

// What a worker says before and after its answer passes.
func TestEarlyHintsAndTrailersPass(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Cost")
		whole(w, q)
		w.(http.Flusher).Flush()
		w.Header().Set("X-Cost", "7")
	})})
	hints := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			hints++
			return nil
		},
	})
	q := postRequest(t, "/v1/chat/completions", chatBody("hi", false)).WithContext(ctx)
	q.URL.Host = strings.TrimPrefix(r.gateway.URL, "http://")
	resp, err := r.gateway.Client().Do(q)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "7", resp.Trailer.Get("X-Cost"))
	require.Equal(t, 1, hints)
	require.NoError(t, r.observed.nextOutcome(t, 0).Err)
}
