package debug

import (
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"net/http"
	"path"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
)

// DefaultMaxViewers is how many browsers are told of changes at a time.
const DefaultMaxViewers = 16

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Recorder is that which the Router was made with. Without one the console shows no
	// decisions and no sums.
	Recorder *Recorder
	// Authenticate says who may look. Nil means whoever sits at this machine: the request
	// must come over loopback TCP, on both ends, for a loopback host, and not through a proxy as
	// far as that can be told: give one when there is any on this machine.
	Authenticate Authenticator
	// MaxViewers bounds the browsers that are told of changes as they come; others are
	// answered with a 503 and look every few seconds instead. 0 means DefaultMaxViewers.
	MaxViewers int
	// Interval is the time between two looks at the Router while somebody watches, and how old
	// the answer to state.json may be. 0 means a second; less than 100 ms means that.
	Interval time.Duration
}

// Handler serves the console of one Router below any path: "", which is the page and
// redirects to itself with a slash where it lacks one, state.json, which scripts may use
// too, and events, a stream of server-sent events. Other methods than GET and HEAD are
// refused. It is safe for concurrent use.
//
// Close ends the streams. Do so before [http.Server.Shutdown], which waits for them, or
// have it done by [http.Server.RegisterOnShutdown].
type Handler struct {
	router *kvsteer.Router
	opts   Options
	secret []byte // of the prefixes' names
	now    func() time.Time
	files  map[string]asset
	hub    hub
	// patience bounds how long a client may take to read.
	patience time.Duration

	lookMu sync.Mutex
	last   []byte // what state.json was answered with
	lastAt time.Time
}

// New returns a console of r, which must not be nil. It starts nothing before somebody
// watches. The caller closes it, before the Router.
func New(r *kvsteer.Router, o Options) (*Handler, error) {
	const least = 100 * time.Millisecond
	if r == nil {
		return nil, errors.New("debug: New needs a Router")
	}
	if o.MaxViewers < 0 {
		return nil, errors.New("debug: Options.MaxViewers is negative; 0 means the default")
	}
	if o.MaxViewers == 0 {
		o.MaxViewers = DefaultMaxViewers
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	o.Interval = max(o.Interval, least)
	files, err := readAssets()
	if err != nil {
		return nil, err // of a program that was put together badly
	}
	h := &Handler{router: r, opts: o, secret: make([]byte, sha256.Size), now: time.Now, files: files, patience: writeTimeout}
	_, _ = rand.Read(h.secret) // never fails, by its documentation
	h.hub.start(h)
	r.HotPrefixes(0) // from now on they are counted
	return h, nil
}

// Close ends all streams and waits for them: not long, but up to ten seconds for a browser
// that has stopped to read. It is idempotent. What is asked later is answered with a 503.
func (h *Handler) Close() error {
	h.hub.close()
	return nil
}

//go:embed assets
var assets embed.FS

// asset is a file of the page.
type asset struct {
	kind string
	data []byte
	tag  string
}

// readAssets reads what was embedded.
func readAssets() (map[string]asset, error) {
	kinds := map[string]string{
		".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml",
	}
	const dir, tagBytes = "assets", 8
	out := map[string]asset{}
	entries, err := assets.ReadDir(dir)
	for _, e := range entries {
		data, wrong := assets.ReadFile(dir + "/" + e.Name())
		err = errors.Join(err, wrong)
		sum := sha256.Sum256(data)
		out[e.Name()] = asset{kind: kinds[path.Ext(e.Name())], data: data, tag: `"` + hex.EncodeToString(sum[:tagBytes]) + `"`}
	}
	return out, err
}

// contentPolicy lets the page load what is embedded here, and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if !h.admit(w, r) {
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "The console only shows: use GET.")
		return
	}
	dir, name := path.Split(r.URL.Path)
	switch {
	case r.URL.Path == "":
		// Mounted without a slash at its end, by StripPrefix: what the page names is
		// relative to a folder.
		header.Set("Location", redirectTo(r)) // http.Redirect would make it absolute, without the prefix
		w.WriteHeader(http.StatusFound)
	case dir != "/" && dir != "":
		refuse(w, http.StatusNotFound, "There is no such page here. Mount the console with http.StripPrefix.")
	case name == "state.json":
		h.serveState(w, r)
	case name == "events":
		h.serveEvents(w, r)
	default:
		if name == "" {
			name = "index.html"
		}
		h.serveAsset(w, r, name)
	}
}

// redirectTo is the path that the client asked for, with a slash. Only its last part is
// given: it can't lead to another host.
func redirectTo(r *http.Request) string {
	asked := r.RequestURI
	for i := range len(asked) {
		if asked[i] == '?' {
			asked = asked[:i]
			break
		}
	}
	return "./" + path.Base(asked) + "/"
}

func (h *Handler) serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	a, ok := h.files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "There is no such page here.")
		return
	}
	header := w.Header()
	header.Set("Content-Type", a.kind)
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", a.tag)
	if r.Header.Get("If-None-Match") == a.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	h.send(w, a.data)
}
