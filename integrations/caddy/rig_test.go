package kvsteercaddy

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/record"
)

const (
	patience = 30 * time.Second
	moment   = 5 * time.Millisecond
)

// rig is Caddy in this process, on a Unix socket, and fake engines behind it.
type rig struct {
	t       *testing.T
	dir     string
	engines []*fleettest.Engine
	client  *http.Client
}

func newRig(t *testing.T, engines ...fleettest.Config) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "kvsteer") //nolint:usetesting // a socket's path must be short
	require.NoError(t, err)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "s"))
	}
	// No connection is kept: that the server closes one as the next request is sent on it
	// would be seen here as well.
	r := &rig{t: t, dir: dir, client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
	var list strings.Builder
	for i, c := range engines {
		c.Name = "w" + string(rune('0'+i))
		if c.Model == "" {
			c.Model = "m"
		}
		if c.Speed == 0 {
			c.Speed = 1000
		}
		e := fleettest.New(t, c)
		r.engines = append(r.engines, e)
		list.WriteString("  - {name: " + c.Name + ", url: \"" + e.URL() + "\"}\n")
	}
	r.write("fleet.yaml", "workers:\n"+list.String())
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		require.NoError(t, caddy.Stop())
		gone(t)
		require.NoError(t, os.RemoveAll(dir))
	})
	return r
}

// speakHTTP2 makes the client do so, without TLS.
func (r *rig) speakHTTP2() {
	tr := r.client.Transport.(*http.Transport)
	tr.Protocols = new(http.Protocols)
	tr.Protocols.SetUnencryptedHTTP2(true)
	tr.DisableKeepAlives = false
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) write(name, text string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(r.path(name), []byte(text), 0o600))
}

// config is the JSON of a site with the directives; DIR in them is the rig's directory.
// Logs are not rolled, for what rolls them is never ended.
func (r *rig) config(directives string) []byte {
	r.t.Helper()
	text := `{
	admin off
	persist_config off
	auto_https off
	servers {
		protocols h1 h2c
	}
	log {
		output file DIR/log {
			roll_disabled
		}
		format json
		level DEBUG
	}
}
http:// {
	bind unix/DIR/s
	log {
		output file DIR/access {
			roll_disabled
		}
		format json
	}
` + directives + "\n}\n"
	text = strings.ReplaceAll(text, "DIR", r.dir)
	out, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	require.NoError(r.t, err)
	return out
}

// load makes Caddy serve a site with the directives, and waits for the workers: on a busy
// machine for longer than Caddy does by itself.
func (r *rig) load(directives string) {
	r.t.Helper()
	require.NoError(r.t, caddy.Load(r.config(directives), true))
	require.Eventually(r.t, func() bool {
		for _, s := range r.status() {
			for _, w := range s.Workers {
				if len(r.engines) > 0 && !w.Routable {
					return false
				}
			}
		}
		return true
	}, patience, moment, "all workers are ready")
}

// closes makes Caddy serve something else, and waits until decision logs are closed.
func (r *rig) closes() {
	r.t.Helper()
	r.load("respond 204")
	gone(r.t)
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (r *rig) send(method, path, body string, header ...string) answer {
	r.t.Helper()
	resp := r.do(func() *http.Request { return r.request(r.t.Context(), method, path, body, header...) })
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

// do sends a request, again if the connection was closed before anything came: as Caddy
// reloads it closes some that it has just accepted, whatever the site is made of.
func (r *rig) do(request func() *http.Request) *http.Response {
	r.t.Helper()
	for range 100 {
		resp, err := r.client.Do(request())
		if err == nil {
			return resp
		}
		require.NoError(r.t, r.t.Context().Err())
		r.t.Log("connection closed:", err)
	}
	require.Fail(r.t, "Caddy does not answer")
	return nil
}

func (r *rig) request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, strings.NewReader(body))
	require.NoError(r.t, err)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header[header[i]] = append(req.Header[header[i]], header[i+1])
	}
	return req
}

const chatPath = "/v1/chat/completions"

func chat(text string, stream bool) string {
	b, _ := json.Marshal(map[string]any{
		"model": "m", "stream": stream, "messages": []any{map[string]any{"role": "user", "content": text}},
	})
	return string(b)
}

func (r *rig) ask(text string, header ...string) answer {
	r.t.Helper()
	return r.send(http.MethodPost, chatPath, chat(text, false), header...)
}

// stream begins a stream and reads its first line.
func (r *rig) stream(ctx context.Context, text string) (*http.Response, *bufio.Reader) {
	r.t.Helper()
	resp := r.do(func() *http.Request { return r.request(ctx, http.MethodPost, chatPath, chat(text, true)) })
	require.Equal(r.t, http.StatusOK, resp.StatusCode)
	from := bufio.NewReader(resp.Body)
	line, err := from.ReadString('\n')
	require.NoError(r.t, err)
	require.Contains(r.t, line, "data:")
	return resp, from
}

// status is what /kvsteer/status shows.
func (*rig) status() []routerStatus {
	var all []routerStatus
	for _, at := range standing.list() {
		all = append(all, at.status())
	}
	return all
}

// settle ends all lingering, and waits for what is closed behind requests.
func settle(t *testing.T) {
	t.Helper()
	lingering.hurry()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	behind.wait(ctx)
	require.NoError(t, ctx.Err(), "something does not close")
}

// gone waits until no router is left: a request lets go of its own a moment after the
// client has all of its answer.
func gone(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		lingering.hurry()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		behind.wait(ctx)
		return len(standing.list()) == 0
	}, patience, moment, "routers are left")
}

// noTrails waits until nothing is written down of a request any more, which is a moment
// after its answer.
func noTrails(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(trailsOpen()) == 0 }, patience, moment)
}

// idle waits until nothing is in flight anywhere.
func (r *rig) idle() {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		for _, s := range r.status() {
			if s.InFlight+s.Waiting > 0 {
				return false
			}
			for _, w := range s.Workers {
				if w.InFlight > 0 {
					return false
				}
			}
		}
		for _, e := range r.engines {
			if e.Stats().InFlight > 0 {
				return false
			}
		}
		return true
	}, patience, moment, "in flight is zero")
}

type access struct {
	Status  int
	Kvsteer map[string]any
}

// accessLog waits until n requests are in the access log.
func (r *rig) accessLog(n int) (lines []access) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		text, err := os.ReadFile(r.path("access"))
		lines = lines[:0]
		for line := range strings.Lines(string(text)) {
			var a access
			if json.Unmarshal([]byte(line), &a) == nil {
				lines = append(lines, a)
			}
		}
		return err == nil && len(lines) >= n
	}, patience, moment, "lines in the access log")
	return lines
}

// logged waits until Caddy's log has the text.
func (r *rig) logged(text string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		log, err := os.ReadFile(r.path("log"))
		return err == nil && strings.Contains(string(log), text)
	}, patience, moment, "%q in the log", text)
}

// tenants are those in the decision log.
func (r *rig) tenants() (names []string) {
	r.t.Helper()
	log, err := os.Open(r.path("decisions"))
	require.NoError(r.t, err)
	defer log.Close()
	require.NoError(r.t, record.Read(log, func(e *record.Entry) error {
		if e.Decision != nil {
			names = append(names, e.Decision.Request.Tenant)
		}
		return nil
	}))
	return names
}

// trailsOpen are the decisions whose requests are still written down.
func trailsOpen() (ids []uint64) {
	for _, at := range standing.list() {
		ts := &at.room.trails
		ts.mu.Lock()
		for id := range ts.open {
			ids = append(ids, id)
		}
		ts.mu.Unlock()
	}
	return ids
}
