package kvsteer_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// A stream that begins well and then holds an error was not answered, whatever
// its status and however neatly it ends.
func TestAnErrorWithinAnAnswerIsNoSuccess(t *testing.T) {
	t.Parallel()
	const canary = "CANARY"
	for name, c := range map[string]struct {
		path  string
		serve http.HandlerFunc
	}{
		"OpenAI": {"/v1/chat/completions", sseEvents(`{"choices":[{"delta":{"content":"a"}}]}`, `{"error":{"message":"`+canary+`"}}`, `[DONE]`)},
		"Anthropic": {"/v1/messages", sseEvents(`{"type":"content_block_delta","delta":{"text":"a"}}`,
			`{"type":"error","error":{"message":"`+canary+`"}}`)},
		"Responses": {"/v1/responses", sseEvents(`{"type":"response.failed","response":{"usage":null}}`)},
		"JSON": {"/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"object":"error","message":"`+canary+`"}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newScripted(t, rigConfig{}, worker{serve: prompts(c.serve)})
			a := r.post(c.path, chatBody("hi", true))
			require.Equal(t, http.StatusOK, a.status)
			o := r.observed.nextOutcome(t, 0)
			require.Error(t, o.Err)
			require.NotContains(t, o.Err.Error(), canary)
			r.idle()
		})
	}
}

// json.Decoder stops at the end of the value and never sees the EOF behind it.
func TestADecodedAnswerIsWhole(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"Content-Length": whole,
		"chunked": func(w http.ResponseWriter, r *http.Request) {
			whole(w, r)
			w.(http.Flusher).Flush()
		},
		"in two": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"choices":[],`)
			w.(http.Flusher).Flush()
			fmt.Fprint(w, `"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newScripted(t, rigConfig{}, worker{serve: prompts(serve)})
			resp, err := r.transport.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hi", false)))
			require.NoError(t, err)
			var v map[string]any
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&v))
			require.NoError(t, resp.Body.Close())
			o := r.observed.nextOutcome(t, 0)
			require.NoError(t, o.Err)
			require.True(t, o.Usage.Known)
			require.Equal(t, 3, o.Usage.Prompt())
		})
	}
}

func TestHalfAnAnswerThatIsClosedIsNotWhole(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[],`)
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-q.Context().Done():
		}
	})})
	resp, err := r.transport.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hi", false)))
	require.NoError(t, err)
	_, err = resp.Body.Read(make([]byte, 100))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Error(t, r.observed.nextOutcome(t, 0).Err)
}

// What usage an answer that broke off had reported is not lost.
func TestABrokenAnswerKeepsItsUsage(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		sseEvents(`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":2}}`)(w, q)
		panic(http.ErrAbortHandler)
	})})
	_, err := r.try(t.Context(), "/v1/chat/completions", chatBody("hi", true))
	require.Error(t, err)
	o := r.observed.nextOutcome(t, 0)
	require.Error(t, o.Err)
	require.Equal(t, 7, o.Usage.Prompt())
	require.Equal(t, 2, o.Usage.Output)
}

// A worker that pauses within an answer is slow; its Selection is not forgotten.
func TestAnAnswerThatIsAwaitedIsNotReaped(t *testing.T) {
	t.Parallel()
	const event = `{"choices":[{"delta":{"content":"a"}}]}`
	pause, clock := make(chan struct{}), newClock()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithMaxIdle(20 * time.Millisecond), kvsteer.WithClock(clock.now),
	}}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		sseEvents(event)(w, q)
		<-pause
		sseEvents(`[DONE]`)(w, q)
	})})
	forgotten, err := r.router.Select(t.Context(), chatRequest("forgotten", false))
	require.NoError(t, err)
	resp, err := r.gateway.Client().Post(r.gateway.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody("hi", true)))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadFull(resp.Body, make([]byte, len("data: "+event)))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.router.Held() == 1 }, wait, tick, "more of the answer is awaited")
	clock.advance(time.Second)
	require.True(t, r.observed.nextOutcome(t, 0).Reaped, "the forgotten one")
	second, err := r.router.Select(t.Context(), chatRequest("forgotten", false))
	require.NoError(t, err)
	clock.advance(time.Second)
	require.True(t, r.observed.nextOutcome(t, 1).Reaped, "and another one, later")
	require.Equal(t, 1, r.router.InFlight(), "the stream is still there")
	close(pause)
	left, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(left), "[DONE]")
	require.NoError(t, r.observed.nextOutcome(t, 2).Err)
	forgotten.Abort(nil)
	second.Abort(nil)
}

