package kvsteercaddy

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/record"
)

// open reports whether a router still chooses.
func (r *routerRoom) chooses() bool {
	_, err := r.router.Explain(context.Background(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(chat("hi", false))})
	return kvsteer.CodeOf(err) != kvsteer.CodeClosed
}

// A router that was replaced forgets what it knows of caches as soon as no request needs
// a worker of it, however long streams go on; those end, and are recorded, as ever.
func TestAReplacedRouterForgets(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n record DIR/decisions\n}")
	old := standing.list()[0].room
	var streamed atomic.Bool
	old.closers = append(old.closers, func() error { streamed.Store(true); return nil })
	r.engines[0].Faults().Hang(fleettest.HangMidStream)
	resp, from := r.stream(t.Context(), "hi")
	require.True(t, old.chooses())

	r.load("kvsteer {\n fleet DIR/fleet.yaml\n record DIR/decisions\n max_attempts 2\n}")
	require.True(t, old.chooses(), "connections of before may still bring requests")
	settle(t)
	require.False(t, old.chooses())
	require.True(t, streamed.Load())
	states := []roomState{ending, serving}
	for i, at := range standing.list() {
		require.Equal(t, states[i], at.state)
		require.Equal(t, states[i], at.status().State)
	}
	require.Equal(t, 1, old.router.InFlight())
	require.Equal(t, 1, r.status()[1].Workers[0].InFlight, "the new one counts it")

	r.engines[0].Faults().Clear()
	rest, err := io.ReadAll(from)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(rest), "[DONE]")
	require.Eventually(t, func() bool { return len(standing.list()) == 1 }, patience, moment)
	require.Zero(t, old.router.InFlight())
	require.Equal(t, []entry{{run: r.entries("decisions")[0].run, decision: 1}, {run: r.entries("decisions")[0].run, outcome: 1}},
		r.entries("decisions"))
}

// A request that has no answer yet may need another worker: the router stays for it.
func TestAReplacedRouterStaysForRetries(t *testing.T) {
	r := newRig(t, fleettest.Config{}, fleettest.Config{})
	r.load(plain)
	old := standing.list()[0].room
	for _, e := range r.engines {
		e.Faults().Hang(fleettest.HangBeforeHeaders)
	}
	got := make(chan answer, 1)
	go func() { got <- r.ask("hi") }()
	require.Eventually(t, func() bool { return old.router.InFlight() == 1 }, patience, moment)
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n max_attempts 2\n}")
	settle(t)
	require.True(t, old.chooses())
	for _, e := range r.engines { // whichever has it fails, and the other answers
		if e.Stats().InFlight > 0 {
			e.Faults().Fail(1, http.StatusServiceUnavailable, 0)
		}
	}
	for _, e := range r.engines {
		e.Faults().Hang(0)
	}
	require.Equal(t, http.StatusOK, (<-got).status)
	require.Eventually(t, func() bool { return !old.chooses() }, patience, moment)
}

// No answer waits for what closes behind it: neither the first that needs no worker any
// more, nor the last to end.
func TestClosingHoldsNoAnswerBack(t *testing.T) {
	for name, c := range map[string]struct {
		hang fleettest.HangPoint
		of   func(*routerRoom) *[]func() error
	}{
		"the router": {fleettest.HangBeforeHeaders, func(r *routerRoom) *[]func() error { return &r.closers }},
		"the rest":   {fleettest.HangMidStream, func(r *routerRoom) *[]func() error { return &r.lasting }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, fleettest.Config{})
			r.load(plain)
			old := standing.list()[0].room
			release := make(chan struct{})
			of := c.of(old)
			*of = append(*of, func() error { <-release; return nil })
			r.engines[0].Faults().Hang(c.hang)
			type begun struct {
				resp *http.Response
				from *bufio.Reader
			}
			got := make(chan begun, 1)
			go func() {
				resp, from := r.stream(t.Context(), "hi") //nolint:bodyclose // below
				got <- begun{resp, from}
			}()
			require.Eventually(t, func() bool { return old.router.InFlight() == 1 }, patience, moment)
			b := begun{}
			if c.hang == fleettest.HangMidStream {
				b = <-got
			}
			r.load("kvsteer {\n fleet DIR/fleet.yaml\n max_attempts 2\n}")
			settle(t)
			r.engines[0].Faults().Clear()
			if b.resp == nil {
				b = <-got
			}
			rest, err := io.ReadAll(b.from)
			require.NoError(t, err, "to the last byte")
			require.NoError(t, b.resp.Body.Close())
			require.Contains(t, string(rest), "[DONE]")
			require.Eventually(t, func() bool { return standing.list()[0].state == ending }, patience, moment, "it is still closing")
			close(release)
			settle(t)
			require.Len(t, standing.list(), 1)
		})
	}
}

// When the process ends, what outlasts the grace period is cut off, and recorded: also
// requests of configurations before the last.
func TestWhatIsCutOffIsRecorded(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n record DIR/decisions\n}")
	r.engines[0].Faults().Hang(fleettest.HangMidStream)
	before, fromBefore := r.stream(t.Context(), "hi")
	defer before.Body.Close()
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n record DIR/decisions\n max_attempts 2\n}")
	settle(t)

	module, err := caddy.GetModule("http.handlers.kvsteer")
	require.NoError(t, err)
	h := module.New().(*Handler)
	h.Fleet, h.Record, h.MaxAttempts = r.path("fleet.yaml"), r.path("last"), 2
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	require.NoError(t, h.Provision(ctx))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_ = h.ServeHTTP(w, q, nil)
	}))
	defer srv.Close()
	srv.Config.ErrorLog = nil
	last, err := http.Post(srv.URL+chatPath, "application/json", strings.NewReader(chat("hi", true)))
	require.NoError(t, err)
	defer last.Body.Close()
	_, err = last.Body.Read(make([]byte, 1))
	require.NoError(t, err)
	waits := make(chan int, 1) // for its answer
	go func() {
		resp, err := http.Post(srv.URL+chatPath, "application/json", strings.NewReader(chat("hi", false)))
		if err != nil {
			waits <- 0
			return
		}
		waits <- resp.StatusCode
		_ = resp.Body.Close()
	}()
	require.Eventually(t, func() bool { return h.room.router.InFlight() == 2 }, patience, moment)

	h.quiet()
	require.NoError(t, h.users.retire(true), "as Cleanup does when the process ends")
	require.Equal(t, http.StatusServiceUnavailable, <-waits)
	_, err = io.ReadAll(last.Body)
	require.Error(t, err)
	_, err = io.ReadAll(fromBefore)
	require.Error(t, err)
	for name, n := range map[string]int{"decisions": 1, "last": 2} {
		require.Equal(t, n, r.canceled(name), "%s has its ends, though the process ends now", name)
	}
	r.engines[0].Faults().Clear()
}

// canceled counts the requests of a decision log that were given up.
func (r *rig) canceled(name string) (n int) {
	r.t.Helper()
	log, err := os.Open(r.path(name))
	require.NoError(r.t, err)
	defer log.Close()
	require.NoError(r.t, record.Read(log, func(e *record.Entry) error {
		if e.Outcome != nil && e.Outcome.Error == "canceled" {
			n++
		}
		return nil
	}))
	return n
}
