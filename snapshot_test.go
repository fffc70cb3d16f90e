package kvsteer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// warmRig is three engines, and a router that knows which of them has which of some
// prompts.
func warmRig(t *testing.T, worker func(int, *fleet.Worker)) (r *rig, hub *follow.Hub, workers []fleet.Worker, holder map[string]string) {
	t.Helper()
	hub, holder = follow.NewHub(), map[string]string{}
	r = newRig(t, rigConfig{
		engines: 3, unseen: true, worker: worker, engine: func(_ int, c *fleettest.Config) { c.Hub = hub },
		options: []kvsteer.Option{kvsteer.WithEvents(hub)},
	})
	r.waitTrust(kvcache.Exact)
	for i := range 6 {
		text := fleettest.Text(uint64(i), 500)
		n := r.observed.outcomeCount()
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", chatBody(text, false)).status)
		holder[text] = r.observed.nextOutcome(t, n).Served.Worker
	}
	for text, w := range holder { // events have come
		require.Eventually(t, func() bool {
			d, err := r.router.Explain(t.Context(), chatRequest(text, false))
			return err == nil && d.Winner().Name == w && d.Winner().CachedTokens >= 480 && r.router.Stats().Index.Provisional == 0
		}, wait, tick)
	}
	for i, e := range r.engines {
		w := e.Worker()
		if worker != nil {
			worker(i, &w)
		}
		workers = append(workers, w)
	}
	return r, hub, workers, holder
}

// knowing is the rig alone.
func knowing(t *testing.T) *rig {
	t.Helper()
	r, _, _, _ := warmRig(t, nil) //nolint:dogsled // this is what it is for
	return r
}

func minted(_ int, w *fleet.Worker) { w.Epoch = "" }

const notConfirmed = "taken from a snapshot, not confirmed yet"

// A new router begins with what a peer knows, says that this is not confirmed, and
// goes on by the events from there.
func TestWarmStart(t *testing.T) {
	t.Parallel()
	for name, worker := range map[string]func(int, *fleet.Worker){"declared epochs": nil, "minted epochs": minted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, hub, workers, holder := warmRig(t, worker)
			peer := httptest.NewServer(kvsteer.SnapshotHandler(a.router, nil))
			defer peer.Close()
			closed := newGate(hub)
			b := newSuccessor(t, fleet.Static(workers...), kvsteer.WithEvents(closed),
				kvsteer.WithSnapshot(kvsteer.SnapshotFrom(peer.URL, peer.Client())))
			t.Cleanup(closed.open)
			for text, w := range holder {
				d := b.explain(3, text)
				require.Equal(t, w, d.Winner().Name, d)
				require.GreaterOrEqual(t, d.Winner().CachedTokens, 480)
				require.Equal(t, kvcache.Approximate, d.Winner().Trust)
				require.Contains(t, d.Degradations, "cache approximate: "+notConfirmed)
			}
			require.Contains(t, b.log.String(), "took over a snapshot")
			// Meanwhile the engines go on.
			late := fleettest.Text(100, 500)
			require.Equal(t, http.StatusOK, postTo(t, a.engines[1].URL(), chatBody(late, false)))
			closed.open()
			for text, w := range holder {
				d := b.exact(3, text)
				require.Equal(t, w, d.Winner().Name, d)
				require.GreaterOrEqual(t, d.Winner().CachedTokens, 480)
				require.Empty(t, d.Degradations)
			}
			require.Eventually(t, func() bool { return b.exact(3, late).Winner().Name == "w1" }, wait, tick)
			for _, c := range b.Stats().Caches {
				require.Equal(t, uint64(1), c.Streams[0].Resumed, "%s went on from the snapshot: %+v", c.Worker, c.Streams[0])
			}
		})
	}
}

// Without events nothing is ever confirmed; and where nobody could tell one engine from
// the next, nothing is taken.
func TestWarmStartWithoutEvents(t *testing.T) {
	t.Parallel()
	for name, worker := range map[string]func(int, *fleet.Worker){"declared epochs": nil, "minted epochs": minted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _, workers, holder := warmRig(t, worker)
			path := filepath.Join(t.TempDir(), "snapshot")
			require.NoError(t, a.router.SaveSnapshot(path))
			b := newSuccessor(t, fleet.Static(workers...), kvsteer.WithSnapshot(kvsteer.SnapshotFile(path)))
			for text, w := range holder {
				d := b.explain(3, text)
				require.Equal(t, kvcache.Approximate, d.Winner().Trust)
				if worker != nil {
					require.Zero(t, d.Winner().CachedTokens, d)
					require.NotContains(t, d.String(), notConfirmed)
					continue
				}
				require.Equal(t, w, d.Winner().Name, d)
				require.GreaterOrEqual(t, d.Winner().CachedTokens, 480)
				require.Contains(t, d.Degradations, "cache approximate: the router has no event transport (WithEvents); what it holds was "+notConfirmed)
			}
			require.False(t, b.KeepsSnapshot(), "everybody has what is theirs")
			b.CoolAll() // much later
			for text := range holder {
				d := b.explain(3, text)
				require.Zero(t, d.Winner().CachedTokens, d)
				require.Contains(t, d.Degradations, "cache approximate: the router has no event transport (WithEvents)")
			}
		})
	}
}

