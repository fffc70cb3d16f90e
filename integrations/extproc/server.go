package extproc

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/kvsteer/kvsteer"
)

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Endpoints is how many endpoints are named for a request at most, the chosen one
	// included. 0 means 8. Set 1 for a cluster of type ORIGINAL_DST, which does not
	// understand lists.
	Endpoints int
	// KeepStreamOptions, Describe and Forward are as in [kvsteer.TransportOptions]. Where
	// Envoy limits the choice to a subset, what Describe lists in Among can only narrow it,
	// and must be endpoints as the subset has them, not workers' names.
	KeepStreamOptions bool
	Describe          func(r *http.Request, q *kvsteer.Request)
	Forward           func(r *http.Request) bool
	// Ready says whether requests can be served: the health service tells it. Nil means
	// always, one that panics means no. It must not block.
	Ready func() bool
	// Logger hears of messages that make no sense and of panics. Nil means silence.
	Logger *slog.Logger
}

// Server is the external processor. It is safe for concurrent use and holds nothing that
// would have to be closed: each request lives in its gRPC stream.
type Server struct {
	extprocv3.UnimplementedExternalProcessorServer

	router   *kvsteer.Router
	opts     Options
	models   *kvsteer.Transport // answers /v1/models, sends nothing
	resolver resolver
	health   *health
	touch    time.Duration // between two signs of life
}

var _ extprocv3.ExternalProcessorServer = (*Server)(nil)

const defaultEndpoints = 8

// New returns a Server over r, which must not be nil. The caller closes r, after the gRPC
// server has stopped.
func New(r *kvsteer.Router, o Options) *Server {
	if r == nil {
		panic("extproc: New needs a Router; was the error of kvsteer.New checked?")
	}
	if o.Endpoints < 1 {
		o.Endpoints = defaultEndpoints
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{
		router: r, opts: o, models: kvsteer.NewTransport(r, kvsteer.TransportOptions{Describe: workersOnly(o.Describe)}),
		health: newHealth(o.Ready, o.Logger), touch: touchEvery,
	}
}

// Register registers the external processor and the gRPC health service.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	extprocv3.RegisterExternalProcessorServer(r, s)
	healthv1.RegisterHealthServer(r, s.health)
}

// GRPCOptions are what a gRPC server needs for this service: messages as large as the
// router's largest body, and keep-alive, so that an Envoy that vanished is noticed.
func (s *Server) GRPCOptions() []grpc.ServerOption {
	const (
		around    = 1 << 20 // headers and metadata
		pingAfter = 30 * time.Second
		pingWait  = 20 * time.Second
		mostOften = 5 * time.Second // what Envoy may be configured to do
	)
	most := min(s.router.MaxBody(), 1<<31-1-around)
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(int(most) + around),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingWait}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: mostOften, PermitWithoutStream: true}),
	}
}

// Process implements the service: one call for each HTTP request.
func (s *Server) Process(stream extprocv3.ExternalProcessor_ProcessServer) (err error) {
	x := &exchange{srv: s, stream: stream}
	defer x.close()
	defer func() {
		if p := recover(); p != nil {
			s.panicked(p)
			err = x.afterPanic()
		}
	}()
	return x.run()
}

// panicked tells of a panic in the user's code: a policy, a hook or Options.Describe. What
// it panics with may hold a prompt, so only its type is told.
func (s *Server) panicked(p any) {
	s.opts.Logger.Error("extproc: a panic while serving a request",
		slog.String("type", fmt.Sprintf("%T", p)), slog.String("stack", string(debug.Stack())))
}

// malformed is the error for messages that no Envoy sends.
func (s *Server) malformed(what string) error {
	s.opts.Logger.Warn("extproc: messages in an impossible order", slog.String("what", what))
	return status.Error(codes.InvalidArgument, "kvsteer: "+what)
}

// workersOnly is describe for what Envoy can reach: it is told an address, and can't speak
// to external providers.
func workersOnly(describe func(*http.Request, *kvsteer.Request)) func(*http.Request, *kvsteer.Request) {
	return func(r *http.Request, q *kvsteer.Request) {
		if describe != nil {
			describe(r, q)
		}
		q.WorkersOnly = true
	}
}
