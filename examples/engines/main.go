// Command engines plays the workers of a fleet file, so that a gateway can be tried
// without a GPU: each worker of the file becomes a fake engine (package fleettest) at
// the address, and with the KV events, that the file gives it.
//
//	go run ./examples/engines -fleet examples/nethttp/fleet.yaml
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
)

func main() {
	path := flag.String("fleet", "fleet.yaml", "file that lists the workers to play")
	model := flag.String("model", "demo-27b", "model to serve where the file names none")
	speed := flag.Float64("speed", 1, "how many times faster than a 27B model on one GPU")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *path, fleettest.Config{Model: *model, Speed: *speed})
	stop()
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
