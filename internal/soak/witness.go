package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// headerNumber is the request's, by which the gateway's side of it finds its trail.
const headerNumber = "X-Soak-Number"

// fault is in the text of an error that an engine was made to answer with.
const fault = "injected fault"

// attempt is one try of a request on one worker, as seen between the gateway and the worker:
// before anything of KVSteer's could make another thing of it.
type attempt struct {
	worker       string
	began, ended time.Time
	status       int
	confessed    bool // the engine's own answer says that its error was injected
	broken       bool // the connection was refused, or ended before the answer did
	why          string
	// cause is the injection that it failed by, "" for none.
	cause string
}

// trail is what was tried for one request, and who was chosen last.
type trail struct {
	mu     sync.Mutex
	chosen string
	failed []attempt
	tried  int
}

type trailKey struct{}

func trailOf(ctx context.Context) *trail {
	t, _ := ctx.Value(trailKey{}).(*trail)
	return t
}

func (t *trail) choose(worker string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chosen = worker
}

func (t *trail) worker() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.chosen
}

// injury says which injections a request has failed by: each of its attempts has failed, and
// each by one that is known. "" if not.
func (t *trail) injury() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tried == 0 || len(t.failed) < t.tried {
		return ""
	}
	var all []string
	for i := range t.failed {
		if t.failed[i].cause == "" {
			return ""
		}
		all = append(all, t.failed[i].cause)
	}
	return strings.Join(all, "; ")
}

// unexplained are the attempts that failed by no injection.
func (t *trail) unexplained() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for i := range t.failed {
		if a := &t.failed[i]; a.cause == "" {
			all = append(all, fmt.Sprintf("%s: status %d, %s", a.worker, a.status, a.why))
		}
	}
	return all
}

func (t *trail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []string{fmt.Sprintf("%d attempts", t.tried)}
	for i := range t.failed {
		a := &t.failed[i]
		all = append(all, fmt.Sprintf("%s: status %d, %s [%s]", a.worker, a.status, a.why, a.cause))
	}
	return strings.Join(all, "; ")
}

// witness sends requests to workers and sees what becomes of them.
type witness struct {
	base     *http.Transport
	injected *injected
}

func (w *witness) CloseIdleConnections() { w.base.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (w *witness) RoundTrip(req *http.Request) (*http.Response, error) {
	t := trailOf(req.Context())
	if t == nil {
		return w.base.RoundTrip(req) //nolint:wrapcheck // it must look as if nobody were here
	}
	t.mu.Lock()
	t.tried++
	s := &sighting{witness: w, trail: t, ctx: req.Context(), attempt: attempt{worker: t.chosen, began: time.Now()}}
	t.mu.Unlock()
	resp, err := w.base.RoundTrip(req)
	if err != nil {
		s.fails(err)
		return nil, err //nolint:wrapcheck // it must look as if nobody were here
	}
	s.attempt.status = resp.StatusCode
	if resp.StatusCode >= http.StatusInternalServerError {
		const most = 64 << 10
		text, failed := io.ReadAll(io.LimitReader(resp.Body, most))
		s.attempt.confessed = failed == nil && bytes.Contains(text, []byte(fault))
		s.fails(failed)
		resp.Body = &replayed{Reader: io.MultiReader(bytes.NewReader(text), resp.Body), Closer: resp.Body}
		return resp, nil
	}
	s.ReadCloser = resp.Body
	resp.Body = s
	return resp, nil
}

type replayed struct {
	io.Reader
	io.Closer
}

// sighting is the body of an answer, and sees whether that breaks off. It is read by one
// goroutine.
type sighting struct {
	io.ReadCloser

	witness *witness
	trail   *trail
	ctx     context.Context //nolint:containedctx // the request's
	attempt attempt
	over    bool
}

func (s *sighting) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !s.over {
		s.over = true
		s.fails(err)
	}
	return n, err //nolint:wrapcheck // it must look as if nobody were here
}

// fails notes that the attempt has failed, unless by a client that has left.
func (s *sighting) fails(err error) {
	if s.ctx.Err() != nil {
		return
	}
	a := s.attempt
	a.ended, a.broken = time.Now(), err != nil && broke(err)
	a.why = "an error of its own"
	if err != nil {
		a.why = err.Error()
	}
	a.cause = s.witness.injected.explain(&a)
	s.trail.mu.Lock()
	defer s.trail.mu.Unlock()
	s.trail.failed = append(s.trail.failed, a)
}

// broke reports whether a connection was refused or has ended, which is what an engine does
// that dies; what takes too long, or makes no sense, is something else.
func broke(err error) bool {
	if late := net.Error(nil); errors.As(err, &late) && late.Timeout() {
		return false
	}
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.ECONNREFUSED, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return strings.Contains(err.Error(), "server closed idle connection")
}
