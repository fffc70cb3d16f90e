// Command engines plays the workers of a fleet file, so that a gateway can be tried
// without a GPU: each worker of the file becomes a fake engine (package fleettest) at
// the address, and with the KV events, that the file gives it.
//
//	go run ./examples/engines -fleet examples/nethttp/fleet.yaml
//
// The addresses must be this machine's. A worker that names no models serves -model.
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
		return err
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
	if err != nil {
		return nil, err
	}
	cfg.Name, cfg.Ranks, cfg.BlockSize, cfg.Role = w.Name, w.DataParallel, w.BlockSize, w.Role
	if len(w.Models) > 0 {
		cfg.Model = w.Models[0]
	}
	if len(w.Events) > 0 {
		cfg.OpenPublisher = func(rank int) (fleettest.Publisher, follow.Endpoint, error) {
			if rank >= len(w.Events) {
				return nil, follow.Endpoint{}, fmt.Errorf("no events are listed for rank %d", rank)
			}
			at := w.Events[rank]
			p, failed := zmtp.NewPublisher(zmtp.PublisherConfig{Events: at.Events, Replay: at.Replay})
			return publisher{p, at.Topic}, at, failed
		}
	}
	if cfg.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", u.Host); err != nil {
		return nil, err
	}
	return fleettest.Start(cfg)
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
