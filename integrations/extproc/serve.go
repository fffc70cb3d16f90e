package extproc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
)

// ServeOptions are the settings of [Server.Serve]. The zero value works.
type ServeOptions struct {
	// Notice is how long readiness is denied before the server stops taking streams, for
	// load balancers to notice. 0 means a second, negative none.
	Notice time.Duration
	// Grace is how long requests may go on after that. 0 means 30 seconds, negative none.
	Grace time.Duration
	// GRPC are further options of the gRPC server, such as credentials.
	GRPC []grpc.ServerOption
}

const (
	defaultNotice = time.Second
	defaultGrace  = 30 * time.Second
)

// Serve serves on l, which it closes, until ctx ends. Then readiness fails first, no new
// streams are taken, and those that there are may end within the grace. The error is nil
// if all did. A Server that has begun to stop stays not ready.
func (s *Server) Serve(ctx context.Context, l net.Listener, o ServeOptions) error {
	if o.Notice == 0 {
		o.Notice = defaultNotice
	}
	if o.Grace == 0 {
		o.Grace = defaultGrace
	}
	g := grpc.NewServer(append(s.GRPCOptions(), o.GRPC...)...)
	defer g.Stop() // whatever ends us: no stream outlives Serve
	s.Register(g)
	failed := make(chan error, 1)
	go func() { failed <- g.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.health.stopping.Store(true)
	select {
	case err := <-failed:
		return err
	case <-time.After(max(o.Notice, 0)):
	}
	stopped := make(chan struct{})
	go func() {
		g.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
		return <-failed
	case <-time.After(max(o.Grace, 0)):
		g.Stop() // ends GracefulStop as well
		<-stopped
		return errors.Join(fmt.Errorf("extproc: requests were still open after %v", o.Grace), <-failed)
	}
}
