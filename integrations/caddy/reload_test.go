package kvsteercaddy

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/record"
)

// rooms are the routers there are.
func rooms() (all []*routerRoom) {
	for _, at := range standing.list() {
		all = append(all, at.room)
	}
	return all
}

// A router outlives reloads that leave its configuration as it is, also where other
// options of the handler change; handlers with equal ones share it.
func TestReloadKeepsTheRouter(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load(plain)
	before := rooms()
	require.Len(t, before, 1)
	for i := range 5 {
		r.load(fmt.Sprintf("@a path /a/*\nkvsteer @a {\n fleet DIR/fleet.yaml\n tenant %d\n}\nkvsteer {\n fleet DIR/fleet.yaml\n idle_timeout %dm\n}", i, i+1))
		require.Equal(t, http.StatusOK, r.ask("hi").status)
		require.Equal(t, before, rooms())
	}
	settle(t)
	require.Equal(t, before, rooms(), "it is in use")
	n, _ := routers.References(before[0].key)
	require.Equal(t, 2, n)
}

// A changed router leaves the fleet as it is, and what was learned; requests of the old
// one go on to their end, and then it is closed. The log goes where the latest
// configuration says.
func TestReloadChangesTheRouter(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load(plain)
	old := rooms()[0]
	r.engines[0].Faults().Hang(fleettest.HangMidStream)
	resp, from := r.stream(t.Context(), "hi")

	r.load("kvsteer {\n fleet DIR/fleet.yaml\n max_attempts 2\n}")
	require.Len(t, rooms(), 2)
	settle(t)
	require.Len(t, rooms(), 2, "a request uses it")
	for _, room := range rooms() {
		require.Same(t, old.fleet, room.fleet)
	}
	require.Equal(t, 1, old.router.InFlight())
	r.write("fleet.yaml", "workers: []\nother: 1\n")
	r.logged(`has no key \"other\"`)

	r.engines[0].Faults().Clear()
	rest, err := io.ReadAll(from)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(rest), "[DONE]")
	require.Eventually(t, func() bool { return len(rooms()) == 1 }, patience, moment)
	require.NotSame(t, old, rooms()[0])
	require.Equal(t, http.StatusOK, r.ask("hi").status)
}

// A request that comes on a connection of the old configuration, after that was cleaned
// up, is served.
func TestLateRequest(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load(plain)
	module, err := caddy.GetModule("http.handlers.kvsteer")
	require.NoError(t, err)
	h := module.New().(*Handler)
	h.Fleet = r.path("fleet.yaml")
	h.MaxAttempts = 2 // a router of its own
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	require.NoError(t, h.Provision(ctx))
	require.NoError(t, h.Validate())
	ask := func() int {
		w := httptest.NewRecorder()
		q := httptest.NewRequest(http.MethodPost, chatPath, strings.NewReader(chat("hi", false)))
		q.Header.Set("Content-Type", "application/json")
		require.NoError(t, h.ServeHTTP(w, q, nil))
		return w.Code
	}
	require.Equal(t, http.StatusOK, ask())
	require.Len(t, h.room.logs.here, 1)
	require.Len(t, h.room.fleet.logs.here, 2, "ours, and that of Caddy's own configuration")
	require.NoError(t, h.Cleanup())
	require.NoError(t, h.Cleanup())
	require.Empty(t, h.room.logs.here, "Caddy closes our logger")
	require.Len(t, h.room.fleet.logs.here, 1)
	require.Equal(t, http.StatusOK, ask())
	settle(t)
	require.Equal(t, http.StatusServiceUnavailable, ask(), "but not for ever")
	require.Len(t, rooms(), 1)
}

