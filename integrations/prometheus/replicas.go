package prometheus

import (
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/kvsteer/kvsteer"
)

// replicaReadings are of the exchange with other routers. Without kvsteer.WithReplicas
// there are no such series.
type replicaReadings struct {
	up, peers, requests, expired reading
	messages, prompts            reading
}

//nolint:gochecknoglobals // tables that nothing changes
var (
	exchangeNames = [...]string{"told", "received", "own", "late", "lost", "foreign", "refused"}
	promptNames   = [...]string{"booked", "unknown", "cut"}
)

const replicaSeries = 4 + len(exchangeNames) + len(promptNames)

func (m *Metrics) newReplicas() replicaReadings {
	return replicaReadings{
		up:       m.gauge("kvsteer_replica_exchange_up", "1 while messages between routers go both ways, else 0."),
		peers:    m.gauge("kvsteer_replica_peers", "Other routers that were heard of lately."),
		requests: m.gauge("kvsteer_replica_peer_requests", "Requests that they have in flight, as they said last."),
		expired:  m.total("kvsteer_replica_peers_expired_total", "Routers that went without a word; what they had in flight was dropped."),
		messages: m.total("kvsteer_replica_messages_total", "Messages between routers, by what became of them.", "result"),
		prompts:  m.total("kvsteer_replica_prompts_total", "Prompts that routers told each other of, by what became of them.", "result"),
	}
}

func (m *Metrics) collectReplicas(s *kvsteer.ReplicaStats, ch chan<- prom.Metric) {
	if s == nil {
		return
	}
	g, up, requests := &m.read.replicas, 0, 0
	if s.Up {
		up = 1
	}
	for i := range s.Peers {
		requests += s.Peers[i].Requests
	}
	put(ch, g.up, up)
	put(ch, g.peers, len(s.Peers))
	put(ch, g.requests, requests)
	put(ch, g.expired, s.Expired)
	for i, n := range [len(exchangeNames)]uint64{s.Told, s.Received, s.Own, s.Late, s.Lost, s.Foreign, s.Refused} {
		put(ch, g.messages, n, exchangeNames[i])
	}
	for i, n := range [len(promptNames)]uint64{s.Booked, s.Unknown, s.Cut} {
		put(ch, g.prompts, n, promptNames[i])
	}
}
