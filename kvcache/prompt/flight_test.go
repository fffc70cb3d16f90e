package prompt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/leak"
)

// roundTrip is an engine without a socket, so that time can be simulated.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f roundTrip) client() *http.Client { return &http.Client{Transport: f} }

func ok(body string) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// hang answers when the caller gives up.
func hang(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// stalled sends headers and no body.
func stalled(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: stall{r.Context()}}, nil
}

type stall struct{ ctx context.Context } //nolint:containedctx // a body has no other way to know

func (s stall) Read([]byte) (int, error) { <-s.ctx.Done(); return 0, s.ctx.Err() }
func (stall) Close() error               { return nil }

func text(s string) string { return `{"prompt":"` + s + `"}` }

func reasons(e Encoding) string {
	var b bytes.Buffer
	for _, d := range e.Degraded {
		fmt.Fprintf(&b, "%s: %s; ", d.Source, d.Reason)
	}
	return b.String()
}

func TestDeadline(t *testing.T) {
	for name, rt := range map[string]roundTrip{"hung": hang, "stalled": stalled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEncoder(t, Options{Client: rt.client(), Deadline: DefaultDeadline})
				began := time.Now()
				enc := encode(t, e, Completions, text("abcd"), "http://a")
				assert.Equal(t, DefaultDeadline, time.Since(began))
				assert.Equal(t, "render: deadline exceeded; tokenize: deadline exceeded; ", reasons(enc))
				assert.Equal(t, "abcd", string(enc.Bytes))
				began = time.Now()
				encode(t, e, Completions, text(strings.Repeat("x", 100<<10)), "http://a")
				assert.Equal(t, DefaultDeadline+100*time.Millisecond, time.Since(began), "more text, more time")
				assert.Equal(t, DefaultDeadline+maxExtraDeadline, e.opts.deadline(1<<30))
			})
		})
	}
}

func TestClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEncoder(t, Options{NoRender: true, Client: roundTrip(hang).client()})
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		began := time.Now()
		enc, err := e.Encode(ctx, &Request{API: Completions, Body: []byte(text("a")), Engine: Engine{BaseURL: "http://a"}})
		require.NoError(t, err)
		assert.Equal(t, 10*time.Millisecond, time.Since(began))
		assert.Equal(t, "tokenize: canceled; ", reasons(enc))
		enc, err = e.Encode(ctx, &Request{API: Completions, Body: []byte(text("b")), Engine: Engine{BaseURL: "http://a"}})
		require.NoError(t, err)
		assert.Equal(t, "tokenize: canceled; ", reasons(enc), "not even begun")
		// The call that began for it is not a reason to distrust the engine.
		require.NoError(t, e.Close())
		assert.Zero(t, e.health.engines["http://a"].failures)
	})
}

func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		gate := make(chan struct{})
		e := newEncoder(t, Options{NoRender: true, Client: roundTrip(func(*http.Request) (*http.Response, error) {
			calls.Add(1)
			<-gate
			return ok(ids123)
		}).client()})
		first, leave := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				ctx := context.Background()
				if i == 0 {
					ctx = first
				}
				// What differs doesn't matter to the prompt.
				body := fmt.Sprintf(`{"prompt":"a","temperature":%d,"model":"m%d"}`, i, i)
				enc, err := e.Encode(ctx, &Request{API: Completions, Model: "m", Body: []byte(body), Engine: Engine{BaseURL: "http://a"}})
				if err != nil {
					t.Error(err)
					return
				}
				if i == 0 {
					assert.Equal(t, SourceBytes, enc.Source)
				} else {
					assert.Equal(t, []uint32{1, 2, 3}, enc.Tokens)
				}
			})
			synctest.Wait()
		}
		leave() // the one that began it all leaves; the others still get their answer
		synctest.Wait()
		close(gate)
		wg.Wait()
		assert.EqualValues(t, 1, calls.Load())
		assert.EqualValues(t, 49, e.Stats().Joined)
		assert.Empty(t, e.flights)
	})
}

func TestCacheServes(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	e := newEncoder(t, Options{NoRender: true, Client: roundTrip(func(*http.Request) (*http.Response, error) {
		calls.Add(1)
		return ok(ids123)
	}).client()})
	a := encode(t, e, Completions, text("a"), "http://a")
	b := encode(t, e, Completions, `{"temperature":1,"prompt":"a"}`, "http://b")
	assert.Equal(t, a, b)
	assert.EqualValues(t, 1, calls.Load())
	for i, body := range []string{text("b"), `{"prompt":"a","add_special_tokens":false}`, `{"prompt":"a","cache_salt":"s"}`} {
		encode(t, e, Completions, body, "http://a")
		assert.EqualValues(t, i+2, calls.Load(), body)
	}
	_, err := e.Encode(context.Background(), &Request{API: Completions, Model: "other", Body: []byte(text("a")), Engine: Engine{BaseURL: "http://a"}})
	require.NoError(t, err)
	assert.EqualValues(t, 5, calls.Load(), "another model has another tokenizer")
	assert.Equal(t, SourceTokenize, encode(t, e, Completions, text("a"), "").Source, "known ids need no engine")
	both := `{"prompt":"a","input":"b"}`
	encode(t, e, Completions, both, "http://a")
	encode(t, e, Embeddings, both, "http://a")
	assert.EqualValues(t, 7, calls.Load(), "another API reads another field")
	s := e.Stats()
	assert.Equal(t, 7, s.Entries)
	assert.EqualValues(t, 2, s.Hits)
	require.NoError(t, e.Close())
	assert.Zero(t, e.Stats().Bytes)
}

