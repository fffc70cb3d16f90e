package debug_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/debug"
)

type address struct{ network, text string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }

// knock asks h as if from peer, on a listener at local, for host.
func knock(h http.Handler, local, peer, host string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/state.json", http.NoBody)
	r.RemoteAddr, r.Host = peer, host
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if local != "" {
		kind := "tcp"
		if local[0] == '/' {
			kind = "unix"
		}
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, address{kind, local}))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestWhoMayLookWithoutAnAuthenticator(t *testing.T) {
	r := newRig(t, rigConfig{})
	const here, there = "127.0.0.1:8080", "127.0.0.1:5000"
	for _, ok := range [][]string{
		{here, there, "localhost:8080"},
		{here, there, "127.0.0.1:8080"},
		{here, there, "LOCALHOST."},
		{here, there, "console.localhost:8080"},
		{"[::1]:8080", "[::1]:5000", "[::1]:8080"},
		{"[::1]:8080", "[::1]:5000", "[::1]"},
		{"127.1.2.3:80", "127.0.0.9:5000", "127.1.2.3"},
		{"[::ffff:127.0.0.1]:80", "[::ffff:127.0.0.1]:5000", "localhost"},
		{here, there, "localhost", "Sec-Fetch-Site", "same-origin"},
		{here, there, "localhost", "Sec-Fetch-Site", "none"},
		{here, there, "localhost", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
		{here, there, "localhost:8080", "Origin", "http://localhost:8080"},
	} {
		w := knock(r.console, ok[0], ok[1], ok[2], ok[3:]...)
		require.Equal(t, http.StatusOK, w.Code, "%v: %s", ok, w.Body)
	}
	for _, no := range [][]string{
		{"10.0.0.1:8080", "10.0.0.2:5000", "10.0.0.1:8080"},
		{here, "10.0.0.2:5000", "localhost"}, // a peer that some middleware has written
		{"10.0.0.1:8080", there, "localhost"},
		{"0.0.0.0:8080", there, "localhost"},
		{"", there, "localhost"},
		{here, "", "localhost"},
		{here, "nonsense", "localhost"},
		{"/run/console.sock", "@", "localhost"}, // as a proxy connects
		{"/run/console.sock", "127.0.0.1:5000", "localhost"},
		{here, there, "rebound.example"}, // DNS that points here
		{here, there, "localhost.rebound.example"},
		{here, there, "127.0.0.1.rebound.example"},
		{here, there, ""},
		{here, there, "localhost", "X-Forwarded-For", "127.0.0.1"},
		{here, there, "localhost", "x-forwarded-host", "localhost"},
		{here, there, "localhost", "Forwarded", "for=127.0.0.1"},
		{here, there, "localhost", "X-Real-IP", "127.0.0.1"},
		{here, there, "localhost", "Via", "1.1 proxy"},
		{here, there, "localhost", "CF-Connecting-IP", "127.0.0.1"},
		{here, there, "localhost", "Sec-Fetch-Site", "cross-site"},
		{here, there, "localhost", "Sec-Fetch-Site", "same-site"},
		{here, there, "localhost", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		{here, there, "localhost:8080", "Origin", "http://localhost:9090"},
		{here, there, "localhost:8080", "Origin", "null"},
	} {
		w := knock(r.console, no[0], no[1], no[2], no[3:]...)
		require.Equal(t, http.StatusForbidden, w.Code, "%v", no)
		require.NotContains(t, w.Body.String(), "{")
	}
	old := httptest.NewRequest(http.MethodGet, "/state.json", http.NoBody)
	old.RemoteAddr, old.Host, old.Proto, old.ProtoMinor = there, "localhost", "HTTP/1.0", 0
	old = old.WithContext(context.WithValue(old.Context(), http.LocalAddrContextKey, address{"tcp", here}))
	w := httptest.NewRecorder()
	r.console.ServeHTTP(w, old)
	require.Equal(t, http.StatusForbidden, w.Code, "a stock proxy speaks HTTP/1.0 and adds no header")
	require.Contains(t, knock(r.console, "10.0.0.1:8080", "10.0.0.2:5000", "10.0.0.1:8080").Body.String(), "debug.Options.Authenticate")
}

// What net/http says of a connection is what the guard believes.
func TestARealListenerOnAnotherAddress(t *testing.T) {
	var others []net.IP
	list, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			others = append(others, n.IP)
		}
	}
	if len(others) == 0 {
		t.Skip("this machine has no address but loopback")
	}
	r := newRig(t, rigConfig{})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(others[0].String(), "0"))
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(r.console)
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/", http.NoBody)
	require.NoError(t, err)
	req.Host = "localhost"
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}

// A proxy on this machine that connects to a socket file can't be told from a user.
func TestOverASocketFileOnlyWithAnAuthenticator(t *testing.T) {
	t.Run("without", func(t *testing.T) { overSocketFile(t, debug.Options{}, http.StatusForbidden) })
	t.Run("with", func(t *testing.T) {
		overSocketFile(t, debug.Options{Authenticate: all}, http.StatusOK)
	})
}

func overSocketFile(t *testing.T, o debug.Options, want int) {
	t.Helper()
	r := newRig(t, rigConfig{options: o})
	path := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Skip("no sockets in the file system here: ", err)
	}
	s := httptest.NewUnstartedServer(r.console)
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	defer s.Close()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/state.json", http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, want, resp.StatusCode)
}

func TestAnAuthenticatorDecides(t *testing.T) {
	r := newRig(t, rigConfig{options: debug.Options{Authenticate: debug.BasicAuth("ops", "s3cret")}})
	far := []string{"10.0.0.1:80", "10.0.0.2:5000", "console.example"}
	w := knock(r.console, far[0], far[1], far[2], "X-Forwarded-For", "192.0.2.1")
	require.Equal(t, http.StatusUnauthorized, w.Code)
	require.Contains(t, w.Header().Get("Www-Authenticate"), "Basic")

	ask := func(name, password string, header ...string) int {
		req := httptest.NewRequest(http.MethodGet, "/state.json", http.NoBody)
		req.RemoteAddr, req.Host = far[1], far[2]
		req.SetBasicAuth(name, password)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		r.console.ServeHTTP(w, req)
		return w.Code
	}
	require.Equal(t, http.StatusOK, ask("ops", "s3cret"))
	require.Equal(t, http.StatusOK, ask("ops", "s3cret", "X-Forwarded-For", "192.0.2.1"))
	require.Equal(t, http.StatusUnauthorized, ask("ops", "wrong"))
	require.Equal(t, http.StatusUnauthorized, ask("ops\x00s3cret", ""))
	require.Equal(t, http.StatusUnauthorized, ask("", ""))
	require.Equal(t, http.StatusForbidden, ask("ops", "s3cret", "Origin", "https://elsewhere.example"), "the browser sends passwords along")

	open := debug.BasicAuth("ops", "")
	req := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	req.SetBasicAuth("ops", "")
	require.False(t, open(httptest.NewRecorder(), req), "an empty password lets nobody in")
}
