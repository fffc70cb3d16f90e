// Command engines plays the workers of a fleet file, so that a gateway can be tried
// without a GPU: each worker of the file becomes a fake engine (package fleettest) at
// the address, and with the KV events, that the file gives it.
//
//	go run ./examples/engines -fleet examples/nethttp/fleet.yaml
//
// With -provider it plays an external service as well (package providertest), which answers
// every model: docs/providers.md.
//
//	go run ./examples/engines -fleet examples/nethttp/fleet.yaml -provider 127.0.0.1:8101 -api Anthropic
//
// The addresses must be this machine's. A worker that names no models serves -model.
// What a fake engine can't be, such as one of two models, is refused.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/file"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/providers/providertest"
)

func main() {
	path := flag.String("fleet", "fleet.yaml", "file that lists the workers to play")
	model := flag.String("model", "demo-27b", "model to serve where the file names none")
	speed := flag.Float64("speed", 1, "how many times faster than a 27B model on one GPU")
	provider := flag.String("provider", "", "`address` at which to play an external provider, too")
	api := flag.String("api", "OpenAI", "whose API that has: OpenAI or Anthropic")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	outside, err := offer(ctx, *provider, *api)
	if err == nil {
		err = run(ctx, *path, fleettest.Config{Model: *model, Speed: *speed})
	}
	stop()
	if outside != nil {
		err = errors.Join(err, outside.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

// run plays the workers that the file lists until ctx ends.
func run(ctx context.Context, path string, cfg fleettest.Config) (err error) {
	workers, err := file.Load(path)
	if err != nil {
		return fmt.Errorf("-fleet: %w", err)
	}
	var engines []*fleettest.Engine
	defer func() {
		for _, e := range engines {
			err = errors.Join(err, e.Close())
		}
	}()
	for i := range workers {
		var e *fleettest.Engine
		if e, err = play(ctx, &workers[i], cfg); err != nil {
			return fmt.Errorf("worker %s: %w", workers[i].Name, err)
		}
		engines = append(engines, e)
		fmt.Fprintf(os.Stderr, "%s serves at %s\n", e.Name(), e.URL())
	}
	<-ctx.Done()
	return nil
}

// offer plays a provider; nil without an address.
func offer(ctx context.Context, address, api string) (*providertest.Server, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // none is wanted
	}
	dialect, known := map[string]providertest.Dialect{"OpenAI": providertest.OpenAI, "Anthropic": providertest.Anthropic}[api]
	if !known {
		return nil, fmt.Errorf("-api: %q is neither OpenAI nor Anthropic", api)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-provider: %w", err)
	}
	s, err := providertest.Start(dialect, providertest.Options{Listener: l})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "a provider with the API of %s serves at %s\n", dialect, s.URL())
	return s, nil
}

// play starts the engine that a worker describes.
func play(ctx context.Context, w *fleet.Worker, cfg fleettest.Config) (*fleettest.Engine, error) {
	u, err := url.Parse(w.URL)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" || strings.Trim(u.Path, "/") != "":
		return nil, fmt.Errorf("%s can't be played: only http addresses without a path can", u.Redacted())
	case len(w.Models) > 1:
		return nil, fmt.Errorf("%d models can't be played: list one", len(w.Models))
	case w.Engine != "" && w.Engine != fleet.EngineVLLM:
		return nil, fmt.Errorf("engine %s can't be played: only %s can", w.Engine, fleet.EngineVLLM)
	}
	cfg.Name, cfg.Ranks, cfg.BlockSize, cfg.Role = w.Name, w.DataParallel, w.BlockSize, w.Role
	if len(w.Models) > 0 {
		cfg.Model = w.Models[0]
	}
	if len(w.Events) > 0 {
		cfg.OpenPublisher = func(rank int) (fleettest.Publisher, follow.Endpoint, error) {
			at, listed := endpoint(w.Events, rank)
			if !listed {
				return nil, follow.Endpoint{}, fmt.Errorf("no events are listed for rank %d", rank)
			}
			p, failed := zmtp.NewPublisher(zmtp.PublisherConfig{Events: at.Events, Replay: at.Replay})
			return publisher{p, at.Topic}, at, failed
		}
	}
	if cfg.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", u.Host); err != nil {
		return nil, err
	}
	return fleettest.Start(cfg)
}

// endpoint is where a rank publishes. A list that names no rank is in order.
func endpoint(list []follow.Endpoint, rank int) (at follow.Endpoint, listed bool) {
	ranked := slices.ContainsFunc(list, func(e follow.Endpoint) bool { return e.Rank != 0 })
	for i, e := range list {
		if ranked && e.Rank == rank || !ranked && i == rank {
			return e, true
		}
	}
	return follow.Endpoint{}, false
}

// publisher sends an engine's events as ZeroMQ does. Its Close is the embedded one's.
type publisher struct {
	*zmtp.Publisher

	topic string
}

// Publish implements fleettest.Publisher.
func (p publisher) Publish(payload []byte) uint64 {
	seq, _ := p.Publisher.Publish(p.topic, payload) // fails only after Close
	return seq
}