// Nor is it before there is an answer.
func TestAWorkerThatIsAwaitedIsNotReaped(t *testing.T) {
	t.Parallel()
	pause, clock := make(chan struct{}), newClock()
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithMaxIdle(20 * time.Millisecond), kvsteer.WithClock(clock.now),
	}}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		<-pause
		whole(w, q)
	})})
	forgotten, err := r.router.Select(t.Context(), chatRequest("forgotten", false))
	require.NoError(t, err)
	status := make(chan int, 1)
	go func() {
		code, err := tryPost(r.gateway.URL, chatBody("hi", false))
		assert.NoError(t, err)
		status <- code
	}()
	require.Eventually(t, func() bool { return r.router.Held() == 1 }, wait, tick)
	clock.advance(time.Second)
	require.True(t, r.observed.nextOutcome(t, 0).Reaped, "the forgotten one")
	close(pause)
	require.Equal(t, http.StatusOK, <-status)
	require.NoError(t, r.observed.nextOutcome(t, 1).Err)
	forgotten.Abort(nil)
}

// A caller that drives a Selection itself has a way to say that it lives.
func TestTouchKeepsASelection(t *testing.T) {
	t.Parallel()
	clock := newClock()
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithMaxIdle(200 * time.Millisecond), kvsteer.WithClock(clock.now),
	}})
	s, err := r.router.Select(t.Context(), chatRequest("long", false))
	require.NoError(t, err)
	s.FirstToken()
	_, err = r.router.Select(t.Context(), chatRequest("forgotten", false))
	require.NoError(t, err)
	clock.advance(150 * time.Millisecond)
	s.Touch()
	clock.advance(100 * time.Millisecond)
	require.True(t, r.observed.nextOutcome(t, 0).Reaped)
	require.Equal(t, 1, r.router.InFlight())
	s.Done(kvsteer.Usage{})
	require.False(t, r.observed.nextOutcome(t, 1).Reaped)
}

// Compressed although we asked for plain: passed on at once, byte for byte.
func TestACompressedAnswerPasses(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	fmt.Fprint(z, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n")
	require.NoError(t, z.Close())
	for _, kind := range []string{"text/event-stream", "application/json"} {
		r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed.Bytes())
		})})
		resp, err := r.transport.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hi", true)))
		require.NoError(t, err)
		first := make([]byte, 10)
		n, err := resp.Body.Read(first)
		require.NoError(t, err)
		require.Positive(t, n, "not held back")
		rest, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, packed.String(), string(first[:n])+string(rest))
		require.NoError(t, r.observed.nextOutcome(t, 0).Err)
		r.idle()
	}
}

