package kvsteercaddy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/kvsteer/kvsteer"
)

// saveTimeout bounds how long a disk that hangs holds up the end of a router, and with the
// last one that of the process.
const saveTimeout = 10 * time.Second

// checkPeer says what is wrong with a peer's address. It may hold a password: no error
// repeats it.
func checkPeer(address string) error {
	if strings.Contains(address, "{") {
		return nil // it is known when they are replaced
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("snapshot_from: it is no URL that begins with http:// or https://")
	}
	return nil
}

// openSnapshot lets the router begin with what is known: best by the one that it replaces,
// else by a peer, else by who wrote the file.
func (r *routerRoom) openSnapshot(*slog.Logger) ([]kvsteer.Option, error) {
	c := &r.config
	if c.Snapshot == "" && len(c.SnapshotFrom) == 0 {
		return nil, nil
	}
	var sources []kvsteer.SnapshotSource
	if before := standing.before(r); before != nil {
		sources = append(sources, handedOver(before.router))
	}
	for _, address := range c.SnapshotFrom {
		if err := checkPeer(address); err != nil { // once more: placeholders are replaced
			return nil, err
		}
		sources = append(sources, kvsteer.SnapshotFrom(address, &http.Client{Transport: &r.peers}))
	}
	if c.Snapshot != "" {
		if err := kvsteer.SnapshotWritable(c.Snapshot); err != nil {
			return nil, fmt.Errorf("snapshot: %w", err)
		}
		sources = append(sources, kvsteer.SnapshotFile(c.Snapshot))
	}
	return []kvsteer.Option{kvsteer.WithSnapshot(sources...)}, nil
}

// handedOver is the snapshot of a router of this process.
func handedOver(from *kvsteer.Router) kvsteer.SnapshotSource {
	return func(ctx context.Context) (io.ReadCloser, error) {
		read, write := io.Pipe()
		stop := context.AfterFunc(ctx, func() { _ = read.CloseWithError(ctx.Err()) })
		go func() { // ends when it is read, or closed
			defer stop()
			_ = write.CloseWithError(from.Export(write)) // nil is the end
		}()
		return read, nil
	}
}

// before is the latest router that serves the same workers, or leaves its snapshot in the
// same file.
func (s *standingRooms) before(r *routerRoom) *routerRoom {
	for _, at := range slices.Backward(s.list()) {
		if o := at.room; o != r && at.state == serving &&
			(o.fleet == r.fleet || o.config.Snapshot != "" && o.config.Snapshot == r.config.Snapshot) {
			return o
		}
	}
	return nil
}

// heirs are the rooms by the file that they leave a snapshot in, the oldest first. Only the
// last of a file's writes it, and only if the configuration came into force: one that is
// only looked at, or refused, knows little.
//
//nolint:gochecknoglobals // rooms of all configurations, as routers
var heirs = succession{files: map[string][]*routerRoom{}}

type succession struct {
	mu    sync.Mutex
	files map[string][]*routerRoom
}

func (s *succession) add(r *routerRoom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[r.config.Snapshot] = append(s.files[r.config.Snapshot], r)
}

// leave reports whether r has to write the file. If not, and it would have had to, the next
// one has, whatever becomes of that: it began with what r knew.
func (s *succession) leave(r *routerRoom) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	file := r.config.Snapshot
	list := s.files[file]
	at := slices.Index(list, r)
	if at < 0 {
		return false
	}
	list = slices.Delete(list, at, at+1)
	if s.files[file] = list; len(list) == 0 {
		delete(s.files, file)
	}
	if at == len(list) {
		return r.inForce.Load()
	}
	if r.inForce.Load() {
		list[at].inForce.Store(true)
	}
	return false
}

// save leaves what the router knows to the next process. It is called before the router is
// closed.
func (r *routerRoom) save() error {
	if !heirs.leave(r) {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- r.router.SaveSnapshot(r.config.Snapshot) }()
	timer := time.NewTimer(saveTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return named("snapshot", err)
	case <-timer.C: // closing the router ends it, and leaves the file as it was
		return fmt.Errorf("snapshot: %s could not be written within %v", r.config.Snapshot, saveTimeout)
	}
}

// started is told that a configuration with the room has come into force.
type started struct{ *routerRoom }

// Handle implements caddyevents.Handler.
func (s started) Handle(context.Context, caddy.Event) error {
	s.inForce.Store(true)
	return nil
}

// watch has the room know when the configuration comes into force, if it is to write a
// snapshot then.
func (r *routerRoom) watch(ctx caddy.Context) error {
	if r.config.Snapshot == "" {
		return nil
	}
	app, err := ctx.App("events")
	if err != nil {
		return named("snapshot", err)
	}
	return named("snapshot", app.(*caddyevents.App).On("started", started{r})) //nolint:forcetypeassert // it is Caddy's own
}

// serveSnapshot is for replicas that start. Who may have it is decided by whoever guards
// Caddy's admin endpoint.
func serveSnapshot(w http.ResponseWriter, r *http.Request) error {
	fleet, found := r.URL.Query().Get("fleet"), (*routerRoom)(nil)
	for _, at := range slices.Backward(standing.list()) {
		switch o := at.room; {
		case at.state != serving || fleet != "" && o.config.Fleet != fleet:
		case found == nil:
			found = o
		case o.fleet != found.fleet:
			return caddy.APIError{
				HTTPStatus: http.StatusBadRequest,
				Err:        errors.New("there are routers of several fleets: name the file of one, ?fleet=/path/of/fleet.yaml"),
			}
		}
	}
	if found == nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("there is no such router; /kvsteer/status lists those there are")}
	}
	found.snapshots.ServeHTTP(w, r)
	return nil
}
