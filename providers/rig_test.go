package providers

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// fakeClock stands until it is moved.
type fakeClock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *fakeClock {
	return &fakeClock{at: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
}

func (c *fakeClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *fakeClock) add(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	return c.at
}

// got is a request as a service got it.
type got struct {
	Method, URI, Body string
	Header            http.Header
}

// service is a server that records and answers as it is told.
type service struct {
	*httptest.Server

	mu     sync.Mutex
	seen   []got
	answer http.HandlerFunc
}

func serve(t testing.TB, answer http.HandlerFunc) *service {
	t.Helper()
	s := &service{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.seen = append(s.seen, got{r.Method, r.URL.RequestURI(), string(body), r.Header.Clone()})
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *service) last(t testing.TB) got {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.seen, "no request came")
	return s.seen[len(s.seen)-1]
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

func (s *service) will(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// says answers with a status, headers in pairs, and a body.
func says(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func newSet(t testing.TB, o Options, list ...Provider) *Set {
	t.Helper()
	s, err := New(list, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// oneOffer is a Set of one provider with a model "ours" that is "theirs" there.
func oneOffer(t testing.TB, kind Kind, url string, more ...func(*Provider, *Options)) *Offer {
	t.Helper()
	p := Provider{Name: "p", Kind: kind, URL: url, Models: []Model{{Name: "ours", Upstream: "theirs"}}}
	var o Options
	for _, f := range more {
		f(&p, &o)
	}
	offers := newSet(t, o, p).Offers("ours")
	require.Len(t, offers, 1)
	return offers[0]
}

// ask makes a request of an API.
func newRequest(t testing.TB, ctx context.Context, api prompt.API, body string) *http.Request { //nolint:revive // as testing has it
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway.test"+api.Path(), strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// reply is an answer as the client got it.
type reply struct {
	StatusCode    int
	Header        http.Header
	ContentLength int64
	failure       *Failure
}

// send sends a request through an Offer, and reads the answer.
func send(t testing.TB, o *Offer, x Exchange, body string, headers ...string) (got reply, text string) {
	t.Helper()
	r := newRequest(t, t.Context(), x.API, body)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return finish(t, o, x, r)
}

// finish sends a request, and reads the answer.
func finish(t testing.TB, o *Offer, x Exchange, r *http.Request) (got reply, text string) {
	t.Helper()
	resp, err := o.RoundTripper(nil, x).RoundTrip(r)
	require.NoError(t, err)
	whole, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	got = reply{StatusCode: resp.StatusCode, Header: resp.Header, ContentLength: resp.ContentLength}
	if b, ok := resp.Body.(interface{ Failure() *Failure }); ok {
		got.failure = b.Failure()
	}
	require.NoError(t, resp.Body.Close())
	return got, string(whole)
}

func failureOf(t testing.TB, got reply) *Failure {
	t.Helper()
	require.NotNil(t, got.failure, "the body doesn't say what failed")
	return got.failure
}

// fails sends a request that gets no answer.
func fails(t testing.TB, o *Offer, x Exchange, r *http.Request) *Error {
	t.Helper()
	resp, err := o.RoundTripper(nil, x).RoundTrip(r)
	if err == nil {
		require.NoError(t, resp.Body.Close())
	}
	var e *Error
	require.ErrorAs(t, err, &e)
	return e
}