// An engine that was restarted since the snapshot inherits nothing.
func TestWarmStartAfterARestart(t *testing.T) {
	t.Parallel()
	for name, worker := range map[string]func(int, *fleet.Worker){"declared epochs": nil, "minted epochs": minted} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, hub, workers, holder := warmRig(t, worker)
			var snapshot bytes.Buffer
			require.NoError(t, a.router.Export(&snapshot))
			for i, e := range a.engines {
				require.NoError(t, e.Restart())
				events, epoch := e.Worker().Events, e.Worker().Epoch
				if workers[i].Events = events; worker == nil {
					workers[i].Epoch = epoch
				}
			}
			b := newSuccessor(t, fleet.Static(workers...), kvsteer.WithEvents(hub), kvsteer.WithSnapshot(snapshotOf(snapshot.Bytes())))
			for text := range holder {
				if worker == nil {
					require.Zero(t, b.explain(3, text).Winner().CachedTokens, "not for a moment")
				}
				require.Zero(t, b.exact(3, text).Winner().CachedTokens)
			}
			for _, c := range b.Stats().Caches {
				require.Zero(t, c.Streams[0].Resumed)
			}
		})
	}
}

func snapshotOf(data []byte) kvsteer.SnapshotSource {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// Workers that are discovered later find what the snapshot says of them, while requests
// are decided about.
func TestWarmStartOfWorkersThatComeLater(t *testing.T) {
	t.Parallel()
	a, hub, workers, holder := warmRig(t, nil)
	var snapshot bytes.Buffer
	require.NoError(t, a.router.Export(&snapshot))
	from := newRoster(workers[0])
	closed := newGate(hub)
	b := newSuccessor(t, from, kvsteer.WithEvents(closed), kvsteer.WithSnapshot(snapshotOf(snapshot.Bytes())))
	t.Cleanup(closed.open)
	b.explain(1, "x")
	require.True(t, b.KeepsSnapshot())
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if s, err := b.Select(context.Background(), chatRequest("in between", false)); err == nil {
					s.Abort(nil)
				}
			}
		}
	}()
	from.set(workers[:2]...)
	b.explain(2, "x")
	from.set(workers...)
	for text, w := range holder {
		d := b.explain(3, text)
		require.Equal(t, w, d.Winner().Name, d)
		require.GreaterOrEqual(t, d.Winner().CachedTokens, 480)
		require.Contains(t, d.String(), notConfirmed)
	}
	close(stop)
	<-done
	closed.open()
	for text, w := range holder {
		require.Equal(t, w, b.exact(3, text).Winner().Name)
	}
}

func TestNilSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{engines: 1})
	_, err := kvsteer.New(kvsteer.WithFleet(r.fleet), kvsteer.WithSnapshot(nil))
	require.ErrorContains(t, err, "WithSnapshot takes no nil")
}

// What can't be used is passed over, and said; it is never an error.
func TestSnapshotsThatCantBeUsed(t *testing.T) {
	t.Parallel()
	a, _, workers, holder := warmRig(t, nil)
	var b bytes.Buffer
	require.NoError(t, a.router.Export(&b))
	good := b.Bytes()
	changed := func(at int, to byte) []byte {
		c := bytes.Clone(good)
		c[at] = to
		return c
	}
	serve := func(h http.HandlerFunc) kvsteer.SnapshotSource {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return kvsteer.SnapshotFrom(s.URL, s.Client())
	}
	for name, c := range map[string]struct {
		source kvsteer.SnapshotSource
		says   string
	}{
		"nothing":       {snapshotOf(nil), "damaged snapshot"},
		"garbage":       {snapshotOf([]byte(strings.Repeat("<html>", 1000))), "not a snapshot"},
		"another":       {snapshotOf(changed(8, 99)), "snapshot of another version"},
		"cut":           {snapshotOf(good[:len(good)-9]), "damaged snapshot"},
		"cut at a half": {snapshotOf(good[:len(good)/2]), "damaged snapshot"},
		"a bit":         {snapshotOf(changed(len(good)/2, good[len(good)/2]^1)), "damaged snapshot"},
		"too large":     {snapshotOf(append(bytes.Clone(good), make([]byte, kvcache.MinBytes)...)), "snapshot too large"},
		"no file":       {kvsteer.SnapshotFile(filepath.Join(t.TempDir(), "none")), "SaveSnapshot writes one"},
		"a folder":      {kvsteer.SnapshotFile(t.TempDir()), "read a snapshot"},
		"peer down":     {kvsteer.SnapshotFrom("http://127.0.0.1:1", nil), "connect"},
		"no address":    {kvsteer.SnapshotFrom("::", nil), "missing protocol scheme"},
		"not there":     {serve(http.NotFound), "status 404"},
		"breaks off": {serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write(good[:100])
		}), "unexpected EOF"},
		"fails": {func(context.Context) (io.ReadCloser, error) { return nil, errors.New("no such luck") }, "no such luck"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSuccessor(t, fleet.Static(workers...), kvsteer.WithSnapshot(c.source),
				kvsteer.WithIndex(kvcache.Options{MaxBytes: kvcache.MinBytes}))
			require.Contains(t, r.log.String(), "a snapshot can't be used")
			require.Contains(t, r.log.String(), c.says)
			require.Contains(t, r.log.String(), "starting without a snapshot")
			require.NotContains(t, r.log.String(), "took over")
			for text := range holder {
				require.Zero(t, r.explain(3, text).Winner().CachedTokens)
				break
			}
			next := newSuccessor(t, fleet.Static(workers...), kvsteer.WithSnapshot(c.source, snapshotOf(good)))
			require.Eventually(t, func() bool { return strings.Contains(next.log.String(), "took over a snapshot") }, wait, tick,
				"the next one serves")
		})
	}
}

