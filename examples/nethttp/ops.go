package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/debug"
	"github.com/kvsteer/kvsteer/integrations/prometheus"
)

// ops is what operators look at, on an address of its own: /metrics for Prometheus, and the
// console, which serves browsers on this machine only.
type ops struct {
	options  []kvsteer.Option
	metrics  *prometheus.Metrics
	seen     *debug.Recorder
	listener net.Listener
	console  *debug.Handler
	server   *http.Server
	failed   chan error
}

func newOps(ctx context.Context, address string, t *tenancy, s *shared) (*ops, error) {
	if address == "" {
		return &ops{}, nil
	}
	shown := prometheus.Options{}
	if t.limiter != nil { // a nil *Limiter in an interface would be something
		shown.Limiter = t.limiter
	}
	if t.shared != nil {
		shown.LimitStore = func() prometheus.LimitStore { return prometheus.LimitStore(t.shared.Stats()) }
	}
	if s.exchange != nil {
		shown.Carrier = func() prometheus.Carrier { return prometheus.Carrier(s.exchange.Stats()) }
	}
	metrics, err := prometheus.New(shown)
	if err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-ops: %w", err)
	}
	o := &ops{metrics: metrics, seen: new(debug.Recorder), listener: l, failed: make(chan error, 1)}
	o.options = []kvsteer.Option{kvsteer.WithHooks(metrics, o.seen)}
	return o, nil
}

func (o *ops) serve(router *kvsteer.Router) (err error) {
	if o.listener == nil {
		return nil
	}
	o.metrics.Attach(router)
	registry := prom.NewRegistry()
	for _, c := range []prom.Collector{
		o.metrics, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if failed := registry.Register(c); failed != nil {
			return failed
		}
	}
	if o.console, err = debug.New(router, debug.Options{Recorder: o.seen}); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", o.console)
	o.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { o.failed <- o.server.Serve(o.listener) }()
	return nil
}

// Close ends the server and the console.
func (o *ops) Close() error {
	if o.listener == nil {
		return nil
	}
	if o.server == nil {
		return o.listener.Close()
	}
	err := errors.Join(o.console.Close(), o.server.Close())
	if failed := <-o.failed; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
