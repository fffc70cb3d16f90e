package debug_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/debug"
)

// viewer is an open stream.
type viewer struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
	stop func()
}

func (r *rig) watch() *viewer {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/debug/kvsteer/events", http.NoBody)
	require.NoError(r.t, err)
	resp, err := r.server.Client().Do(req) //nolint:bodyclose // stop does
	require.NoError(r.t, err)
	v := &viewer{t: r.t, resp: resp, in: bufio.NewReader(resp.Body), stop: func() { stop(); _ = resp.Body.Close() }}
	r.t.Cleanup(v.stop)
	return v
}

// next returns the next frame.
func (v *viewer) next() *shown {
	v.t.Helper()
	var s shown
	for {
		line, err := v.in.ReadString('\n')
		require.NoError(v.t, err)
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			require.NoError(v.t, json.Unmarshal([]byte(data), &s))
			return &s
		}
	}
}

func quick() debug.Options { return debug.Options{Interval: 100 * time.Millisecond} }

func TestTheStreamBeginsWithAllAndGoesOnWithWhatIsNew(t *testing.T) {
	r := newRig(t, rigConfig{options: quick()})
	require.Equal(t, http.StatusOK, r.ask("before anybody watches"))
	v := r.watch()
	require.Equal(t, "text/event-stream", v.resp.Header.Get("Content-Type"))
	first := v.next()
	require.True(t, first.Full)
	require.Len(t, first.Decisions, 1)
	require.NotNil(t, first.Policy)
	require.Equal(t, http.StatusOK, r.ask("while somebody watches"))
	seen := map[uint64]int{}
	ended := false
	for range 100 {
		s := v.next()
		for _, d := range s.Decisions {
			seen[d.ID]++
			ended = ended || d.ID == 2 && d.End != nil
		}
		if s.Full { // a frame was missed on this busy machine
			continue
		}
		require.Nil(t, s.Policy, "it has not changed")
		if ended && len(s.Decisions) == 0 {
			break
		}
	}
	require.True(t, ended)
	require.Positive(t, seen[2])
}

func TestViewersAreBounded(t *testing.T) {
	r := newRig(t, rigConfig{options: debug.Options{Interval: 100 * time.Millisecond, MaxViewers: 2}})
	a, b := r.watch(), r.watch()
	a.next()
	b.next()
	c := r.watch()
	require.Equal(t, http.StatusServiceUnavailable, c.resp.StatusCode)
	require.NotEmpty(t, c.resp.Header.Get("Retry-After"))
	status, _, _ := r.get("/state.json")
	require.Equal(t, http.StatusOK, status)
	a.stop()
	require.Eventually(t, func() bool {
		v := r.watch()
		defer v.stop()
		return v.resp.StatusCode == http.StatusOK
	}, patience, 20*time.Millisecond, "a viewer who leaves makes room")
}

// A browser that does not read holds up neither requests, nor other browsers, nor Close.
func TestASlowViewerHoldsUpNobody(t *testing.T) {
	r := newRig(t, rigConfig{options: quick()})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.server.URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(1024))
	_, err = fmt.Fprintf(conn, "GET /debug/kvsteer/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	v := r.watch()
	v.next()
	for range 30 {
		require.Equal(t, http.StatusOK, r.ask("somebody does not listen"))
		v.next()
	}
	require.NoError(t, r.console.Close())
}

// pipes listens for connections of which nothing is buffered: who writes waits for who reads.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.done)
	return nil
}

func (p *pipes) Addr() net.Addr { return address{"pipe", "pipe"} }

// unread asks for a path, and never reads the answer. The channel is closed when the server
// has given up.
func (r *rig) unread(path string) (gone <-chan struct{}) {
	r.t.Helper()
	there, here := net.Pipe()
	p := &pipes{conns: make(chan net.Conn, 1), done: make(chan struct{})}
	p.conns <- there
	closed := make(chan struct{})
	s := &http.Server{Handler: r.console, ReadHeaderTimeout: patience, ConnState: func(_ net.Conn, st http.ConnState) {
		if st == http.StateClosed {
			close(closed)
		}
	}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(p)
	}()
	r.t.Cleanup(func() {
		_ = here.Close()
		_ = s.Close()
		<-served
	})
	_, err := fmt.Fprintf(here, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	require.NoError(r.t, err)
	return closed
}

func all(http.ResponseWriter, *http.Request) bool { return true }

// Who takes nothing for long enough is given up, whatever he asked for.
func TestWhoDoesNotReadIsGivenUp(t *testing.T) {
	for _, path := range []string{"/events", "/state.json", "/app.js"} {
		t.Run(path, func(t *testing.T) {
			o := quick()
			o.Authenticate = all
			r := newRig(t, rigConfig{options: o})
			r.console.SetPatience(50 * time.Millisecond)
			select {
			case <-r.unread(path):
			case <-time.After(patience):
				t.Fatal("the server still waits for a client that does not read")
			}
			require.NoError(t, r.console.Close())
		})
	}
}

// Close does not wait for clients that ask for the state and take their time.
func TestCloseDoesNotWaitForWhoDoesNotRead(t *testing.T) {
	r := newRig(t, rigConfig{options: debug.Options{Authenticate: all}})
	r.console.SetPatience(time.Hour)
	gone := r.unread("/state.json")
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = r.console.Close()
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("Close waits for a client that does not read")
	}
	select {
	case <-gone:
		t.Error("the client was given up before its time")
	default:
	}
}

func TestCloseEndsStreamsAndWaits(t *testing.T) {
	r := newRig(t, rigConfig{options: quick()})
	v := r.watch()
	v.next()
	require.NoError(t, r.console.Close())
	_, err := io.Copy(io.Discard, v.in)
	require.NoError(t, err, "the stream came to its end")
	require.NoError(t, r.console.Close())
	status, _, _ := r.get("/events")
	require.Equal(t, http.StatusServiceUnavailable, status)
	status, _, _ = r.get("/state.json")
	require.Equal(t, http.StatusServiceUnavailable, status)
	status, _, _ = r.get("/")
	require.Equal(t, http.StatusOK, status)
}

func TestViewersComeAndGo(t *testing.T) {
	r := newRig(t, rigConfig{options: quick()})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.ask("under load")
			}
		}
	})
	var viewers sync.WaitGroup
	for range 4 {
		viewers.Go(func() {
			for range 5 {
				v := r.watch()
				v.next()
				v.next()
				v.stop()
			}
		})
	}
	viewers.Wait()
	close(stop)
	wg.Wait()
}
