package fleettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
)

// ErrRefused is returned by a Network's dials when no engine listens at the host.
var ErrRefused = errors.New("fleettest: connection refused")

// Network connects engines and their clients within the process, by net.Pipe
// instead of sockets. Everything blocks on channels, so it works in
// testing/synctest bubbles, where time passes when all goroutines wait; engines
// and clients of one bubble need a Network made in it. It is safe for concurrent
// use.
type Network struct {
	mu   sync.Mutex
	list map[string]*pipeListener
}

// NewNetwork returns a Network without engines.
func NewNetwork() *Network { return &Network{list: make(map[string]*pipeListener)} }

// Transport returns a transport that reaches the network's engines by their
// URLs. The caller closes its idle connections in the end.
func (n *Network) Transport() *http.Transport {
	return &http.Transport{
		DialContext:        n.Dial,
		DisableCompression: true,
		// Engines stream to many clients at once; two idle connections would not do.
		MaxIdleConnsPerHost: 64,
	}
}

// Dial connects to the engine whose name is the host of addr.
func (n *Network) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	n.mu.Lock()
	l := n.list[host]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("%w by %s", ErrRefused, host)
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		err = fmt.Errorf("%w by %s", ErrRefused, host)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, client.Close(), server.Close())
}

// listen registers a host.
func (n *Network) listen(host string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.list[host] != nil {
		return nil, fmt.Errorf("%w: the network has an engine named %s", ErrConfig, host)
	}
	l := &pipeListener{network: n, host: host, conns: make(chan net.Conn), done: make(chan struct{})}
	n.list[host] = l
	return l, nil
}

// pipeListener accepts a host's connections.
type pipeListener struct {
	network *Network
	host    string
	conns   chan net.Conn
	once    sync.Once
	done    chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() {
		l.network.mu.Lock()
		delete(l.network.list, l.host)
		l.network.mu.Unlock()
		close(l.done)
	})
	return nil
}

// pipeAddr is an address of a Network.
type pipeAddr string

func (pipeAddr) Network() string  { return "pipe" }
func (a pipeAddr) String() string { return string(a) }

func (l *pipeListener) Addr() net.Addr { return pipeAddr(l.host) }
