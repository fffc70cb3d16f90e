package kvsteer

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/internal/local"
)

// snapshotServed is how long a peer may take to read a snapshot.
const snapshotServed = time.Minute

// SnapshotHandler serves r's snapshot to peers that start, at any path: see
// [SnapshotFrom]. It answers one peer at a time, others with a 503, and takes a minute
// at most. authorize reports whether who asks may have it, and has answered if not; a
// [debug.Authenticator] is one. Nil means whoever sits at this machine, as far as that
// can be told: loopback TCP, and no proxy.
//
// [debug.Authenticator]: https://pkg.go.dev/github.com/kvsteer/kvsteer/debug#Authenticator
func SnapshotHandler(r *Router, authorize func(w http.ResponseWriter, req *http.Request) bool) http.Handler {
	return &snapshotHandler{router: r, authorize: authorize}
}

type snapshotHandler struct {
	router    *Router
	authorize func(w http.ResponseWriter, req *http.Request) bool
	serving   sync.Mutex
}

func (h *snapshotHandler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if !h.admit(w, req) {
		return
	}
	if req.Method != http.MethodGet {
		header.Set("Allow", http.MethodGet)
		http.Error(w, "A snapshot is only read: use GET.", http.StatusMethodNotAllowed)
		return
	}
	if !h.serving.TryLock() {
		header.Set("Retry-After", "1")
		http.Error(w, "Another peer is being served; try again, or start cold.", http.StatusServiceUnavailable)
		return
	}
	defer h.serving.Unlock()
	if h.router.closed.Load() {
		http.Error(w, "The router was closed.", http.StatusServiceUnavailable)
		return
	}
	header.Set("Content-Type", "application/octet-stream")
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(snapshotServed)) // where it can't be set, the server has its own
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	err := h.router.Export(w)
	if l := h.router.opts.logger; l != nil && err != nil {
		l.Info("kvsteer: a peer did not take the whole snapshot", slog.Any("error", err))
	}
}

// admit reports whether req may be answered, and has answered it if not.
func (h *snapshotHandler) admit(w http.ResponseWriter, req *http.Request) bool {
	if local.CrossSite(req) {
		http.Error(w, "Snapshots are not for web pages.", http.StatusForbidden)
		return false
	}
	if h.authorize != nil {
		return h.authorize(w, req)
	}
	if why := local.Stranger(req); why != "" {
		http.Error(w, "Snapshots are served to this machine only, unless SnapshotHandler is given an authorize: "+why+".", http.StatusForbidden)
		return false
	}
	return true
}
