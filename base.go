package kvsteer

import (
	"net"
	"net/http"
)

// NewBase returns what a [Transport] sends by if [TransportOptions] name no Base: no proxy,
// no compression, many idle connections per worker, bounded dials. It is for those who wrap
// it, and is theirs to change and to close.
func NewBase() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: idlePerWorker,
		IdleConnTimeout:     idleTimeout,
		TLSHandshakeTimeout: tlsTimeout,
		DisableCompression:  true,
	}
}
