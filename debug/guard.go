package debug

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
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
	if crossSite(r) {
		refuse(w, http.StatusForbidden, "The console does not answer pages of other sites.")
		return false
	}
	if h.opts.Authenticate != nil {
		return h.opts.Authenticate(w, r)
	}
	if why := stranger(r); why != "" {
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
	_, _ = w.Write([]byte(text + "\n")) // the client may have gone
}

// stranger says why r can't be known to come from this machine, "" if it does.
func stranger(r *http.Request) string {
	for name := range r.Header {
		if forwarded(name) {
			// Whoever forwarded it is on this machine, which says nothing of its sender.
			return "this request came through a proxy (" + name + ")"
		}
	}
	if !r.ProtoAtLeast(1, 1) {
		// No browser speaks it; proxies do, by default, and say nothing of themselves.
		return "this request came by HTTP/1.0, as through a proxy"
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return "it can't be told on which address this request came in"
	}
	if local.Network() == "unix" {
		// No browser connects to a socket file; a proxy does, and its sender may be anybody.
		return "this request came over a socket file, as through a proxy"
	}
	if !loopbackAddress(local.String()) {
		return "this request came in on an address that others can reach"
	}
	if !loopbackAddress(r.RemoteAddr) {
		return "this request comes from another machine"
	}
	if !loopbackHost(r.Host) {
		// A name that a page of another site has made point here.
		return "this request is for another host than localhost"
	}
	return ""
}

// forwarded reports whether a header is one by which proxies say that they forward.
func forwarded(name string) bool {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip",
		"X-Original-Forwarded-For", "X-Original-Host", "X-Envoy-External-Address", "X-Appengine-User-Ip", "X-Azure-Clientip":
		return true
	default:
		return strings.HasPrefix(name, "X-Forwarded")
	}
}

// loopbackAddress reports whether an address with a port is a loopback one.
func loopbackAddress(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// loopbackHost reports whether the Host of a request can only mean this machine.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && a.Unmap().IsLoopback()
}

// crossSite reports whether a page of another origin asks, by what browsers say of it.
// To follow a link to the console is no such thing.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
	default:
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host)
}
