package httpjson_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/httpjson"
)

// discover runs d until it fails or until has is true of the lists, and returns
// the lists and the error.
func discover(t *testing.T, d fleet.Discoverer, has func(lists [][]fleet.Worker) bool) ([][]fleet.Worker, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var lists [][]fleet.Worker
	err := d.Discover(ctx, func(list []fleet.Worker) error {
		lists = append(lists, list)
		if has(lists) {
			cancel()
		}
		return nil
	})
	return lists, err
}

// failure is the error of d's first call of Discover.
func failure(t *testing.T, d fleet.Discoverer) error {
	t.Helper()
	lists, err := discover(t, d, func([][]fleet.Worker) bool { return true })
	assert.Empty(t, lists)
	require.Error(t, err)
	return err
}

func one(n int) func([][]fleet.Worker) bool {
	return func(lists [][]fleet.Worker) bool { return len(lists) >= n }
}

func TestETag(t *testing.T) {
	s := newServer(t, []fleet.Worker{{Name: "a", URL: "http://h:1"}})
	ctx, cancel := context.WithCancel(t.Context())
	lists := make(chan []fleet.Worker, 10)
	var wg sync.WaitGroup
	wg.Go(func() {
		assert.NoError(t, s.discoverer().Discover(ctx, func(list []fleet.Worker) error {
			lists <- list
			return nil
		}))
	})
	defer wg.Wait()
	defer cancel()
	assert.Len(t, <-lists, 1)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.notModified >= 3
	}, 30*time.Second, time.Millisecond)
	assert.Empty(t, lists, "304 is no news")
	require.NoError(t, s.set([]fleet.Worker{{Name: "a", URL: "http://h:1"}, {Name: "b", URL: "http://h:2"}}))
	assert.Len(t, <-lists, 2)
}

// TestNotModifiedUnasked: there is no list that a 304 could stand for.
func TestNotModifiedUnasked(t *testing.T) {
	s := newServer(t, nil)
	s.fail(status(http.StatusNotModified))
	var se *httpjson.StatusError
	require.ErrorAs(t, failure(t, s.discoverer()), &se)
	assert.Equal(t, http.StatusNotModified, se.Code)
}

const (
	canary      = "canary-b2c1"
	canaryQuery = "canary-q9f3"
)

// TestSecretsStaySecret: what Prepare adds and what the URL's query holds is in no
// error and no log, however the server fails.
func TestSecretsStaySecret(t *testing.T) {
	all := faults()
	all["refuses"] = status(http.StatusUnauthorized)
	all["echoes"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+r.URL.RawQuery) //nolint:gosec // no browser reads it
	}
	all["redirects with the secret"] = func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "ftp://elsewhere/?"+r.URL.RawQuery, http.StatusFound) //nolint:gosec // that is the fault
	}
	all["redirects nowhere"] = raw("HTTP/1.1 302 Found\r\nLocation: http://%zz/?" + canaryQuery + "\r\nContent-Length: 0\r\n\r\n")
	all["redirects with a place of no sense"] = all["redirects nowhere"]
	all["malformed header"] = raw("HTTP/1.1 200 OK\r\n" + canary + "\r\n\r\n")
	all["malformed trailer"] = raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + canary + "\r\n\r\n")
	all["malformed status"] = raw("HTTP/1.1 " + canary + "\r\n\r\n")
	all["malformed length"] = raw("HTTP/1.1 200 OK\r\nContent-Length: " + canary + "\r\n\r\n")
	for name, fault := range all {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			s.fail(fault)
			var log bytes.Buffer
			failed := make(chan error, 10)
			d := s.discoverer()
			d.URL += "?token=" + canaryQuery
			if strings.HasPrefix(name, "stalls") {
				d.Timeout = 2 * time.Second
			}
			d.Prepare = func(r *http.Request, _ http.Header) error {
				r.Header.Set("Authorization", "Bearer "+canary)
				return nil
			}
			if strings.HasPrefix(name, "redirects with ") {
				d.Client = &http.Client{
					Transport:     &http.Transport{DisableKeepAlives: true},
					CheckRedirect: func(*http.Request, []*http.Request) error { return nil },
				}
			}
			f, err := fleet.New(fleet.Options{
				Discoverer: d, OnError: func(err error) { failed <- err },
				Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			require.NoError(t, err)
			err = <-failed
			assert.NotContains(t, err.Error(), "canary")
			assert.Contains(t, err.Error(), s.URL+"/workers", "the address itself is told")
			require.NoError(t, f.Close())
			assert.NotContains(t, log.String(), "canary")
			s.mu.Lock()
			defer s.mu.Unlock()
			assert.Equal(t, "Bearer "+canary, s.asked[0].Get("Authorization"))
		})
	}
}

// raw answers with these very bytes.
func raw(answer string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, answer)
		_ = conn.Close()
	}
}

func TestPrepareFails(t *testing.T) {
	s := newServer(t, nil)
	d := s.discoverer()
	problem := errors.New("no token yet")
	d.Prepare = func(*http.Request, http.Header) error { return problem }
	require.ErrorIs(t, failure(t, d), problem)
	assert.Empty(t, s.asked)
}

