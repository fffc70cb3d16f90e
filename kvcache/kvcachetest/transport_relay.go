package kvcachetest

import (
	"net"
	"strings"
	"sync"
)

// relay forwards TCP connections, and can cut or freeze them: it stands for the
// network between a router and an engine.
type relay struct {
	target   string
	listener net.Listener

	mu         sync.Mutex
	conns      map[net.Conn]struct{}
	frozen     chan struct{} // closed when nothing is to be forwarded any more
	freezeOnce sync.Once
	stop       chan struct{} // closed when the relay ends
	running    sync.WaitGroup
}

// relay starts a relay to a tcp:// address; the subtest stops it.
func (b *bench) relay(target string) *relay {
	b.Helper()
	host, ok := strings.CutPrefix(target, "tcp://")
	if !ok {
		b.Fatalf("the harness's publisher is at %q; the suite needs tcp://", target)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a listener at once
	if err != nil {
		b.Fatalf("relay: %v", err)
	}
	r := &relay{
		target:   host,
		listener: l,
		conns:    map[net.Conn]struct{}{},
		frozen:   make(chan struct{}),
		stop:     make(chan struct{}),
	}
	r.running.Go(r.accept)
	b.Cleanup(r.close)
	return r
}

func (r *relay) address() string { return "tcp://" + r.listener.Addr().String() }

// drop closes all connections; new ones are accepted.
func (r *relay) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

// freeze lets connections stay open and forwards nothing any more.
func (r *relay) freeze() {
	r.freezeOnce.Do(func() { close(r.frozen) })
}

func (r *relay) close() {
	close(r.stop)
	_ = r.listener.Close()
	r.drop()
	r.running.Wait()
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.running.Go(func() { r.serve(client) })
	}
}

func (r *relay) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", r.target) //nolint:noctx // loopback
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !r.track(client, server) {
		return
	}
	defer r.untrack(client, server)
	var both sync.WaitGroup
	both.Go(func() { r.copy(server, client) })
	both.Go(func() { r.copy(client, server) })
	both.Wait()
}

// track registers a pair unless the relay has stopped.
func (r *relay) track(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.stop:
		return false
	default:
	}
	for _, c := range conns {
		r.conns[c] = struct{}{}
	}
	return true
}

func (r *relay) untrack(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.conns, c)
	}
}

// copy forwards until either side closes; it then closes both.
func (r *relay) copy(dst, src net.Conn) {
	defer func() {
		_ = dst.Close()
		_ = src.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		select {
		case <-r.frozen:
			<-r.stop // hold the connections open, but dead
			return
		default:
		}
		if n > 0 {
			if _, writeErr := dst.Write(buf[:n]); writeErr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
