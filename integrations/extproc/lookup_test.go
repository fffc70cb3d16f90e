package extproc_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/kvsteer/kvsteer/integrations/extproc"
)

// A request whose workers have no address ends as that, not as one that was given up.
func TestNoWorkerHasAnAddress(t *testing.T) {
	errDown := errors.New("name server is down")
	r := newRig(t, rigConfig{host: "localhost", server: func(s *extproc.Server) {
		s.LookUp(func(context.Context, string, string) ([]netip.Addr, error) { return nil, errDown })
	}})
	p := r.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), true))
	require.GreaterOrEqual(t, p.denied().status, http.StatusInternalServerError)
	r.idle()
	require.ErrorIs(t, r.seen.last(t).Err, errDown)
}

// A server whose listener breaks leaves no streams behind.
func TestAListenerThatBreaks(t *testing.T) {
	r := newRig(t, rigConfig{})
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() {
		served <- extproc.New(r.router, extproc.Options{}).Serve(context.Background(), l, extproc.ServeOptions{})
	}()
	conn, err := grpc.NewClient("passthrough:bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	require.NoError(t, err)
	defer conn.Close()
	other := *r
	other.conn = conn
	p := other.open(duplex, duplex)
	p.send(requestHeaders("POST", "/v1/chat/completions", false))
	p.send(requestBody(chat(true), true))
	p.routed(duplex, true)
	require.NoError(t, l.Close())
	require.Error(t, <-served)
	r.idle()
}
