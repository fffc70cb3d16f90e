package chaos

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strconv"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

// gateway is a router with a fleet of its own, and what leads to it. All of a world are
// over the same engines, limits, ledger, policy and providers.
type gateway struct {
	world     *world
	index     int
	fleet     *fleet.Fleet
	router    *kvsteer.Router
	transport *kvsteer.Transport
	server    *httptest.Server
	observer  *observer
	drains    drains
	// assured counts nudges while the router claimed to know a cache.
	assured map[place]int
	end     *replicatest.Peer // nil: there is no other gateway
}

const pathSnapshot = "/snapshot"

// Clocks of a gateway's router and fleet.
func (g *gateway) clock() *clock      { return &g.world.clocks[4*g.index] }
func (g *gateway) fleetClock() *clock { return &g.world.clocks[4*g.index+1] }

// open starts a gateway. On an error shut is to be called all the same.
func (g *gateway) open(sources ...kvsteer.SnapshotSource) error {
	w, logger := g.world, slog.New(slog.NewJSONHandler(&g.world.journal, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f, err := fleet.New(fleet.Options{
		Discoverer: w.inventory, ProbeInterval: probes, ScrapeInterval: probes, ProbeTimeout: patience,
		UnhealthyAfter: 3, Now: g.fleetClock().now, Logger: logger, OnChange: g.observer.onChange,
	})
	if err != nil {
		return fmt.Errorf("fleet: %w", err)
	}
	g.fleet = f
	opts := []kvsteer.Option{
		kvsteer.WithFleet(f), kvsteer.WithEncoder(w.encoder), kvsteer.WithPolicy(w.source), kvsteer.WithTags(tagPrivate),
		kvsteer.WithEvents(&zmtp.Transport{DialContext: w.cables.dial, RetryMin: 2 * time.Millisecond, RetryMax: 50 * time.Millisecond}),
		kvsteer.WithTenancy(kvsteer.TenancyOptions{Limits: &w.gate, Ledger: w.ledger}),
		kvsteer.WithHooks(g.observer), kvsteer.WithLogger(logger), kvsteer.WithClock(g.clock().now),
		kvsteer.WithSeed(w.plan.Seed + 1 + uint64(g.index)),
		kvsteer.WithMaxIdle(maxIdle), kvsteer.WithSnapshot(sources...),
	}
	if w.set != nil {
		opts = append(opts, kvsteer.WithProviders(w.set))
	}
	if w.setup.queue {
		opts = append(opts, kvsteer.WithQueue(kvsteer.QueueOptions{MaxWaiting: 20, MaxWait: 200 * time.Millisecond}))
	}
	if g.end != nil {
		opts = append(opts, kvsteer.WithReplicas(g.end, kvsteer.ReplicaOptions{Name: "g" + strconv.Itoa(g.index), Beat: beat}))
	}
	var base http.RoundTripper
	if w.setup.split {
		opts = append(opts, kvsteer.WithPredictor(paces{}))
		base = w.newLegs()
	}
	if g.router, err = kvsteer.New(opts...); err != nil {
		return fmt.Errorf("router: %w", err)
	}
	g.transport = kvsteer.NewTransport(g.router, kvsteer.TransportOptions{
		Base: base,
		Describe: func(r *http.Request, q *kvsteer.Request) {
			g.drains.comes(r)
			w.describe(r, q)
		},
		OnDecision: g.onDecision, FirstByteTimeout: w.silence(), IdleTimeout: w.silence(),
	})
	mux := http.NewServeMux()
	mux.Handle(pathSnapshot, kvsteer.SnapshotHandler(g.router, nil))
	mux.Handle("/", &httputil.ReverseProxy{
		Rewrite: func(*httputil.ProxyRequest) {}, Transport: g.transport, ErrorHandler: kvsteer.WriteError,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelError), FlushInterval: -1,
	})
	g.server = httptest.NewServer(mux)
	return nil
}

// shut closes everything in the order in which users are to.
func (g *gateway) shut() error {
	if g.server != nil {
		g.server.Close()
		g.transport.CloseIdleConnections()
	}
	if g.router != nil {
		if err := g.router.Close(); err != nil {
			return err
		}
	}
	if g.fleet != nil {
		return g.fleet.Close()
	}
	return nil
}

// join makes a gateway with a new end of the bus.
func (w *world) join(index int) *gateway {
	g := &gateway{world: w, index: index, observer: &observer{tally: w.tally}, assured: make(map[place]int)}
	if w.setup.gateways > 1 {
		g.end = w.bus.Join()
	}
	return g
}

func (w *world) buildGateways(*slog.Logger) error {
	w.http = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	w.bus = replicatest.NewBus(replicatest.BusOptions{Seed: w.plan.Seed})
	w.closing(func() error {
		w.http.CloseIdleConnections()
		for _, g := range slices.Backward(w.gateways) {
			if err := g.shut(); err != nil {
				return err
			}
		}
		return nil
	})
	for i := range w.setup.gateways {
		g := w.join(i)
		w.gateways = append(w.gateways, g)
		if err := g.open(); err != nil {
			return err
		}
	}
	return nil
}

// everyGateway is those that are and those that were.
func (w *world) everyGateway() []*gateway { return append(slices.Clone(w.gateways), w.past...) }

// other is the gateway beside g; only if there are two.
func (g *gateway) other() *gateway { return g.world.gateways[1-g.index] }