func TestCacheOff(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	e := newEncoder(t, Options{NoRender: true, CacheBytes: -1, Client: roundTrip(func(*http.Request) (*http.Response, error) {
		calls.Add(1)
		return ok(ids123)
	}).client()})
	for range 3 {
		assert.Equal(t, SourceTokenize, encode(t, e, Completions, text("a"), "http://a").Source)
	}
	assert.EqualValues(t, 3, calls.Load())
	assert.Zero(t, e.Stats().Entries)
}

func TestClose(t *testing.T) {
	leak.Check(t)
	started := make(chan struct{})
	e := NewEncoder(Options{Deadline: time.Hour, Client: roundTrip(func(r *http.Request) (*http.Response, error) {
		close(started)
		return hang(r)
	}).client()})
	result := make(chan Encoding)
	go func() {
		enc, err := e.Encode(context.Background(), &Request{API: Completions, Body: []byte(text("a")), Engine: Engine{BaseURL: "http://a"}})
		assert.NoError(t, err)
		result <- enc
	}()
	<-started
	closed := make(chan error)
	go func() { closed <- e.Close() }()
	enc := <-result
	require.NoError(t, <-closed)
	assert.Equal(t, "render: canceled; tokenize: canceled; ", reasons(enc))
	require.NoError(t, e.Close())
	assert.Equal(t, "render: encoder closed; tokenize: encoder closed; ", reasons(encode(t, e, Completions, text("b"), "http://a")))
}

func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e := NewEncoder(Options{NoRender: true, Client: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			<-release // a client that is slow to give up
			return nil, r.Context().Err()
		}).client()})
		go func() {
			_, _ = e.Encode(context.Background(), &Request{API: Completions, Body: []byte(text("a")), Engine: Engine{BaseURL: "http://a"}})
		}()
		synctest.Wait()
		var closed atomic.Bool
		go func() { closed.Store(e.Close() == nil) }()
		synctest.Wait()
		assert.False(t, closed.Load())
		close(release)
		synctest.Wait()
		assert.True(t, closed.Load())
	})
}

// local is a source of the kind that other packages bring.
type local struct {
	err   error
	calls atomic.Int64
}

func (*local) Kind() SourceKind { return SourceLocal }

func (l *local) Encode(_ context.Context, r *Request) (Encoding, error) {
	l.calls.Add(1)
	if l.err != nil {
		return Encoding{}, l.err
	}
	return Encoding{Source: SourceLocal, Tokens: []uint32{uint32(r.Object.Len())}, Count: 1}, nil
}

func TestSources(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"serves":         {nil, ""},
		"not applicable": {fmt.Errorf("wrapped: %w", ErrNotApplicable), ""},
		"reason":         {fmt.Errorf("wrapped with a canary: %w", ReasonError("model type not supported")), "local: model type not supported; "},
		"other error":    {errors.New("canary"), "local: source failed; "},
		"deadline":       {context.DeadlineExceeded, "local: deadline exceeded; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &local{err: c.err}
			e := newEncoder(t, Options{Sources: []Source{l}, NoRender: true, Client: roundTrip(func(*http.Request) (*http.Response, error) { return ok(ids123) }).client()})
			enc := encode(t, e, Completions, text("a"), "http://a")
			assert.Equal(t, c.want, reasons(enc))
			assert.EqualValues(t, 1, l.calls.Load())
			if c.err == nil {
				assert.Equal(t, Encoding{Source: SourceLocal, Tokens: []uint32{1}, Count: 1}, enc)
			} else {
				assert.Equal(t, SourceTokenize, enc.Source)
			}
		})
	}
}

// Concurrent requests, failing engines and a Close in the middle, for -race.
func TestStorm(t *testing.T) {
	leak.Check(t)
	var n atomic.Int64
	e := NewEncoder(Options{CacheBytes: 4 << 10, MaxCalls: 2, Deadline: time.Second, Client: roundTrip(func(*http.Request) (*http.Response, error) {
		switch n.Add(1) % 5 {
		case 0:
			return nil, errors.New("down")
		case 1:
			return ok("nonsense")
		default:
			return ok(ids123)
		}
	}).client()})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 200 {
				enc, err := e.Encode(context.Background(), &Request{API: Completions, Body: []byte(text(fmt.Sprint(k % 20))), Engine: Engine{BaseURL: fmt.Sprintf("http://%d", i%3)}})
				if err != nil {
					t.Error(err)
					return
				}
				assert.NotEqual(t, SourceNone, enc.Source)
				assert.LessOrEqual(t, e.Stats().Bytes, int64(4<<10))
				if i == 0 && k == 150 {
					assert.NoError(t, e.Close())
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, e.Close())
	assert.Empty(t, e.flights)
}
