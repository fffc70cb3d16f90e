// Command nethttp is a complete gateway over real engines: a reverse proxy that
// sends each request to the worker which will answer it first.
//
//	go run ./examples/nethttp -fleet examples/nethttp/fleet.yaml
//
//	go run ./examples/nethttp -config examples/nethttp/gateway.yaml
//
// It serves the engines' own API on -listen, over TLS if it is given a certificate, and
// readiness at /health and /healthz, follows the files of fleet, policies, keys and limits
// as they change, and finishes its streams before it stops on SIGINT or SIGTERM. The rest
// is settings (config.go), logs and order of shutdown: docs/gateway.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/record"
)

func main() {
	c, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "nethttp:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	err = run(ctx, &c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nethttp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c *config) (err error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	rules, err := newRules(c.Policy, logger)
	if err != nil {
		return err
	}
	defer closing(rules, &err)
	replicas, err := newShared(&c.Redis, logger)
	if err != nil {
		return err
	}
	defer closing(replicas, &err)
	tenancy, err := newTenancy(&c.Tenant, replicas, logger)
	if err != nil {
		return err
	}
	defer closing(tenancy, &err)
	outside, err := newOutside(c, logger)
	if err != nil {
		return err
	}
	defer closing(outside, &err)
	source, err := c.Fleet.discoverer()
	if err != nil {
		return err
	}
	listener, secure, err := listen(ctx, c)
	if err != nil {
		return err
	}
	defer listener.Close() //nolint:errcheck // the server closes it, unless it never came to that
	workers, err := fleet.New(fleet.Options{Discoverer: source, Logger: logger})
	if err != nil {
		return err
	}
	defer closing(workers, &err)
	opts := []kvsteer.Option{
		kvsteer.WithFleet(workers), kvsteer.WithEvents(&zmtp.Transport{}), // KV events in pure Go
		kvsteer.WithLogger(logger),
	}
	opts = slices.Concat(opts, rules.options, tenancy.options, outside.options, replicas.options)
	left, warm, err := newSnapshot(c.Snapshot)
	if err != nil {
		return err
	}
	opts = append(opts, warm...)
	if c.Queue {
		opts = append(opts, kvsteer.WithQueue(kvsteer.QueueOptions{}))
	}
	prompts, err := newEncoder(c.Files, logger)
	if err != nil {
		return err
	}
	defer closing(prompts, &err)
	opts = append(opts, prompts.options...)
	log, recorded, err := newRecord(c.Record, logger)
	if err != nil {
		return err
	}
	defer closing(log, &err)
	ops, err := newOps(ctx, c.Ops, tenancy, replicas)
	if err != nil {
		return err
	}
	defer closing(ops, &err)
	opts = slices.Concat(opts, recorded, ops.options)
	router, err := kvsteer.New(opts...)
	if err != nil {
		return err
	}
	defer closing(router, &err)
	defer left.save(router, &err)
	if err := ops.serve(router); err != nil {
		return err
	}
	logger.Info("serving", "listen", listener.Addr().String(), "tls", secure != nil, "policy", c.Policy)
	srv := &http.Server{Handler: gateway(ctx, router, workers), TLSConfig: secure, ReadHeaderTimeout: 10 * time.Second}
	return serve(ctx, c, srv, listener, logger)
}

// newRecord opens the decision log, if there is to be one.
func newRecord(path string, logger *slog.Logger) (io.Closer, []kvsteer.Option, error) {
	if path == "" {
		return io.NopCloser(nil), nil, nil
	}
	log, err := record.Open(path, record.Options{Logger: logger})
	if err != nil {
		return nil, nil, fmt.Errorf("-record: %w", err)
	}
	return log, []kvsteer.Option{kvsteer.WithHooks(log)}, nil
}

// gateway serves the engines' API and, until ctx ends, readiness: while anybody can take
// requests.
func gateway(ctx context.Context, router *kvsteer.Router, workers *fleet.Fleet) http.Handler {
	ready := func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil || workers.Snapshot().Routable() == 0 && !available(router.Providers()) {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", ready)
	mux.HandleFunc("GET /health", ready) // where engines have it, and their clients look
	mux.Handle("/", &httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {}, // the Transport sets the destination
		Transport:    kvsteer.NewTransport(router, kvsteer.TransportOptions{}),
		ErrorHandler: kvsteer.WriteError,
	})
	return mux
}

// closing is for defer: an error of Close is one of the function's.
func closing(c io.Closer, err *error) { *err = errors.Join(*err, c.Close()) }

// serve runs the server until ctx ends, then lets streams finish.
func serve(ctx context.Context, c *config, srv *http.Server, l net.Listener, logger *slog.Logger) error {
	failed := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			failed <- srv.ServeTLS(l, "", "") // HTTP/2 as well
			return
		}
		failed <- srv.Serve(l)
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	notice, grace := time.Duration(c.Notice), time.Duration(c.Grace)
	logger.Info("stopping: streams may finish", "notice", notice, "grace", grace)
	select { // still serving, but not ready
	case err := <-failed:
		return err
	case <-time.After(notice):
	}
	graceful, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if err := srv.Shutdown(graceful); err != nil {
		return errors.Join(fmt.Errorf("streams were still open after %v: %w", grace, err), srv.Close())
	}
	return nil
}