func TestAnswerIsBounded(t *testing.T) {
	long := `{"workers": [` + strings.Repeat(" ", 1<<20) + `]}`
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := io.WriteString(z, long)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	require.Less(t, zipped.Len(), 10_000, "as it travels it is short")
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"plain": text(long),
		"compressed": func(w http.ResponseWriter, r *http.Request) {
			assert.Contains(t, r.Header.Get("Accept-Encoding"), "gzip")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped.Bytes())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			s.fail(answer)
			d := s.discoverer()
			d.MaxBytes = 1 << 20
			require.ErrorIs(t, failure(t, d), httpjson.ErrTooLarge)
			d.MaxBytes = 2 << 20
			lists, err := discover(t, d, one(1))
			require.NoError(t, err)
			assert.Empty(t, lists[0])
		})
	}
}

// TestRedirects: credentials go to the address that was given and nowhere else,
// unless the caller wants it.
func TestRedirects(t *testing.T) {
	elsewhere := newServer(t, []fleet.Worker{{Name: "a", URL: "http://h:1"}})
	s := newServer(t, nil)
	s.fail(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	d := s.discoverer()
	err := failure(t, d)
	require.ErrorContains(t, err, "status 307 Temporary Redirect; write the address that it redirects to")
	assert.Empty(t, elsewhere.asked)

	d.Client = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return nil },
	}
	lists, err := discover(t, d, one(1))
	require.NoError(t, err)
	assert.Equal(t, "a", lists[0][0].Name)
}

func TestTLS(t *testing.T) {
	s := &server{}
	require.NoError(t, s.set([]fleet.Worker{{Name: "a", URL: "http://h:1"}}))
	s.Server = httptest.NewUnstartedServer(s)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the handshake that fails
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	d := s.discoverer()
	require.ErrorContains(t, failure(t, d), "certificate")
	d.Client = s.Client()
	lists, err := discover(t, d, one(1))
	require.NoError(t, err)
	assert.Equal(t, "a", lists[0][0].Name)
}

// TestNobodyThere: a refused connection is told with the address.
func TestNobodyThere(t *testing.T) {
	s := newServer(t, nil)
	d := s.discoverer()
	s.Close()
	require.ErrorContains(t, failure(t, d), d.URL+": ")
}

// roundTripper is a server without a network, which synctest needs.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func response(code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// TestFleetKeepsWorkers: a source that is out for hours removes nobody, is asked
// less and less often but at least each half minute or so, never in step, and is
// back soon when it is.
func TestFleetKeepsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []time.Time
		out := false
		client := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, time.Now())
			if out {
				return nil, errors.New("connection refused")
			}
			return response(http.StatusOK, `[{"name": "a", "url": "http://h:1"}]`), nil
		})}
		f, err := fleet.New(fleet.Options{
			Discoverer: &httpjson.Discoverer{URL: "http://registry/workers", Client: client},
			HTTPClient: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				return nil, errors.New("no network here")
			})},
		})
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, f.Err())
		mu.Lock()
		require.InDelta(t, 12, len(asked), 2, "every 5 s")
		mu.Unlock()

		turn := func(on bool) {
			mu.Lock()
			defer mu.Unlock()
			out, asked = on, nil
		}
		turn(true)
		time.Sleep(2 * time.Hour)
		require.ErrorContains(t, f.Err(), "the last list stays in force: http://registry/workers: connection refused")
		require.Len(t, f.Snapshot().Members(), 1)
		mu.Lock()
		pauses := map[time.Duration]bool{}
		var longest time.Duration
		for i := range asked[1:] {
			pause := asked[i+1].Sub(asked[i])
			pauses[pause] = true
			longest = max(longest, pause)
		}
		times := len(asked)
		mu.Unlock()
		assert.Greater(t, longest, 20*time.Second)
		assert.LessOrEqual(t, longest, 36*time.Second, "30 s and the Fleet's own 5 s")
		assert.Greater(t, len(pauses), times/2, "no two gateways in step")

		turn(false)
		time.Sleep(40 * time.Second)
		require.NoError(t, f.Err())
		require.NoError(t, f.Close())
	})
}

// TestTimeout: also a client without one of its own waits no longer.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &httpjson.Discoverer{
			URL: "http://registry/workers",
			Client: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})},
		}
		began := time.Now()
		err := d.Discover(t.Context(), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "http://registry/workers: no answer within 10s (Discoverer.Timeout): context deadline exceeded")
		assert.Equal(t, 10*time.Second, time.Since(began))
	})
}

func TestNewRefusesMisuse(t *testing.T) {
	for _, d := range []*httpjson.Discoverer{
		{},
		{URL: "registry"},
		{URL: "ftp://registry/"},
		{URL: "http:///workers"},
		{URL: "http://user:" + canary + "@registry/"},
		{URL: "http://registry/%zz" + canary},
		{URL: "http://r/", Interval: -1},
		{URL: "http://r/", Timeout: -1},
		{URL: "http://r/", MaxBackoff: -1},
		{URL: "http://r/", MaxBytes: -1},
	} {
		_, err := fleet.New(fleet.Options{Discoverer: d})
		require.ErrorContains(t, err, "httpjson: Discoverer.", d.URL)
		assert.NotContains(t, err.Error(), canary)
		assert.EqualError(t, d.Discover(t.Context(), nil), err.Error())
	}
}
