package main

import (
	"errors"
	"fmt"
	"time"
)

// config is how long, how fast and with what.
type config struct {
	length, warm time.Duration
	most         time.Duration // after which no more are sent, 0 for never
	rate         float64       // requests a second
	rest         time.Duration // of arrivals between two samples
	churn        time.Duration // between two things that happen to workers
	settle       time.Duration // within which nothing is in flight once all clients have their answers
	open         int           // requests at a time; more wait, which the rate then shows
	workers      int
	blocks       int           // of a worker's cache
	active       int           // tenants at a time
	tenants      float64       // new tenants a second
	fill         bool          // what is bounded, before the load, see fill.go
	growth       float64       // the most that is allowed, 0.05 for five in a hundred
	heal         time.Duration // within which a cache is known exactly again that can be
	exact        float64       // the least share of such caches that is known so, see known.go
	heaps        string        // where to write profiles of the heap to, see profile.go
	leak         string        // what to leak on purpose, see leaks.go
	folder       string        // for the ledger's files
}

// defaults are for a length.
func defaults(length time.Duration, rate float64) config {
	return config{
		length: length, warm: length / 4, rate: rate, rest: min(5*time.Second, length/60), churn: min(5*time.Second, length/60),
		settle: 30 * time.Second, open: 1500, workers: 6, blocks: 2048, active: 300, tenants: 10, fill: true, growth: 0.05,
		heal: 30 * time.Second, exact: 0.9,
	}
}

// fewest is how many samples can be judged: two for each of the fewest periods.
const fewest = 2 * fewestPeriods

func (c *config) check() error {
	var errs []error
	wrong := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	wrong(c.rate <= 0 || c.rest <= 0 || c.churn <= 0, "-rate, -rest and -churn must be positive")
	wrong(c.open < 1, "-open is %d: it must be positive", c.open)
	wrong(c.workers < 4, "-workers is %d: it takes 4, so that some are left whatever happens to one", c.workers)
	wrong(c.blocks < 16 || c.active < 1 || c.tenants < 0, "-blocks must be 16 at least, -active 1, and -tenants not negative")
	if len(errs) == 0 && int((c.length-c.warm)/c.rest) < fewest {
		wrong(true, "%v with %v of warm-up and a sample each %v are fewer than the %d samples it takes", c.length, c.warm, c.rest, fewest)
	}
	return errors.Join(errs...)
}