// What is wrong with what a configuration names is said with its place, the
// configuration is refused, nothing of it is left, and the one before goes on.
func TestRefusedConfigurations(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load(plain)
	before := rooms()
	r.write("bad-fleet.yaml", "workers:\n  - name: a\n    ulr: x\n")
	r.write("bad-rules.yaml", "apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\nmetadata: {name: x}\nspec:\n  rules:\n  - {name: a, mtches: []}\n")
	cases := map[string]struct{ options, want string }{
		"fleet file":       {"fleet DIR/bad-fleet.yaml", `bad-fleet.yaml: 3:5: a worker has no key "ulr"; did you mean "url"?`},
		"no fleet file":    {"fleet DIR/none.yaml", "fleet: stat DIR/none.yaml: no such file"},
		"policy file":      {"fleet DIR/fleet.yaml\n policy DIR/bad-rules.yaml", `policy: DIR/bad-rules.yaml:6:`},
		"no policy file":   {"fleet DIR/fleet.yaml\n policy DIR/none", "policy: "},
		"no models":        {"fleet DIR/fleet.yaml\n model m DIR", "model: "},
		"record":           {"fleet DIR/fleet.yaml\n record DIR", "record: "},
		"no placeholder":   {"fleet {env.KVSTEER_NOT_SET}", "fleet: "},
		"worker's address": {"worker a ftp://{system.os}", `fleet: worker "a": url: `},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := caddy.Load(r.config("kvsteer {\n "+c.options+"\n}"), true)
			require.ErrorContains(t, err, strings.ReplaceAll(c.want, "DIR", r.dir))
			require.ErrorContains(t, err, "http.handlers.kvsteer")
			settle(t)
			require.Equal(t, before, rooms())
			require.Equal(t, http.StatusOK, r.ask("hi").status)
		})
	}
	config := strings.Replace(string(r.config(plain)), `"fleet":`, `"flet":`, 1)
	require.ErrorContains(t, caddy.Load([]byte(config), true), `kvsteer has no option "flet"; did you mean "fleet"?`)

	// A file that is wrong by now keeps the configuration that is in force from being
	// loaded again, as it would keep Caddy from starting.
	good := r.path("fleet.yaml")
	r.write("fleet.yaml", "workers: 3\n")
	require.ErrorContains(t, caddy.Load(r.config(plain), true), good+": 1:10: ")
	require.Equal(t, http.StatusOK, r.ask("hi").status)
}

// Validation goes by what the policies' files say now, not by what they said when they
// were last looked at.
func TestPoliciesAreReadAnew(t *testing.T) {
	const good = "apiVersion: kvsteer.dev/v1alpha1\nkind: InferencePolicy\nmetadata: {name: x}\nspec:\n  rules:\n  - {name: a, route: {}}\n"
	r := newRig(t, fleettest.Config{})
	site := "kvsteer {\n fleet DIR/fleet.yaml\n policy DIR/rules.yaml\n}"
	r.write("rules.yaml", good)
	r.load(site)
	for range 3 { // as fast as can be: nobody has looked in between
		r.write("rules.yaml", strings.Replace(good, "rules", "ruels", 1))
		require.ErrorContains(t, caddy.Load(r.config(site), true), "policy: ")
		r.write("rules.yaml", good)
		require.NoError(t, caddy.Load(r.config(site), true))
	}
	r.write("rules.yaml", strings.Replace(good, "rules", "ruels", 1))
	r.logged("policies stay as they were")
	r.write("rules.yaml", good)
	require.NoError(t, caddy.Load(r.config(site), true))
}

// entry of a decision log, as far as it matters here.
type entry struct {
	run               string
	decision, outcome uint64
}

func (r *rig) entries(name string) (all []entry) {
	r.t.Helper()
	log, err := os.Open(r.path(name))
	require.NoError(r.t, err)
	defer log.Close()
	require.NoError(r.t, record.Read(log, func(e *record.Entry) error {
		require.Empty(r.t, e.Damage)
		switch {
		case e.Decision != nil:
			all = append(all, entry{run: e.Run, decision: e.Decision.ID})
		case e.Outcome != nil:
			all = append(all, entry{run: e.Run, outcome: e.Outcome.Decision})
		}
		return nil
	}))
	return all
}

