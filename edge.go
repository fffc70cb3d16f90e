package kvsteer

import (
	"net/http"
	"strings"
)

// headerInternal begins the names of internal headers.
const headerInternal = "x-kvsteer-"

// InternalHeader reports whether a header of this name says what only the router may say:
// in any case, and with "_" for "-", which servers behind may take for the same. A
// [Transport] removes it from clients' requests and from workers' answers; so must a gateway
// that forwards them itself, before it sets what [Target] has, and from the trailers, too.
func InternalHeader(name string) bool {
	return len(name) >= len(headerInternal) && sameHeader(name[:len(headerInternal)], headerInternal) ||
		sameHeader(name, headerRank)
}

// sameHeader compares two names of headers as the most careless server would.
func sameHeader(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if folded(a[i]) != folded(b[i]) {
			return false
		}
	}
	return true
}

func folded(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c + ('a' - 'A')
	case c == '_':
		return '-'
	default:
		return c
	}
}

// strip removes what only the router may say.
func strip(h http.Header) {
	for name := range h {
		if InternalHeader(name) {
			delete(h, name)
		}
	}
}

// unlist removes what the sender's Connection names: it is for us and for nobody behind. If
// it stayed, the next proxy would take the router's own headers for the client's, and
// remove them. What Connection says of the connection itself stays, as net/http needs it.
func unlist(h http.Header) {
	values := h["Connection"]
	if len(values) == 0 {
		return
	}
	var stay []string
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			switch name = strings.TrimSpace(name); strings.ToLower(name) {
			case "":
			case "upgrade", "close", "keep-alive":
				stay = append(stay, name)
			default:
				h.Del(name)
			}
		}
	}
	if len(stay) == 0 {
		h.Del("Connection")
		return
	}
	h["Connection"] = []string{strings.Join(stay, ", ")}
}

// forwardable reports whether nobody who reads the path again can take it for another one:
// it has no backslashes, no semicolons, behind which some servers see parameters, and no
// spellings of these, of dots or of slashes that a second decoding would bring out.
func forwardable(decoded string) bool {
	if strings.ContainsAny(decoded, "\\;\x00") {
		return false
	}
	lower := strings.ToLower(decoded)
	for _, hidden := range []string{"%2e", "%2f", "%5c", "%3b", "%25"} {
		if strings.Contains(lower, hidden) {
			return false
		}
	}
	return true
}
