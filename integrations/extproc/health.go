package extproc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// Services of which the health service knows, by the names of the Endpoint Picker
// protocol. The empty name and the external processor's own are as ready as readiness is.
const (
	serviceLiveness  = "liveness"
	serviceReadiness = "readiness"
)

// watchInterval is how often a watched service is looked at.
const watchInterval = time.Second

// health answers what is true at the moment: nothing has to be set.
type health struct {
	healthv1.UnimplementedHealthServer

	ready    func() bool
	logger   *slog.Logger
	once     sync.Once // for the log: a panic comes back with each check
	stopping atomic.Bool
}

func newHealth(ready func() bool, logger *slog.Logger) *health {
	if ready == nil {
		ready = func() bool { return true }
	}
	return &health{ready: ready, logger: logger}
}

// isReady asks the user's code, which may panic.
func (h *health) isReady() (ready bool) {
	defer func() {
		if p := recover(); p != nil {
			ready = false
			h.once.Do(func() {
				h.logger.Error("extproc: Options.Ready panicked; not ready",
					slog.String("type", fmt.Sprintf("%T", p)), slog.String("stack", string(debug.Stack())))
			})
		}
	}()
	return h.ready()
}

func (h *health) of(service string) (healthv1.HealthCheckResponse_ServingStatus, bool) {
	switch service {
	case serviceLiveness:
		return healthv1.HealthCheckResponse_SERVING, true
	case "", serviceReadiness, extprocv3.ExternalProcessor_ServiceDesc.ServiceName:
		if h.stopping.Load() || !h.isReady() {
			return healthv1.HealthCheckResponse_NOT_SERVING, true
		}
		return healthv1.HealthCheckResponse_SERVING, true
	default:
		return healthv1.HealthCheckResponse_SERVICE_UNKNOWN, false
	}
}

// Check implements the service.
func (h *health) Check(_ context.Context, req *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	now, known := h.of(req.GetService())
	if !known {
		return nil, status.Error(codes.NotFound, `kvsteer: unknown service; there are "", "liveness", "readiness" and "`+
			extprocv3.ExternalProcessor_ServiceDesc.ServiceName+`"`)
	}
	return &healthv1.HealthCheckResponse{Status: now}, nil
}

// Watch implements the service.
func (h *health) Watch(req *healthv1.HealthCheckRequest, stream healthv1.Health_WatchServer) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	last := healthv1.HealthCheckResponse_UNKNOWN
	for {
		if now, _ := h.of(req.GetService()); now != last {
			if err := stream.Send(&healthv1.HealthCheckResponse{Status: now}); err != nil {
				return err
			}
			last = now
		}
		if h.stopping.Load() {
			return nil // a server that stops waits for its streams
		}
		select {
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		case <-tick.C:
		}
	}
}
