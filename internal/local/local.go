// Package local tells whether a request can only come from the machine that it came to.
package local

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Stranger says why r can't be known to come from this machine, "" if it does.
func Stranger(r *http.Request) string {
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

// CrossSite reports whether a page of another origin asks, by what browsers say of it.
// To follow a link is no such thing.
func CrossSite(r *http.Request) bool {
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
