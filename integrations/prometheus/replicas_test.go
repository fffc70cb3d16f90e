package prometheus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/replica"
	"github.com/kvsteer/kvsteer/replica/replicatest"
)

// What the exchange with another router does is shown; without one there are no such
// series.
func TestReplicas(t *testing.T) {
	assert.NotContains(t, newRig(t, rigConfig{engines: 1}).gather(), "kvsteer_replica_exchange_up")

	bus := replicatest.NewBus(replicatest.BusOptions{})
	r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{
		kvsteer.WithReplicas(bus.Join(), kvsteer.ReplicaOptions{Beat: time.Second}),
	}})
	r.eventually(func() bool { return r.value("kvsteer_replica_exchange_up") == 1 }, "it is up")
	other := bus.Join()
	id := r.router.Fleet().Snapshot().Members()[0].SharedID()
	r.eventually(func() bool {
		_ = other.Publish(t.Context(), &replica.Message{
			Version: replica.Version, Router: "other", Epoch: 5, Seq: uint64(time.Now().UnixNano()), Full: true,
			Loads: []replica.Load{{Instance: id, DecodeRequests: 3}},
			Bookings: []replica.Booking{
				{Instance: "nobody@1", Keys: nil, TTL: time.Second},
			},
		})
		got := r.gather()
		return sum(got["kvsteer_replica_peers"]) == 1 && sum(got["kvsteer_replica_peer_requests"]) == 3
	}, "a peer")
	assert.Positive(t, r.value("kvsteer_replica_messages_total", "result", "received"))
	assert.Positive(t, r.value("kvsteer_replica_prompts_total", "result", "unknown"))
	r.eventually(func() bool { return r.value("kvsteer_replica_peers_expired_total") >= 1 }, "it went without a word")
	bus.Cut(true)
	r.eventually(func() bool { return r.value("kvsteer_replica_exchange_up") == 0 }, "it is down")
}
