package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

// takeReplicas does what happens between two gateways.
func (w *world) takeReplicas(ctx context.Context, s Step) error {
	if len(w.gateways) < 2 {
		return nil
	}
	switch s.Op {
	case "bus":
		w.takeBus(s)
	case "noise":
		shares := []float64{0, 0.1, 0.4, 0.8}
		o := replicatest.BusOptions{
			Drop: shares[s.A%4], Duplicate: shares[s.A/4%4], Reorder: shares[s.B%4],
		}
		if s.B/4%2 == 0 {
			o.Delay = func(rng *rand.Rand) time.Duration { return time.Duration(rng.IntN(5)) * time.Millisecond }
		}
		w.bus.Faults(o)
	default:
		return w.restartGateway(ctx, s)
	}
	return nil
}

// takeBus cuts the gateways off from each other, with or without telling them, or lets
// them speak again.
func (w *world) takeBus(s Step) {
	g := w.gateways[s.A/8%2]
	switch s.A % 4 {
	case 0:
		w.bus.Cut(true)
	case 1:
		g.end.Cut(true)
	case 2:
		g.end.Silence(true)
	default:
		w.rejoin()
		return
	}
	if s.B%2 == 0 {
		w.noted = w.alone()
	}
}

func (w *world) rejoin() {
	w.bus.Cut(false)
	for _, g := range w.gateways {
		if g.end != nil {
			g.end.Cut(false)
			g.end.Silence(false)
		}
	}
}

// mendBus has every message come, once and in order.
func (w *world) mendBus() {
	w.bus.Faults(replicatest.BusOptions{})
	w.rejoin()
}

// alone waits until gateways that can't hear of each other have nothing of the other left.
func (w *world) alone() *Violation {
	for _, g := range w.gateways {
		tries := 0
		err := w.eventually("alone", func() error {
			if tries++; tries&(tries-1) == 0 { // what was under way may have come since
				g.clock().pass(dead)
			}
			if peers := g.router.Stats().Replicas.Peers; len(peers) > 0 {
				return fmt.Errorf("%w: it still counts %+v", errWaiting, peers)
			}
			return g.shareless()
		})
		if err != nil {
			return violation(Peers, "gateway %d hears of nobody: %v", g.index, err)
		}
	}
	return nil
}

// shareless says what others seem to have in flight.
func (g *gateway) shareless() error {
	for _, m := range g.fleet.Snapshot().Members() {
		for rank := range m.Ranks() {
			if f := m.Peers(rank); f.Requests != 0 {
				return fmt.Errorf("%w: others have %+v on %s", errWaiting, f, m.ID())
			}
		}
	}
	return nil
}

// agrees waits until each of two gateways knows the other, and nobody else, and nothing
// of it, where nothing is in flight.
func (w *world) agrees(context.Context) *Violation {
	if len(w.gateways) < 2 {
		return nil
	}
	for _, g := range w.gateways {
		if v := g.agrees(); v != nil {
			return v
		}
	}
	return nil
}

func (g *gateway) agrees() *Violation {
	epoch, tries := g.other().router.Stats().Replicas.Epoch, 0
	err := g.world.eventually("agree", func() error {
		tries++
		s := g.router.Stats().Replicas
		for _, p := range s.Peers {
			// A clock that was put back keeps the dead alive.
			if p.Epoch != epoch && tries&(tries-1) == 0 {
				g.clock().pass(dead)
			}
		}
		if !s.Up || len(s.Peers) != 1 || s.Peers[0].Epoch != epoch || s.Peers[0].Requests != 0 {
			return fmt.Errorf("%w: the exchange is up: %t (%s), and it counts %+v", errWaiting, s.Up, s.Problem, s.Peers)
		}
		return g.shareless()
	})
	if err != nil {
		return violation(Peers, "nothing is in flight, all is mended, and to gateway %d: %v", g.index, err)
	}
	return nil
}

