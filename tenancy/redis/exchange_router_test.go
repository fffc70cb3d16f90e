//go:build unix

package redis

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"                 //nolint:depguard // the gateways' programs
	"github.com/kvsteer/kvsteer/fleet"           //nolint:depguard // as above
	"github.com/kvsteer/kvsteer/fleet/fleettest" //nolint:depguard // as above
)

// gateway is a router that tells others by a real Redis.
type gateway struct {
	*kvsteer.Router
	fleet *fleet.Fleet
}

func (s *server) gateway(t *testing.T, name string, workers ...fleet.Worker) *gateway {
	t.Helper()
	f, err := fleet.New(fleet.Options{
		Discoverer: fleet.Static(workers...), ProbeInterval: 100 * time.Millisecond, ScrapeInterval: time.Hour, ProbeTimeout: longEnough,
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	r, err := kvsteer.New(kvsteer.WithFleet(f), kvsteer.WithReplicas(s.exchange(t, ExchangeOptions{}), kvsteer.ReplicaOptions{
		Name: name, Beat: 2 * time.Second, // and 8 s until one counts as dead
	}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	require.Eventually(t, func() bool { return f.Snapshot().Routable() == len(workers) }, longEnough, 10*time.Millisecond)
	return &gateway{r, f}
}

// others is what the gateway believes its peers have in flight.
func (g *gateway) others() (n int) {
	for _, m := range g.fleet.Snapshot().Members() {
		n += m.Peers(0).Requests
	}
	return n
}

func (g *gateway) pick(t *testing.T, prompt uint32) *kvsteer.Selection {
	t.Helper()
	ids := make([]uint32, 2000)
	for i := range ids {
		ids[i] = prompt*10_000 + uint32(i)
	}
	sel, err := g.Select(context.Background(), &kvsteer.Request{
		API: kvsteer.Completions, Model: "m", TokenIDs: ids, Body: []byte(`{"model":"m","stream":true}`),
	})
	require.NoError(t, err)
	return sel
}

// Two gateways see each other's requests through a Redis that is killed and comes back,
// and nothing of one that ends.
func TestRoutersOnRedis(t *testing.T) {
	var workers []fleet.Worker
	for i := range 2 {
		e := fleettest.New(t, fleettest.Config{Name: fmt.Sprintf("w%d", i), Model: "m", Speed: 1000})
		workers = append(workers, e.Worker())
	}
	s := newServer(t)
	a, b := s.gateway(t, "a", workers...), s.gateway(t, "b", workers...)
	know := func() {
		t.Helper()
		for _, g := range []*gateway{a, b} {
			require.Eventually(t, func() bool { st := g.Stats().Replicas; return st.Up && len(st.Peers) == 1 }, longEnough, time.Millisecond)
		}
	}
	sees := func(g *gateway, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return g.others() == n }, longEnough, time.Millisecond, "%d requests of others", n)
	}
	know()
	var held []*kvsteer.Selection
	for i := range uint32(4) {
		held = append(held, a.pick(t, i))
	}
	sees(b, 4)
	sees(a, 0)

	s.kill()
	require.Eventually(t, func() bool { return !a.Stats().Replicas.Up && !b.Stats().Replicas.Up }, longEnough, time.Millisecond)
	b.pick(t, 9).Abort(context.Canceled) // goes on without
	held[0].Abort(context.Canceled)
	s.start()
	know()
	sees(b, 3)

	s.killSubscribers(t)
	held[1].Abort(context.Canceled)
	sees(b, 2)
	for _, sel := range held[2:] {
		sel.Abort(context.Canceled)
	}
	sees(b, 0)
	last := a.pick(t, 20)
	sees(b, 1)
	require.NoError(t, a.Close()) // says so: nobody has to wait
	sees(b, 0)
	require.Eventually(t, func() bool { return len(b.Stats().Replicas.Peers) == 0 }, longEnough, time.Millisecond)
	last.Abort(context.Canceled)
}
