//go:build unix

package kvsteercaddy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

// The status answers while a router opens, however long a disk takes: here a pipe that
// nobody reads.
func TestStatusWhileARouterOpens(t *testing.T) {
	r := newRig(t, fleettest.Config{})
	r.load(plain)
	require.NoError(t, syscall.Mkfifo(r.path("pipe"), 0o600))
	loaded := make(chan error, 1)
	config := r.config("kvsteer {\n fleet DIR/fleet.yaml\n record DIR/pipe\n}")
	go func() { loaded <- caddy.Load(config, true) }()
	show := func() (all []routerStatus) {
		w := httptest.NewRecorder()
		require.NoError(t, serveStatus(w, httptest.NewRequest(http.MethodGet, "/kvsteer/status", http.NoBody)))
		var got struct{ Routers []routerStatus }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &got))
		return got.Routers
	}
	require.Eventually(t, func() bool { return len(show()) == 2 }, patience, moment)
	require.Equal(t, opening, show()[1].State)
	require.Len(t, show()[0].Workers, 1)
	pipe, err := os.OpenFile(r.path("pipe"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer pipe.Close()
	<-loaded //nolint:errcheck // it may be refused: a pipe is no log
}
