package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(program()) }

func program() int {
	length := flag.Duration("for", time.Minute, "how long requests come, the warm-up included")
	rate := flag.Float64("rate", 200, "requests a second")
	warm := flag.Duration("warm", 0, "how much of it is warm-up (default a sixth)")
	rest := flag.Duration("rest", 0, "time between two samples (default a sixtieth, at most 30s)")
	churn := flag.Duration("churn", 0, "time between two things that happen to workers (default a sixtieth, at most 5s)")
	workers := flag.Int("workers", 0, "workers at a time (default 6)")
	leak := flag.String("leak", "", "leak something on purpose, to see that it is found: "+kindsOfLeaks)
	flag.Parse()
	c := defaults(*length, *rate)
	c.leak = *leak
	set(&c.warm, *warm)
	set(&c.rest, *rest)
	set(&c.churn, *churn)
	set(&c.workers, *workers)
	folder, err := os.MkdirTemp("", "kvsteer-soak-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	defer os.RemoveAll(folder)
	c.folder = folder
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := soak(ctx, c, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	report.print(os.Stdout)
	if len(report.violations()) > 0 {
		return 1
	}
	return 0
}

func set[T comparable](to *T, from T) {
	var zero T
	if from != zero {
		*to = from
	}
}