// restartGateway closes a gateway, with or without a word, and opens another in its
// place, which may begin with what the other one knows.
func (w *world) restartGateway(ctx context.Context, s Step) error {
	old := w.gateways[s.A%2]
	if s.B%2 == 0 {
		old.end.Silence(true)
	}
	epoch := old.router.Stats().Replicas.Epoch
	old.server.CloseClientConnections()
	if err := old.shut(); err != nil {
		return err
	}
	w.past = append(w.past, old)
	g := w.join(old.index)
	at := w.site(s.A / 2)
	anew := s.B/2%2 == 0 // in silence: the snapshot is of the life before
	if anew {
		if err := at.engine.Kill(); err != nil {
			return err
		}
	}
	var sources []kvsteer.SnapshotSource
	from := kvsteer.SnapshotFrom(old.other().server.URL+pathSnapshot, w.http)
	switch s.B / 4 % 4 {
	case 0:
		sources = append(sources, from)
	case 1:
		sources = append(sources, exported(old.other()))
	case 2:
		sources = append(sources, damaged(from, s.B))
	default:
	}
	var early bytes.Buffer
	if anew {
		if err := old.other().router.Export(&early); err != nil {
			return err
		}
		if len(sources) > 0 && s.B/4%4 != 2 { // what was known when the worker died
			sources = []kvsteer.SnapshotSource{func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(bytes.NewReader(early.Bytes())), nil
			}}
		}
		if err := at.revive(); err != nil {
			return err
		}
	}
	w.gateways[g.index] = g
	if err := g.open(sources...); err != nil {
		return err
	}
	if w.noted = w.buried(g.other(), epoch); w.noted == nil {
		w.noted = g.unproven(ctx)
	}
	return nil
}

// buried waits until a gateway counts nothing of another process any more.
func (w *world) buried(g *gateway, epoch uint64) *Violation {
	tries := 0
	err := w.eventually("buried", func() error {
		if tries++; tries&(tries-1) == 0 {
			g.clock().pass(dead)
		}
		for _, p := range g.router.Stats().Replicas.Peers {
			if p.Epoch == epoch {
				return fmt.Errorf("%w: it still counts %+v", errWaiting, p)
			}
		}
		return nil
	})
	if err != nil {
		return violation(Peers, "the other router was closed, and to gateway %d: %v", g.index, err)
	}
	return nil
}

// exported is what a gateway knows when it is asked.
func exported(g *gateway) kvsteer.SnapshotSource {
	return func(context.Context) (io.ReadCloser, error) {
		var file bytes.Buffer
		if err := g.router.Export(&file); err != nil {
			return nil, err
		}
		return io.NopCloser(&file), nil
	}
}

// damaged is what comes of another source when a bit of it is wrong.
func damaged(from kvsteer.SnapshotSource, at int) kvsteer.SnapshotSource {
	return func(ctx context.Context) (io.ReadCloser, error) {
		body, err := from(ctx)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		raw, err := io.ReadAll(body)
		if err != nil || len(raw) == 0 {
			return nil, err
		}
		raw[at%len(raw)] ^= 1 << (at % 8)
		return io.NopCloser(bytes.NewReader(raw)), nil
	}
}

// shared is an instance without what a fleet adds when a worker comes back by itself.
func shared(instance string) string {
	name, _, _ := strings.Cut(instance, "+")
	return name
}

// unproven says where a gateway that has just begun takes for certain what the engine's
// present life has never told: it can only be from a snapshot of another life.
func (g *gateway) unproven(ctx context.Context) *Violation {
	w := g.world
	if w.reap(); len(w.open) > 0 {
		return nil // they may be sending the same prompts just now
	}
	g.clock().pass(time.Hour) // no bookings
	for _, number := range w.sample() {
		q, tokens := w.known(number)
		d, err := g.router.Explain(ctx, q)
		if err != nil {
			continue // it may not have discovered anybody yet
		}
		list := everyCandidate(d)
		for i := range list {
			c := &list[i]
			at := slices.IndexFunc(w.sites, func(s *site) bool { return s.engine.Name() == c.Name })
			if at < 0 || c.Trust != kvcache.Exact || at == w.setup.silent {
				continue
			}
			if ever := w.sites[at].wires[c.Rank].ever(tokens); c.CachedTokens > ever {
				return violation(NoOvercount, "gateway %d has just begun, %s, rank %d, is exact and is thought to have %d tokens "+
					"of prompt %d; its present life told of %d",
					g.index, c.Instance, c.Rank, c.CachedTokens, number, ever)
			}
		}
	}
	return nil
}

// sample are some prompts that were sent.
func (w *world) sample() (list []int) {
	const most = 8
	for number := range w.numbers {
		if list = append(list, number); len(list) == most {
			break
		}
	}
	return list
}
