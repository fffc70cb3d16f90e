package main

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
)

const kindsOfLeaks = "heap, goroutines, files, series, selections, failures, or some of them with commas"

// leaks are things that are forgotten on purpose, one in every ten requests, to show that
// they are found. They end with the run.
type leaks struct {
	kinds  string
	router *kvsteer.Router
	series *prom.GaugeVec
	ctx    context.Context //nolint:containedctx // it is what the goroutines that are leaked wait for
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu         sync.Mutex
	n          int
	heap       [][]byte
	files      []*os.File
	selections []*kvsteer.Selection
}

func newLeaks(kinds string, router *kvsteer.Router, registry prom.Registerer) (*leaks, error) {
	l := &leaks{kinds: kinds, router: router}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.series = prom.NewGaugeVec(prom.GaugeOpts{Name: "soak_leaked", Help: "Leaked on purpose."}, []string{"n"})
	return l, registry.Register(l.series)
}

func (l *leaks) wrap(h http.Handler) http.Handler {
	if l.kinds == "" {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.leak() && strings.Contains(l.kinds, "failures") {
			// A gateway that fails of itself, and blames an injection for it.
			http.Error(w, fault, http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// leak reports whether this is one of the requests that leak.
func (l *leaks) leak() bool {
	const every, size = 10, 256 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n++; l.n%every != 0 {
		return false
	}
	for kind := range strings.SplitSeq(l.kinds, ",") {
		switch kind {
		case "heap":
			l.heap = append(l.heap, make([]byte, size))
		case "goroutines":
			l.wg.Go(func() { <-l.ctx.Done() })
		case "files":
			if f, err := os.Open(os.DevNull); err == nil {
				l.files = append(l.files, f)
			}
		case "series":
			for i := range 100 {
				l.series.WithLabelValues(strconv.Itoa(l.n) + "/" + strconv.Itoa(i)).Set(1)
			}
		case "selections":
			q := &kvsteer.Request{API: kvsteer.Completions, Body: []byte(`{"model":"` + base + `","prompt":"forgotten"}`)}
			if s, err := l.router.Select(l.ctx, q); err == nil {
				l.selections = append(l.selections, s)
			}
		}
	}
	return true
}

func (l *leaks) close() {
	l.cancel()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.files {
		_ = f.Close() // of /dev/null
	}
	for _, s := range l.selections {
		s.Abort(context.Canceled)
	}
}