// Routers before and after a reload write to one decision log, and each line says
// whose it is; a configuration that is only looked at leaves nothing in it.
func TestRoutersShareADecisionLog(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	site := "kvsteer {\n fleet DIR/fleet.yaml\n record DIR/decisions\n max_attempts %d\n}"
	r.load(fmt.Sprintf(site, 1))
	r.engines[0].Faults().Hang(fleettest.HangMidStream)
	resp, from := r.stream(t.Context(), "hi")
	r.load(fmt.Sprintf(site, 2))
	var config caddy.Config
	require.NoError(t, caddy.StrictUnmarshalJSON(r.config(fmt.Sprintf(site, 3)), &config))
	require.NoError(t, caddy.Validate(&config))
	other, alsoFrom := r.stream(t.Context(), "hi")
	r.engines[0].Faults().Clear()
	for _, from := range []io.Reader{from, alsoFrom} {
		_, err := io.ReadAll(from)
		require.NoError(t, err)
	}
	require.NoError(t, resp.Body.Close())
	require.NoError(t, other.Body.Close())
	r.idle()
	r.closes()
	ends := map[string]int{}
	for _, e := range r.entries("decisions") {
		if e.decision > 0 {
			require.EqualValues(t, 1, e.decision, "each numbers its own")
			ends[e.run]++
			continue
		}
		require.EqualValues(t, 1, e.outcome)
		ends[e.run] += 10
	}
	require.Equal(t, []int{11, 11}, slices.Collect(maps.Values(ends)), "one decision and one end of each")
	text, err := os.ReadFile(r.path("decisions"))
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(text), `{"kvsteer_log":`))
}

// A reload opens the decision log anew: so it can be rotated.
func TestRotatedDecisionLog(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("what is open can't be renamed there")
	}
	r := newRig(t, fleettest.Config{})
	const site = "kvsteer {\n fleet DIR/fleet.yaml\n record DIR/decisions\n}"
	r.load(site)
	before := rooms()
	require.Equal(t, http.StatusOK, r.ask("hi").status)
	require.Eventually(t, func() bool { return before[0].log.Status().Outcomes == 1 }, patience, moment)
	require.NoError(t, os.Rename(r.path("decisions"), r.path("decisions.1")))
	r.load(site)
	require.Equal(t, before, rooms())
	require.Equal(t, http.StatusOK, r.ask("hi").status)
	r.closes()
	require.Len(t, r.entries("decisions.1"), 2)
	require.Len(t, r.entries("decisions"), 2)
}

// What caddy validate does: everything is opened, and nothing is left.
func TestValidateLeavesNothing(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	var config caddy.Config
	require.NoError(t, caddy.StrictUnmarshalJSON(r.config(plain), &config))
	require.NoError(t, caddy.Validate(&config))
	settle(t)
	require.Empty(t, rooms())
}

// A configuration is loaded though no worker is ready, after a while.
func TestLoadsWithoutWorkers(t *testing.T) {
	r := newRig(t)
	r.load("kvsteer {\n worker w0 http://127.0.0.1:1\n ready_timeout 50ms\n}")
	r.logged("no worker can take requests yet")
	got := r.ask("hi")
	require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusNotFound}, got.status)
	require.Equal(t, http.StatusServiceUnavailable, r.send(http.MethodGet, "/healthz", "").status)
	require.Equal(t, http.StatusServiceUnavailable, r.send(http.MethodHead, "/healthz", "").status)
	require.Contains(t, fmt.Sprint(r.status()[0].Workers[0].Problem), "127.0.0.1:1")
	// Nobody waits for the same fleet again: that would be an hour.
	r.load("kvsteer /a {\n worker w0 http://127.0.0.1:1\n ready_timeout 1h\n}\nkvsteer {\n worker w0 http://127.0.0.1:1\n max_attempts 2\n ready_timeout 1h\n}")
}

