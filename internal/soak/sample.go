package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/kvsteer/kvsteer"
)

// measure is something that is to stay as it is.
type measure uint8

const (
	heap measure = iota // after garbage collection
	resident
	goroutines
	files
	pairs
	indexBytes
	series
	selections
	buckets
	measures
)

// about says what a measure is called, and how far it may be off at all events: a worker
// more or less, or a page of memory here and there, is no growth.
func (m measure) about() (name, unit string, slack float64) {
	switch m {
	case heap:
		return "heap after collection", "kB", 1 << 10
	case resident:
		return "resident memory", "kB", 4 << 10
	case goroutines:
		return "goroutines", "", 6
	case files:
		return "open files and sockets", "", 6
	case pairs:
		return "index: pairs", "", 64
	case indexBytes:
		return "index: memory", "kB", 64
	case series:
		return "metric series", "", 40
	case selections:
		return "live Selections", "", 0
	default:
		return "buckets of limits", "", 20
	}
}

// sample is what there was at one moment at which nothing was under way.
type sample struct {
	at     time.Duration // of load, the warm-up included
	values [measures]float64
	// happened is how much had happened to workers by then, see [periods].
	happened int
	known    known
	caches   []kvsteer.CacheStats // until they are sorted
}

func (s *sample) String() string {
	v := &s.values
	const format = "%8v  heap %6.0f kB, rss %6.0f kB, goroutines %3.0f, files %3.0f, pairs %5.0f, index %5.0f kB, series %5.0f, " +
		"exact %d/%d, to heal %d"
	return fmt.Sprintf(format, s.at.Round(time.Second), v[heap], v[resident], v[goroutines], v[files],
		v[pairs], v[indexBytes], v[series], s.known.exact, s.known.ranks(), s.known.rest)
}

const kilo = 1 << 10

// take reads everything. Memory is that which is left after two collections, what a pool
// holds goes with the second, and after what is free has been given back.
func (r *rig) take(at time.Duration) (sample, error) {
	s := sample{at: at}
	runtime.GC()
	debug.FreeOSMemory() // collects, too
	s.values[resident] = residentBytes() / kilo
	s.values[heap] = (heapBytes() - r.idle) / kilo
	s.values[goroutines] = float64(runtime.NumGoroutine())
	s.values[files] = float64(openFiles())
	st := r.router.Stats()
	s.values[pairs], s.values[indexBytes] = float64(st.Index.Pairs), float64(st.Index.Bytes)/kilo
	s.values[selections] = float64(st.InFlight)
	s.values[buckets] = float64(r.limits.Totals().Buckets)
	s.caches = st.Caches
	n, err := countSeries(r.registry)
	s.values[series] = float64(n)
	return s, err
}

func heapBytes() float64 {
	read := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(read)
	return float64(read[0].Value.Uint64())
}

// residentBytes is 0 where the system does not say.
func residentBytes() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	const nth = 1
	fields := bytes.Fields(text)
	if len(fields) <= nth {
		return 0
	}
	pages, err := strconv.Atoi(string(fields[nth]))
	if err != nil {
		return 0
	}
	return float64(pages * os.Getpagesize())
}

// openFiles is 0 where the system does not say.
func openFiles() int {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(all) - 1 // that of this reading
}

// countSeries counts series as a server that scrapes does: each bucket is one.
func countSeries(from prom.Gatherer) (int, error) {
	families, err := from.Gather()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n += seriesOf(m)
		}
	}
	return n, nil
}

func seriesOf(m *dto.Metric) int {
	const sumAndCount, infinity = 2, 1
	switch {
	case m.GetHistogram() != nil:
		return len(m.GetHistogram().GetBucket()) + infinity + sumAndCount
	case m.GetSummary() != nil:
		return len(m.GetSummary().GetQuantile()) + sumAndCount
	default:
		return 1
	}
}
