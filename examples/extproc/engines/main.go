// Command engines runs fake engines for trying out the example without a GPU: fleettest's,
// at the addresses of fleet.yaml.
//
//	go run ./engines 127.0.0.1:8001 127.0.0.1:8002
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/kvsteer/kvsteer/fleet/fleettest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, addrs []string) error {
	for i, addr := range addrs {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		e, err := fleettest.Start(fleettest.Config{Name: fmt.Sprintf("gpu-%d", i), Listener: l, Speed: 10})
		if err != nil {
			return err
		}
		defer e.Close() //nolint:errcheck,gocritic // all run until the program ends
		fmt.Println(e.Name(), "serves", fleettest.DefaultModel, "at", e.URL())
	}
	<-ctx.Done()
	return nil
}