// Requests wait for a worker as long as the queue allows, and no longer.
func TestQueue(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n queue {\n max_wait 300ms\n }\n}")
	r.engines[0].Faults().Hang(fleettest.HangBeforeHeaders)
	var wg sync.WaitGroup
	wg.Go(func() { r.send(http.MethodPost, chatPath, chat("first", true)) }) // a stream's prompt is computed until its first token
	require.Eventually(t, func() bool { return r.status()[0].InFlight == 1 }, patience, moment)
	late := r.ask("second")
	require.Equal(t, http.StatusServiceUnavailable, late.status, late.body)
	require.NotEmpty(t, late.header.Get("Retry-After"))
	require.Contains(t, late.body, "saturated")
	r.engines[0].Faults().Clear()
	wg.Wait()
	r.idle()
	require.Equal(t, http.StatusOK, r.ask("third").status)
	r.idle()
}

func TestStatus(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load("respond 204")
	show := func(method string) (string, error) {
		w := httptest.NewRecorder()
		err := serveStatus(w, httptest.NewRequest(method, "/kvsteer/status", http.NoBody))
		return w.Body.String(), err
	}
	text, err := show(http.MethodGet)
	require.NoError(t, err)
	require.JSONEq(t, `{"routers":[]}`, text)
	r.load(plain)
	text, err = show(http.MethodGet)
	require.NoError(t, err)
	require.JSONEq(t, `{"routers":[{"fleet":"`+r.path("fleet.yaml")+`","in_flight":0,"waiting":0,"workers":[
		{"name":"w0","url":"`+r.engines[0].URL()+`","routable":true,"models":["m"],"in_flight":0}]}]}`, text)
	_, err = show(http.MethodPost)
	var api caddy.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, http.StatusMethodNotAllowed, api.HTTPStatus)
}

// What is logged goes to the latest logger that is there, with all that was added to it.
func TestSink(t *testing.T) {
	var a, b strings.Builder
	text := func(w io.Writer) slog.Handler {
		return slog.NewTextHandler(w, &slog.HandlerOptions{ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
			if at.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return at
		}})
	}
	s := newSink(text(&a))
	log := s.logger().With("x", 1).WithGroup("g").With("y", 2)
	popA := s.push(text(&a))
	popB := s.push(text(&b))
	log.Info("to b", "z", 3)
	popB()
	log.Debug("nowhere")
	log.Info("to a")
	popA()
	log.Info("to a still")
	require.Equal(t, "level=INFO msg=\"to b\" x=1 g.y=2 g.z=3\n", b.String())
	require.Equal(t, "level=INFO msg=\"to a\" x=1 g.y=2\nlevel=INFO msg=\"to a still\" x=1 g.y=2\n", a.String())
}

// Whatever the order, what is used is let go of once, after the last user.
func TestUsers(t *testing.T) {
	failure := errors.New("does not close")
	var ended int
	var told error
	fresh := func() *users {
		ended, told = 0, nil
		return &users{last: func() error { ended++; return failure }, failed: func(err error) { told = err }}
	}
	u := fresh()
	require.ErrorIs(t, u.retire(false), failure, "nobody is there")
	require.NoError(t, u.retire(false))
	u.enter()
	u.leave()
	require.Equal(t, 1, ended)

	u = fresh()
	u.enter()
	require.NoError(t, u.retire(false))
	require.Zero(t, ended)
	u.leave()
	settle(t)
	require.Equal(t, 1, ended)
	require.ErrorIs(t, told, failure)

	u = fresh()
	u.linger = time.Hour
	require.NoError(t, u.retire(false))
	require.Zero(t, ended)
	other := &users{last: func() error { return nil }}
	require.NoError(t, other.retire(true), "the process ends")
	require.Equal(t, 1, ended)

	u = fresh()
	u.linger = time.Nanosecond
	done := make(chan struct{})
	u.failed = func(error) { close(done) }
	require.NoError(t, u.retire(false))
	<-done
	require.Equal(t, 1, ended)
}
