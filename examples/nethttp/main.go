// Command nethttp is a complete gateway over real engines: a reverse proxy that
// sends each request to the worker which will answer it first.
//
//	go run ./examples/nethttp -fleet examples/nethttp/fleet.yaml
//
// It serves the engines' own API on -listen, follows the fleet file as it
// changes, and finishes its streams before it stops on SIGINT or SIGTERM.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/policy"
)

type config struct {
	listen, fleet, policy, outcomes string
	notice, grace                   time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.listen, "listen", "127.0.0.1:8080", "address to serve on")
	flag.StringVar(&c.fleet, "fleet", "fleet.yaml", "file that lists the workers; it may change while we run")
	flag.StringVar(&c.policy, "policy", "kvsteer", "how to choose: kvsteer, or round-robin to compare with")
	flag.StringVar(&c.outcomes, "outcomes", "", "file to append one JSON line per finished request to: decision, TTFT, usage")
	flag.DurationVar(&c.notice, "notice", time.Second, "how long /healthz says no before new connections are refused, for load balancers to notice")
	flag.DurationVar(&c.grace, "grace", 30*time.Second, "how long streams may go on after a signal to stop")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	if err := run(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "nethttp:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	rules := map[string]policy.Policy{"kvsteer": policy.Default{}, "round-robin": new(policy.RoundRobin)}
	rule, ok := rules[c.policy]
	if !ok {
		return fmt.Errorf("-policy %q: want kvsteer or round-robin", c.policy)
	}
	workers, err := fleet.New(fleet.Options{Discoverer: &file.Discoverer{Path: c.fleet}, Logger: logger})
	if err != nil {
		return err
	}
	defer workers.Close()
	opts := []kvsteer.Option{
		kvsteer.WithFleet(workers), kvsteer.WithEvents(&zmtp.Transport{}), // KV events in pure Go
		kvsteer.WithPolicy(rule), kvsteer.WithLogger(logger), kvsteer.WithHooks(trustLog{logger}),
	}
	if c.outcomes != "" {
		f, err := os.OpenFile(c.outcomes, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		opts = append(opts, kvsteer.WithHooks(&outcomeLog{enc: json.NewEncoder(f)}))
	}
	router, err := kvsteer.New(opts...)
	if err != nil {
		return err
	}
	defer router.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil || workers.Snapshot().Routable() == 0 {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("/", &httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {}, // the Transport sets the destination
		Transport:    kvsteer.NewTransport(router, kvsteer.TransportOptions{}),
		ErrorHandler: kvsteer.WriteError,
	})
	return serve(ctx, c, mux, logger)
}

// serve runs the server until ctx ends, then lets streams finish.
func serve(ctx context.Context, c config, h http.Handler, logger *slog.Logger) error {
	srv := &http.Server{Addr: c.listen, Handler: h, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.ListenAndServe() }()
	logger.Info("serving", "listen", c.listen, "policy", c.policy)
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

// trustLog reports when the knowledge of a worker's cache becomes better or worse.
type trustLog struct{ *slog.Logger }

func (l trustLog) OnTrust(c kvsteer.TrustChange) {
	l.Info("cache trust", "worker", c.Worker, "rank", c.Rank, "from", c.From, "to", c.To, "reason", c.Reason)
}

// outcomeLog writes one line for each finished request.
type outcomeLog struct {
	mu  sync.Mutex
	enc *json.Encoder
}

type outcomeLine struct {
	Decision        *kvsteer.Decision `json:"decision"`
	TTFT            float64           `json:"ttft_s"`
	Duration        float64           `json:"duration_s"`
	CachedPredicted int               `json:"cached_predicted"`
	Usage           kvsteer.Usage     `json:"usage"`
	Error           string            `json:"error,omitempty"`
}

func (l *outcomeLog) OnOutcome(o *kvsteer.Outcome) {
	line := outcomeLine{
		Decision: o.Decision, TTFT: o.TTFT.Seconds(), Duration: o.Duration.Seconds(),
		CachedPredicted: o.CachedPredicted, Usage: o.Usage,
	}
	if o.Err != nil {
		line.Error = o.Err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.enc.Encode(line) // a full disk must not fail requests
}
