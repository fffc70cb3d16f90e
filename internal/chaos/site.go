package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache/follow"
)

// errBarred: a private request was to go where none may. errStarted: an engine does not
// come up again, which is the world's failure, not the router's.
var (
	errBarred  = errors.New("chaos: a private request was sent where none may go")
	errStarted = errors.New("chaos: an engine does not start")
	errEpoch   = errors.New("chaos: the fleet has another instance than it was told of")
)

// site is an address with an engine, one after the other.
type site struct {
	world  *world
	index  int
	wires  []*wire // by rank
	addr   string  // "" before the first engine
	engine *fleettest.Engine
	epoch  string // that the fleet is told
	gone   []*fleettest.Engine
	shaken bool // some of its events are lost for good
	nudged int
	// ill: what a request may fail at was done to the engine, and not yet mended.
	ill  bool
	said atomic.Int64
}

// occupy puts a new engine, with a new name, at the site's address. The one before must be
// closed.
func (s *site) occupy() error {
	at := s.addr
	if at == "" {
		at = net.JoinHostPort(s.world.host, "0")
	}
	var ln net.Listener
	err := s.world.eventually("listen at "+at, func() (err error) {
		ln, err = new(net.ListenConfig).Listen(context.Background(), "tcp", at)
		return err
	})
	if err != nil {
		return errors.Join(errStarted, err)
	}
	s.addr = ln.Addr().String()
	name := "w" + strconv.Itoa(s.world.names)
	s.world.names++
	if s.index == s.world.setup.shared {
		s.world.sharedNames.Store(name, true)
	}
	cfg := fleettest.Config{
		Name: name, Model: model, Speed: speed, Blocks: s.world.setup.blocks, MaxModelLen: 4096, OutputTokens: 8, Listener: ln,
		Seed: s.world.plan.Seed, Ranks: s.world.setup.ranks, Record: 4096, Render: s.index == 0, MaxRunning: 16,
		Role: s.role(),
		Reply: func(fleettest.Call) string {
			return fmt.Sprintf("<ans-%s-%d> one two three four five six seven eight nine", name, s.said.Add(1))
		},
	}
	if s.index != s.world.setup.silent {
		cfg.OpenPublisher = func(rank int) (fleettest.Publisher, follow.Endpoint, error) { return s.wires[rank].open(rank) }
	}
	var e *fleettest.Engine
	err = s.world.eventually("start "+name, func() (err error) {
		e, err = fleettest.Start(cfg)
		return err
	})
	if err != nil {
		return errors.Join(errStarted, err, ln.Close())
	}
	s.engine, s.epoch = e, name+"-1"
	s.clear()
	return nil
}

// revive brings the engine up, whatever state it is in.
func (s *site) revive() error {
	err := s.world.eventually("revive "+s.engine.Name(), s.engine.Revive)
	if err != nil {
		return errors.Join(errStarted, err)
	}
	return nil
}

// clear lifts what the engine does wrong, but for what it does all its life.
func (s *site) clear() {
	s.engine.Faults().Clear()
	s.engine.Faults().HideMetrics(s.world.setup.blind)
}

// anew tells another epoch for the engine as it is now.
func (s *site) anew() { s.epoch = s.engine.Name() + "-" + strconv.Itoa(s.engine.Lives()) }

// worker is what the fleet is told.
func (s *site) worker() fleet.Worker {
	w := s.engine.Worker()
	w.Epoch, w.Models, w.BlockSize, w.Labels = s.epoch, []string{model}, blockSize, map[string]string{"zone": s.zone()}
	w.Class = string(s.role())
	if s.index != s.world.setup.silent {
		w.Events = nil
		for _, wire := range s.wires {
			wire.mu.Lock()
			w.Events = append(w.Events, wire.endpoint)
			wire.mu.Unlock()
		}
	}
	return w
}

func (s *site) zone() string {
	if s.index == s.world.setup.shared {
		return zoneShared
	}
	return zoneHome
}

// vacate closes the engine and remembers it for what it has seen.
func (s *site) vacate() error {
	s.gone = append(s.gone, s.engine)
	return s.engine.Close()
}

func (s *site) close() error {
	if s.engine == nil {
		return nil
	}
	return s.engine.Close()
}

// engines are those that the site has and had.
func (s *site) engines() []*fleettest.Engine { return append([]*fleettest.Engine{s.engine}, s.gone...) }

func (w *world) site(n int) *site { return w.sites[n%len(w.sites)] }

// workers are those that there are now.
func (w *world) workers() []fleet.Worker {
	var list []fleet.Worker
	for _, s := range w.sites {
		list = append(list, s.worker())
	}
	return list
}

// barred reports whether no private request may go to a target.
func (w *world) barred(t kvsteer.Target) bool {
	_, shared := w.sharedNames.Load(t.Worker)
	return t.Provider != "" || shared
}
