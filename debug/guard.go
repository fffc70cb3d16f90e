package debug

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/kvsteer/kvsteer/internal/local"
)

// Authenticator reports whether whoever sends r may look at the console. If not, it has
// answered: with a 401 and a challenge, a 403, or a redirect to where one logs in. It is
// called for every request, by several goroutines at a time.
type Authenticator func(w http.ResponseWriter, r *http.Request) bool

// BasicAuth is an Authenticator that asks for a name and a password, which browsers do by
// themselves. An empty password lets nobody in. Over anything but TLS or loopback both can
// be read on the way.
func BasicAuth(name, password string) Authenticator {
	want := sha256.Sum256([]byte(name + "\x00" + password))
	return func(w http.ResponseWriter, r *http.Request) bool {
		n, p, ok := r.BasicAuth()
		got := sha256.Sum256([]byte(n + "\x00" + p))
		if same := subtle.ConstantTimeCompare(got[:], want[:]) == 1; ok && same && password != "" {
			return true
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="KVSteer console", charset="UTF-8"`)
		refuse(w, http.StatusUnauthorized, "The console asks for a name and a password.")
		return false
	}
}

// admit reports whether r may be answered, and has answered it if not.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) bool {
	if local.CrossSite(r) {
		refuse(w, http.StatusForbidden, "The console does not answer pages of other sites.")
		return false
	}
	if h.opts.Authenticate != nil {
		return h.opts.Authenticate(w, r)
	}
	if why := local.Stranger(r); why != "" {
		refuse(w, http.StatusForbidden, "The console serves only browsers on its own machine unless debug.Options.Authenticate is set: "+why+
			". Use a tunnel (ssh -L 8080:127.0.0.1:PORT HOST) and open it as localhost, or set an authenticator.")
		return false
	}
	return true
}

func refuse(w http.ResponseWriter, status int, text string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) //nolint:gosec // plain text; the client may have gone
}
