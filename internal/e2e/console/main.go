package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(program()) }

func program() int {
	listen := flag.String("listen", "127.0.0.1:8642", "loopback address of the console")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := start(ctx, *listen, showFleet(), "a100")
	if err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		return 1
	}
	defer r.close()
	fmt.Fprintln(os.Stderr, "Open http://"+r.address+"/debug/kvsteer/")
	r.ask(ctx)
	return 0
}
