package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// watch looks on while there is load, and scrapes as a Prometheus would. What it sees is
// told and not judged: it depends on how busy the machine is.
type watch struct{ inFlight, goroutines, files []int }

const lookEvery = time.Second

func newWatch(length time.Duration) *watch {
	n := int(length/lookEvery)*2 + 64 // so that it doesn't grow itself
	return &watch{make([]int, 0, n), make([]int, 0, n), make([]int, 0, n)}
}

func (w *watch) run(ctx context.Context, s *run) {
	const scrape = 5
	for n := 1; pause(ctx, lookEvery) == nil; n++ {
		if n := s.load.inFlight.Load(); n > 0 {
			w.inFlight = append(w.inFlight, int(n))
			w.goroutines = append(w.goroutines, runtime.NumGoroutine())
			w.files = append(w.files, openFiles())
		}
		if n%scrape == 0 {
			_, _ = s.rig.registry.Gather() // the samples tell if it fails
		}
	}
}

func (w *watch) String() string {
	if len(w.inFlight) == 0 {
		return "under load: not looked at"
	}
	about := func(values []int) string {
		sorted := slices.Sorted(slices.Values(values))
		return fmt.Sprintf("%d (most %d)", sorted[len(sorted)/2], sorted[len(sorted)-1])
	}
	return fmt.Sprintf("under load, median: in flight %s, goroutines %s, open files and sockets %s",
		about(w.inFlight), about(w.goroutines), about(w.files))
}
