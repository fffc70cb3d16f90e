package kvsteercaddy

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// logs is what Caddy has logged.
func (r *rig) logs() string {
	r.t.Helper()
	text, err := os.ReadFile(r.path("log"))
	require.NoError(r.t, err)
	return string(text)
}

// latest is the room of the router that serves.
func (r *rig) latest() *routerRoom {
	r.t.Helper()
	all := standing.list()
	require.NotEmpty(r.t, all)
	require.Equal(r.t, serving, all[len(all)-1].state)
	return all[len(all)-1].room
}

// reload makes Caddy serve the site, whether or not there are workers.
func (r *rig) reload(directives string) {
	r.t.Helper()
	require.NoError(r.t, caddy.Load(r.config(directives), true))
}

func (r *routerRoom) confirmed() int {
	s := r.router.Stats().Index
	return s.Pairs - s.Provisional
}

// ready waits until the router that serves has found a worker, and may send there.
func (r *rig) ready() {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return r.latest().fleet.fleet.Snapshot().Routable() > 0 }, patience, moment)
}

// warm waits until a router knows what it was told: workers are found a moment later.
func (r *rig) warm(room *routerRoom, from string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return room.router.Stats().Index.Pairs > 0 }, patience, moment, from)
}

// What is known of caches goes from a router to the one that replaces it, into the file when
// the last one ends, from there to the next process, and to peers that ask. Nobody else can
// tell: the engine is gone.
func TestSnapshot(t *testing.T) {
	r := newRig(t, fleettest.Config{ZMQ: true})
	worker := r.engines[0].Worker()
	worker.Epoch = ""
	list, err := json.Marshal(map[string][]fleet.Worker{"workers": {worker}})
	require.NoError(t, err)
	r.write("fleet.yaml", string(list))
	r.write("peer.yaml", string(list))
	file := r.path("caches")
	const site = "kvsteer {\n fleet DIR/fleet.yaml\n ready_timeout -1s\n snapshot DIR/caches\n max_attempts "
	r.load(site + "1\n}")
	r.logged("a snapshot can't be used") // there is none yet
	r.ready()
	require.Equal(t, http.StatusOK, r.ask(strings.Repeat("What is a replica? ", 50)).status)
	first := r.latest()
	require.Eventually(t, func() bool { return first.confirmed() > 0 }, patience, moment)
	r.idle()
	require.NoError(t, r.engines[0].Kill())

	// Who only looks at a configuration leaves nothing.
	var config caddy.Config
	require.NoError(t, caddy.StrictUnmarshalJSON(r.config(site+"9\n}"), &config))
	require.NoError(t, caddy.Validate(&config))
	settle(t)
	require.NoFileExists(t, file)
	require.Error(t, caddy.Load(r.config(site+"9\n}\nkvsteer /x {\n fleet DIR/none.yaml\n}"), true))
	settle(t)
	require.NoFileExists(t, file)

	r.reload(site + "2\n}")
	second := r.latest()
	require.NotSame(t, first, second)
	r.warm(second, "handed over")
	settle(t)
	require.NoFileExists(t, file, "the second has it, and will write it")

	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if err := serveSnapshot(w, q); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer peer.Close()
	t.Setenv("KVSTEER_PEER", peer.URL)
	r.reload(site + "2\n}\nkvsteer /x {\n fleet DIR/peer.yaml\n ready_timeout -1s\n snapshot_from {env.KVSTEER_PEER}/?fleet=DIR/fleet.yaml\n}")
	require.Equal(t, r.path("peer.yaml"), r.latest().config.Fleet)
	r.warm(r.latest(), "from a peer")
	for query, status := range map[string]int{"": http.StatusBadRequest, "?fleet=none": http.StatusNotFound} {
		var api caddy.APIError
		require.ErrorAs(t, serveSnapshot(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/kvsteer/snapshot"+query, http.NoBody)), &api)
		require.Equal(t, status, api.HTTPStatus)
	}

	r.reload("respond 204")
	gone(t)
	require.FileExists(t, file)
	left, err := filepath.Glob(file + ".*")
	require.NoError(t, err)
	require.Empty(t, left)

	r.reload(site + "1\n}")
	r.warm(r.latest(), "from the file")
	r.logged("took over a snapshot")
}

// The last router of a file's writes it, if its configuration came into force, or that of one
// before it that left it the file.
func TestHeirs(t *testing.T) {
	room := func(inForce bool) *routerRoom {
		r := &routerRoom{config: Config{Snapshot: "x"}}
		r.inForce.Store(inForce)
		return r
	}
	s := succession{files: map[string][]*routerRoom{}}
	old, replaced, looked := room(true), room(true), room(false)
	for _, r := range []*routerRoom{old, replaced, looked} {
		s.add(r)
	}
	require.False(t, s.leave(looked), "it was only looked at")
	require.False(t, s.leave(old), "the next one will")
	require.True(t, s.leave(replaced))
	require.False(t, s.leave(replaced))
	require.Empty(t, s.files)

	old, looked = room(true), room(false)
	s.add(old)
	s.add(looked)
	require.False(t, s.leave(old))
	require.True(t, s.leave(looked), "the process ended while it was looked at")
	require.Empty(t, s.files)
}

// A file that can't be written, when it comes to that, is an error of the end.
func TestSnapshotCanNotBeSaved(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	require.NoError(t, os.Mkdir(r.path("folder"), 0o700))
	r.load("kvsteer {\n fleet DIR/fleet.yaml\n snapshot DIR/folder/caches\n}")
	require.NoError(t, os.Remove(r.path("folder")))
	r.reload("respond 204")
	gone(t)
	r.logged("no such file")
	r.logged("the old router did not close well")
}

func TestNamed(t *testing.T) {
	require.NoError(t, named("redis", nil))
	require.EqualError(t, named("redis", errors.New("no")), "redis: no")
}
