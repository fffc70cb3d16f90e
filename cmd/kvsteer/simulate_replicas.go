package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"time"

	"github.com/kvsteer/kvsteer/cmd/kvsteer/internal/simulate"
)

// maxReplicas bounds the routers: each has an index of all workers.
const maxReplicas = 64

// replicas is what flags say of several routers.
type replicas struct {
	count    int
	exchange onOff
	delay    time.Duration
	loss     float64
}

func (p *replicas) flags(f *flag.FlagSet) {
	p.count, p.exchange, p.delay = 1, true, 2*time.Millisecond //nolint:mnd // a hop to a broker and on
	f.IntVar(&p.count, "replicas", p.count, "share the requests at random among so `many` routers that each have a view of their own")
	f.Var(&p.exchange, "exchange", "`on or off`: do the routers tell each other of their work?")
	f.Func("exchange-delay", "how `long` that takes (default 2ms)", span(&p.delay))
	f.Float64Var(&p.loss, "exchange-loss", 0, "`share` of what they tell that never arrives, 0 to 1")
}

// onOff is a switch.
type onOff bool

// String implements [flag.Value].
func (s *onOff) String() string {
	if s != nil && bool(*s) {
		return "on"
	}
	return "off"
}

// Set implements [flag.Value].
func (s *onOff) Set(v string) error {
	switch v {
	case "on":
		*s = true
	case "off":
		*s = false
	default:
		return errors.New("want on or off")
	}
	return nil
}

// check reports what makes no sense.
func (p *replicas) check() error {
	if p.count < 1 || p.count > maxReplicas {
		return fmt.Errorf("-replicas %d: want 1 to %d", p.count, maxReplicas)
	}
	return nil
}

// config is the exchange between the routers.
func (p *replicas) config() simulate.Exchange {
	return simulate.Exchange{On: bool(p.exchange) && p.count > 1, Delay: p.delay, Loss: p.loss}
}

// rules makes one rule for each router.
func (p *replicas) rules(workers []simulate.WorkerSpec, name string, seed uint64) ([]simulate.Rule, error) {
	out := make([]simulate.Rule, p.count)
	for n := range out {
		r, err := newRule(workers, name, seed+uint64(n)*(math.MaxUint64/maxReplicas)) // no seed that a user would take
		if err != nil {
			return nil, err
		}
		if p.count > 1 && !simulate.Replicates(r) {
			return nil, fmt.Errorf("%s knows everything: it can't be the rule of several routers", name)
		}
		out[n] = r
	}
	return out, nil
}