func TestSnapshotHandler(t *testing.T) {
	t.Parallel()
	a := knowing(t)
	ask := func(h http.Handler, change func(r *http.Request)) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodGet, "http://localhost/snapshot", http.NoBody)
		req.RemoteAddr = "127.0.0.1:5000"
		req = req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey, localAddr("127.0.0.1:80")))
		if change != nil {
			change(req)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		return w
	}
	h := kvsteer.SnapshotHandler(a.router, nil)
	w := ask(h, nil)
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	_, err := kvcache.NewIndex(kvcache.Options{}).Import(w.Body, nil)
	require.NoError(t, err)
	for name, change := range map[string]func(r *http.Request){
		"another machine": func(r *http.Request) { r.RemoteAddr = "192.0.2.7:5000" },
		"a proxy":         func(r *http.Request) { r.Header.Set("X-Forwarded-For", "127.0.0.1") },
		"another host":    func(r *http.Request) { r.Host = "example.com" },
		"a web page":      func(r *http.Request) { r.Header.Set("Origin", "http://example.com") },
	} {
		require.Equal(t, http.StatusForbidden, ask(h, change).Code, name)
	}
	require.Equal(t, http.StatusMethodNotAllowed, ask(h, func(r *http.Request) { r.Method = http.MethodPost }).Code)

	guarded := kvsteer.SnapshotHandler(a.router, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer k" {
			return true
		}
		w.WriteHeader(http.StatusUnauthorized)
		return false
	})
	require.Equal(t, http.StatusUnauthorized, ask(guarded, nil).Code)
	require.Equal(t, http.StatusOK, ask(guarded, func(r *http.Request) {
		r.RemoteAddr = "192.0.2.7:5000"
		r.Header.Set("Authorization", "Bearer k")
	}).Code)

	// One that does not read holds up no one but peers, which are told.
	slow := &slowWriter{header: http.Header{}, entered: make(chan struct{}), release: make(chan struct{})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		req := httptest.NewRequest(http.MethodGet, "http://localhost/", http.NoBody)
		req.Header.Set("Authorization", "Bearer k")
		guarded.ServeHTTP(slow, req)
	}()
	<-slow.entered
	busy := ask(guarded, func(r *http.Request) { r.Header.Set("Authorization", "Bearer k") })
	require.Equal(t, http.StatusServiceUnavailable, busy.Code)
	require.Equal(t, "1", busy.Header().Get("Retry-After"))
	a.waitTrust(kvcache.Exact)
	close(slow.release)
	<-done
	require.NoError(t, a.router.Close())
	require.Equal(t, http.StatusServiceUnavailable, ask(h, nil).Code)
}

type localAddr string

func (localAddr) Network() string  { return "tcp" }
func (a localAddr) String() string { return string(a) }

type slowWriter struct {
	header           http.Header
	once             sync.Once
	entered, release chan struct{}
}

func (w *slowWriter) Header() http.Header { return w.header }
func (w *slowWriter) WriteHeader(int)     {}
func (w *slowWriter) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.entered) })
	<-w.release
	return len(b), nil
}

// A file is replaced when it is complete, and not after Close.
func TestSaveSnapshot(t *testing.T) {
	t.Parallel()
	a := knowing(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "snapshot")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, a.router.SaveSnapshot(path))
	saved, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NotEqual(t, "old", string(saved))
	require.ErrorContains(t, a.router.SaveSnapshot(filepath.Join(dir, "none", "snapshot")), "save a snapshot")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "folder", "full"), nil, 0o600))
	require.Error(t, a.router.SaveSnapshot(filepath.Join(dir, "folder")), "a folder is there")
	require.NoError(t, a.router.Close())
	var e *kvsteer.Error
	require.ErrorAs(t, a.router.SaveSnapshot(path), &e)
	require.Equal(t, kvsteer.CodeClosed, e.Code)
	require.ErrorAs(t, a.router.Export(io.Discard), &e)
	again, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, saved, again)
	inside, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, inside, 2, "nothing is left behind")
}

// What would keep a snapshot from being saved at the end is known at the start, and nothing
// is left of looking.
func TestSnapshotWritable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "caches")
	require.NoError(t, kvsteer.SnapshotWritable(path))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
	err = kvsteer.SnapshotWritable(filepath.Join(path, "caches"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "no snapshot can be saved there")
}
