// Command extproc is an endpoint picker for Envoy: an external processor that sends each
// request to the worker which will answer it first. Envoy does the rest.
//
//	cd examples/extproc && go run . -fleet fleet.yaml
//	"$(../../scripts/envoy.sh)" -c envoy.yaml
//
// It serves Envoy's gRPC and gRPC health on -listen, follows the files of fleet and policies
// as they change, and lets requests finish before it stops on SIGINT or SIGTERM. In a
// cluster -pool names an InferencePool in place of -fleet. It is a module of its own, so that
// the root module needs neither gRPC, Envoy's types nor client-go; in your module three
// requirements do the same. docs/envoy.md explains envoy.yaml, its variant with
// retries (envoy-retries.yaml), and the manifests for Kubernetes beside them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/integrations/extproc"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/policy"
	"github.com/kvsteer/kvsteer/policy/classify"
	policyfile "github.com/kvsteer/kvsteer/policy/file"
	"github.com/kvsteer/kvsteer/record"
)

type config struct {
	listen, fleet, policy, record string
	pool                          string
	redis, redisName, snapshot    string
	endpoints                     int
	queue                         bool
	notice, grace                 time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.listen, "listen", "127.0.0.1:9002", "address to serve Envoy and health checks on, in gRPC without TLS")
	flag.StringVar(&c.fleet, "fleet", "fleet.yaml", "file that lists the workers; it may change while we run")
	flag.StringVar(&c.pool, "pool", "", "`NAMESPACE/NAME` of an InferencePool whose pods are the workers, in place of -fleet, in a cluster")
	flag.StringVar(&c.policy, "policy", "", "`file` or directory of policies; it may change while we run")
	flag.StringVar(&c.record, "record", "", "file to append the decision log to, which kvsteer replay reads")
	flag.StringVar(&c.redis, "redis", "",
		"`address` or URL of a Redis 7 or Valkey, by which replicas of this gateway know of each other's requests")
	flag.StringVar(&c.redisName, "redis-name", "kvsteer",
		"what the replicas call their gateway there; another gateway on that Redis needs another `name`")
	flag.StringVar(&c.snapshot, "snapshot", "", "`file` to begin with what is known of caches, and to leave it in at the end")
	flag.IntVar(&c.endpoints, "endpoints", 1, "how many endpoints to name: 1 for envoy.yaml, more for Envoys that try the next one")
	flag.BoolVar(&c.queue, "queue", false, "hold requests while every worker is busy, and choose when one is free")
	flag.DurationVar(&c.notice, "notice", time.Second, "how long readiness is denied before new requests are, for load balancers to notice")
	flag.DurationVar(&c.grace, "grace", 30*time.Second, "how long requests may go on after a signal to stop")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "extproc: unexpected argument %q; -help lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "extproc:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) (err error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	replicas, err := c.shared(logger)
	if err != nil {
		return err
	}
	defer closing(replicas, &err)
	source, err := c.discoverer(rest.InClusterConfig)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
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
	if c.policy != "" {
		var classifiers *classify.Set
		if classifiers, err = newClassifiers(); err != nil {
			return err
		}
		var rules *policyfile.Source
		if rules, err = policyfile.Open(c.policy, policyfile.Options{
			Check:  policy.CheckOptions{Tags: classifiers.Tags()}, // a tag that nobody produces is refused
			Logger: logger,
		}); err != nil {
			return fmt.Errorf("-policy: %w", err)
		}
		defer closing(rules, &err)
		opts = append(opts, kvsteer.WithPolicy(rules), kvsteer.WithClassifiers(classifiers))
	}
	if c.queue {
		opts = append(opts, kvsteer.WithQueue(kvsteer.QueueOptions{}))
	}
	if c.record != "" {
		var log *record.Recorder
		if log, err = record.Open(c.record, record.Options{Logger: logger}); err != nil {
			return fmt.Errorf("-record: %w", err)
		}
		defer closing(log, &err)
		opts = append(opts, kvsteer.WithHooks(log))
	}
	if replicas.option != nil {
		opts = append(opts, replicas.option)
	}
	if c.snapshot != "" {
		if err = kvsteer.SnapshotWritable(c.snapshot); err != nil { // the end is late to find out
			return fmt.Errorf("-snapshot: %w", err)
		}
		opts = append(opts, kvsteer.WithSnapshot(kvsteer.SnapshotFile(c.snapshot)))
	}
	router, err := kvsteer.New(opts...)
	if err != nil {
		return err
	}
	defer closing(router, &err)
	if c.snapshot != "" {
		defer func() { err = errors.Join(err, router.SaveSnapshot(c.snapshot)) }() // before it is closed
	}
	server := extproc.New(router, extproc.Options{
		Endpoints: c.endpoints, Logger: logger,
		Ready: func() bool { return workers.Snapshot().Routable() > 0 },
	})
	logger.Info("serving", "listen", listener.Addr().String())
	return server.Serve(ctx, listener, extproc.ServeOptions{Notice: c.notice, Grace: c.grace})
}

// newClassifiers look through requests for the tags that a policy asks for, and for no
// others.
func newClassifiers() (*classify.Set, error) {
	scanner, err := classify.NewScanner(classify.ScannerOptions{})
	if err != nil {
		return nil, err
	}
	return classify.NewSet(classify.SetOptions{
		Members: []classify.Member{{Classifier: scanner}, {Classifier: new(classify.LengthHeuristic)}},
	})
}

// closing is for defer: an error of Close is one of the function's.
func closing(c io.Closer, err *error) { *err = errors.Join(*err, c.Close()) }