// A few bytes and then the end: nothing has reached the client, so another worker
// may answer.
func TestAnAnswerThatDiesWithItsFirstBytesIsRetried(t *testing.T) {
	t.Parallel()
	r := newScripted(t, rigConfig{}, worker{serve: prompts(whole)}, worker{serve: prompts(whole)})
	for _, first := range []string{"", "{"} {
		var times atomic.Int32
		tr := kvsteer.NewTransport(r.router, kvsteer.TransportOptions{Base: roundTrip(func(q *http.Request) (*http.Response, error) {
			resp, err := http.DefaultTransport.RoundTrip(q)
			if err == nil && times.Add(1) == 1 {
				_ = resp.Body.Close()
				resp.Body = io.NopCloser(iotest.DataErrReader(io.MultiReader(strings.NewReader(first), iotest.ErrReader(io.ErrUnexpectedEOF))))
			}
			return resp, err
		})})
		resp, err := tr.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hi", false)))
		require.NoError(t, err)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Contains(t, string(b), "usage")
		require.EqualValues(t, 2, times.Load())
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	r.idle()
}

// roundTrip is a base transport.
type roundTrip func(q *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// A worker that breaks off within an answer is suspected.
func TestBreakingOffIsReported(t *testing.T) {
	t.Parallel()
	// Probes would forget the failures that requests told, and one would find it well again.
	var ill atomic.Bool
	r := newScripted(t, rigConfig{probes: time.Hour, options: []kvsteer.Option{kvsteer.WithMaxAttempts(1)}}, worker{
		serve: prompts(func(w http.ResponseWriter, q *http.Request) {
			sseEvents(`{"choices":[{"delta":{"content":"a"}}]}`)(w, q)
			panic(http.ErrAbortHandler)
		}),
		health: func(w http.ResponseWriter, _ *http.Request) {
			if ill.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		},
	})
	ill.Store(true)
	m := r.fleet.Snapshot().Members()[0]
	for range 3 {
		require.True(t, m.Healthy())
		_, err := r.try(t.Context(), "/v1/chat/completions", chatBody("hi", true))
		require.Error(t, err)
	}
	require.Eventually(t, func() bool { return !m.Healthy() }, wait, tick, "suspected after a few")
}

// An unwanted answer that stalls must not hold up the attempt that replaces it.
func TestAStalledErrorAnswerDoesNotBlockTheRetry(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	stalling := worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusServiceUnavailable)
		w.(http.Flusher).Flush()
		select {
		case <-stop:
		case <-q.Context().Done():
		}
	})}
	r := newScripted(t, rigConfig{}, stalling, worker{serve: prompts(whole)})
	soon(t, func() {
		for range 4 {
			require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody("hi", false)).status)
		}
	})
	r.idle()
}

func TestOneHugeEventPasses(t *testing.T) {
	t.Parallel()
	huge := `{"choices":[{"delta":{"content":"` + strings.Repeat("x", 9<<20) + `"}}]}`
	r := newScripted(t, rigConfig{}, worker{serve: prompts(sseEvents(huge, `{"choices":[],"usage":{"prompt_tokens":1}}`, `[DONE]`))})
	a := r.post("/v1/chat/completions", chatBody("hi", true))
	require.Equal(t, "data: "+huge+"\n\ndata: [DONE]\n\n", a.body, "all but the usage that nobody asked for")
	require.True(t, r.observed.nextOutcome(t, 0).Usage.Known)
}

// A Close that comes while a Read waits ends both and releases once.
func TestCloseDuringRead(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		r := newScripted(t, rigConfig{}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
			kind := "application/json"
			if stream {
				kind = "text/event-stream"
			}
			w.Header().Set("Content-Type", kind)
			fmt.Fprint(w, "data: {")
			w.(http.Flusher).Flush()
			<-q.Context().Done()
		})})
		resp, err := r.transport.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hi", stream))) //nolint:bodyclose // closed below, not by defer
		require.NoError(t, err)
		ended := make(chan error)
		go func() {
			_, err := io.Copy(io.Discard, resp.Body)
			ended <- err
		}()
		require.NoError(t, resp.Body.Close())
		soon(t, func() { require.Error(t, <-ended) })
		r.idle()
		require.Equal(t, 1, r.observed.outcomeCount())
		require.True(t, r.fleet.Snapshot().Members()[0].Healthy(), "not the worker's doing")
	}
}

type outcomeHook func(o *kvsteer.Outcome)

func (f outcomeHook) OnOutcome(o *kvsteer.Outcome) { f(o) }

// A hook that panics as a body closes must leave neither a lock nor a connection.
func TestAPanickingOutcomeHookLeavesTheBodyClosed(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	r := newScripted(t, rigConfig{options: []kvsteer.Option{
		kvsteer.WithHooks(outcomeHook(func(*kvsteer.Outcome) { panic(errors.New("hook")) })),
	}}, worker{serve: prompts(func(w http.ResponseWriter, q *http.Request) {
		sseEvents(`{"choices":[{"delta":{"content":"a"}}]}`)(w, q)
		<-q.Context().Done()
		close(gone)
	})})
	resp, err := r.transport.RoundTrip(postRequest(t, "/v1/chat/completions", chatBody("hi", true))) //nolint:bodyclose // closed below, not by defer
	require.NoError(t, err)
	require.Panics(t, func() { _ = resp.Body.Close() })
	soon(t, func() {
		<-gone
		_, err := io.Copy(io.Discard, resp.Body)
		require.Error(t, err)
		require.NoError(t, resp.Body.Close(), "again")
	})
	r.idle()
}
