// Command nethttp is a complete gateway over real engines: a reverse proxy that
// sends each request to the worker which will answer it first.
//
//	go run ./examples/nethttp -fleet examples/nethttp/fleet.yaml
//
// It serves the engines' own API on -listen and readiness at /health and /healthz,
// follows the files of fleet and policies as they change, and finishes its streams
// before it stops on SIGINT or SIGTERM. The rest is flags, logs and order of shutdown.
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
	"syscall"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/record"
)

type config struct {
	listen, fleet, policy, record string
	files                         files
	queue                         bool
	notice, grace                 time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.listen, "listen", "127.0.0.1:8080", "address to serve on")
	flag.StringVar(&c.fleet, "fleet", "fleet.yaml", "file that lists the workers; it may change while we run")
	flag.StringVar(&c.policy, "policy", "kvsteer", "how to choose: kvsteer, round-robin to compare with, or a `file` or directory of policies")
	flag.StringVar(&c.record, "record", "", "file to append the decision log to, which kvsteer replay and predictor-eval read")
	flag.Var(&c.files, "files", "`MODEL=DIR`: compute a model's prompts from its files (tokenizer.json ...) instead of by asking; repeatable")
	flag.BoolVar(&c.queue, "queue", false, "hold requests while every worker is busy, and choose when one is free")
	flag.DurationVar(&c.notice, "notice", time.Second, "how long readiness is denied before connections are, for load balancers to notice")
	flag.DurationVar(&c.grace, "grace", 30*time.Second, "how long streams may go on after a signal to stop")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "nethttp: unexpected argument %q; -help lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nethttp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) (err error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	rules, err := newRules(c.policy, logger)
	if err != nil {
		return err
	}
	defer closing(rules, &err)
	// Later a wrong file changes nothing and is logged; at the start it ends us.
	if _, err = file.Load(c.fleet); err != nil {
		return fmt.Errorf("-fleet: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	defer listener.Close() //nolint:errcheck // the server closes it, unless it never came to that
	workers, err := fleet.New(fleet.Options{Discoverer: &file.Discoverer{Path: c.fleet}, Logger: logger})
	if err != nil {
		return err
	}
	defer closing(workers, &err)
	opts := []kvsteer.Option{
		kvsteer.WithFleet(workers), kvsteer.WithEvents(&zmtp.Transport{}), // KV events in pure Go
		kvsteer.WithLogger(logger),
	}
	opts = append(opts, rules.options...)
	if c.queue {
		opts = append(opts, kvsteer.WithQueue(kvsteer.QueueOptions{}))
	}
	if len(c.files) > 0 {
		var e *encoder
		if e, err = newEncoder(c.files, logger); err != nil {
			return err
		}
		defer closing(e, &err)
		opts = append(opts, kvsteer.WithEncoder(e.Encoder))
	}
	if c.record != "" {
		var log *record.Recorder
		if log, err = record.Open(c.record, record.Options{Logger: logger}); err != nil {
			return fmt.Errorf("-record: %w", err)
		}
		defer closing(log, &err)
		opts = append(opts, kvsteer.WithHooks(log))
	}
	router, err := kvsteer.New(opts...)
	if err != nil {
		return err
	}
	defer closing(router, &err)

	ready := func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil || workers.Snapshot().Routable() == 0 {
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
	logger.Info("serving", "listen", listener.Addr().String(), "policy", c.policy)
	return serve(ctx, c, &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}, listener, logger)
}

// closing is for defer: an error of Close is one of the function's.
func closing(c io.Closer, err *error) { *err = errors.Join(*err, c.Close()) }

// serve runs the server until ctx ends, then lets streams finish.
func serve(ctx context.Context, c config, srv *http.Server, l net.Listener, logger *slog.Logger) error {
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	logger.Info("stopping: streams may finish", "notice", c.notice, "grace", c.grace)
	select { // still serving, but not ready
	case err := <-failed:
		return err
	case <-time.After(c.notice):
	}
	graceful, cancel := context.WithTimeout(context.Background(), c.grace)
	defer cancel()
	if err := srv.Shutdown(graceful); err != nil {
		return errors.Join(fmt.Errorf("streams were still open after %v: %w", c.grace, err), srv.Close())
	}
	return nil
}
