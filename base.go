package kvsteer

import (
	"net"
	"net/http"
)

// maxAnswerHeader bounds the header of a worker's answer.
const maxAnswerHeader = 1 << 20

// NewBase returns what a [Transport] sends by if [TransportOptions] name no Base: no proxy,
// no compression, many idle connections per worker, bounded dials, at most 1 MiB of an
// answer's header. It is for those who wrap
// it, and is theirs to change and to close.
func NewBase() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: idlePerWorker,
		IdleConnTimeout:     idleTimeout,
		TLSHandshakeTimeout: tlsTimeout,
		DisableCompression:  true,

		MaxResponseHeaderBytes: maxAnswerHeader,
	}
}
