// Gateway is the smallest gateway whose workers are in a Kubernetes cluster:
// docs/kubernetes.md tells how to run it.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/kubernetes"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

func main() {
	var (
		listen     = flag.String("listen", "", "address to listen on; empty: :8080 in a pod, with -kubeconfig 127.0.0.1:8080")
		kubeconfig = flag.String("kubeconfig", "", "file with the cluster's address; empty: the pod's own service account")
		namespace  = flag.String("namespace", "inference", "namespace of the workers")
		selector   = flag.String("selector", "app=vllm", "labels of the workers' pods")
		port       = flag.String("port", "http", "name or number of the port that engines listen on")
		notice     = flag.Duration("notice", 5*time.Second, "how long readiness is denied before connections are, for load balancers to notice")
		policies   = flag.Bool("policies", false, "follow the InferencePolicies of the namespace")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends us at once
	if *listen == "" {
		*listen = "127.0.0.1:8080"
		if *kubeconfig == "" {
			*listen = ":8080"
		}
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if err := run(ctx, log, *listen, *kubeconfig, *namespace, *selector, *port, *notice, *policies); err != nil {
		log.Error("the gateway ends", "error", err)
		os.Exit(1) //nolint:gocritic // the signals need no tidying
	}
}

func run(ctx context.Context, log *slog.Logger, listen, kubeconfig, namespace, selector, port string,
	notice time.Duration, policies bool,
) (err error) {
	config, err := configOf(kubeconfig)
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	workers, err := fleet.New(fleet.Options{Logger: log, Discoverer: &kubernetes.Pods{
		Client: client, Namespaces: []string{namespace}, Selector: selector, Ports: []string{port},
		Options: kubernetes.Options{Logger: log},
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.Close()) }()
	options := []kvsteer.Option{kvsteer.WithFleet(workers), kvsteer.WithLogger(log), kvsteer.WithEvents(&zmtp.Transport{})}
	if policies {
		source, opening := open(ctx, log, config, namespace)
		if opening != nil {
			return opening
		}
		defer func() { _ = source.Close() }() // it never fails
		options = append(options, kvsteer.WithPolicy(source))
	}
	router, err := kvsteer.New(options...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, router.Close()) }()
	server := &http.Server{Addr: listen, ReadHeaderTimeout: time.Minute, Handler: handler(ctx, workers, &httputil.ReverseProxy{
		Rewrite:      func(*httputil.ProxyRequest) {}, // the Transport sets the destination
		Transport:    kvsteer.NewTransport(router, kvsteer.TransportOptions{}),
		ErrorHandler: kvsteer.WriteError,
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err = <-ended:
		return err
	case <-ctx.Done():
	}
	select { // requests still come until everybody knows that we are not ready
	case err = <-ended:
		return err
	case <-time.After(notice):
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return server.Shutdown(grace)
}

// handler serves /readyz, for the readiness probe of the gateway's pod, and leaves the
// rest to proxy. It is ready while there is a worker to send requests to and ctx lives.
func handler(ctx context.Context, workers *fleet.Fleet, proxy http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil || workers.Snapshot().Routable() == 0 {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	return mux
}

func open(ctx context.Context, log *slog.Logger, config *rest.Config, namespace string) (*kubernetes.Policies, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return kubernetes.OpenPolicies(ctx, kubernetes.PolicyOptions{
		Client: objects, Namespaces: []string{namespace}, AllowNone: true, Logger: log,
	})
}

func configOf(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", kubeconfig)
}
