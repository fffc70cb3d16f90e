package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

func main() { os.Exit(program()) }

func program() int {
	length := flag.Duration("for", time.Minute, "how long requests come, the warm-up included")
	rate := flag.Float64("rate", 200, "requests a second")
	most := flag.Duration("most", 0, "send no more after so long, on a machine that does not keep the rate (default never)")
	warm := flag.Duration("warm", 0, "how much of it is warm-up (default a quarter)")
	rest := flag.Duration("rest", 0, "time between two samples (default a sixtieth, at most 5s)")
	churn := flag.Duration("churn", 0, "time between two things that happen to workers (default a sixtieth, at most 5s)")
	workers := flag.Int("workers", 0, "workers at a time (default 6)")
	open := flag.Int("open", 0, "requests at a time: what comes on top waits, and the rate is not kept (default 1500)")
	leak := flag.String("leak", "", "leak something on purpose, to see that it is found: "+kindsOfLeaks)
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	heaps := flag.String("heapprofile", "", "write profiles of the heap, one after the warm-up and one in the end, to files that begin so")
	flag.Parse()
	c := defaults(*length, *rate)
	c.leak, c.heaps = *leak, *heaps
	set(&c.warm, *warm)
	set(&c.most, *most)
	set(&c.rest, *rest)
	set(&c.churn, *churn)
	set(&c.workers, *workers)
	set(&c.open, *open)
	folder, err := os.MkdirTemp("", "kvsteer-soak-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }() // of the system's temporary ones
	c.folder = folder
	// Most of what is collected here is the load's and the engines', in the same process.
	const percent = 400
	debug.SetGCPercent(percent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *profile != "" {
		profiled, failed := startProfile(*profile)
		if failed != nil {
			fmt.Fprintln(os.Stderr, "soak:", failed)
			return 1
		}
		defer profiled()
	}
	report, err := soak(ctx, c, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return 1
	}
	report.print(os.Stdout)
	if len(report.violations()) > 0 || report.slow() != "" {
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
