package prometheus

import (
	prom "github.com/prometheus/client_golang/prometheus"
)

// LimitStore is how limits that several routers share in a store are doing. The Stats of a
// Limiter of tenancy/redis, a module that this one does not need, convert to it:
//
//	Options{LimitStore: func() LimitStore { return LimitStore(limiter.Stats()) }}
type LimitStore struct {
	// Running are requests under way, Waiting ends that the store is still to be told.
	Running, Waiting int
	// Without counts requests that were decided without the store, Expired those that it had
	// given up when their end was told, Dropped ends that were not told for want of room, Failed
	// those that it could not book.
	Without, Expired, Dropped, Failed uint64
	// Down is why the store isn't asked just now, nil if it is. Its text is not shown.
	Down error
}

// Carrier is what an exchange between routers has carried. The Stats of an Exchange of
// tenancy/redis convert to it, as with [LimitStore].
type Carrier struct {
	// Published are messages that the carrier has taken, Failed those that it has not.
	Published, Failed uint64
	// Received are messages of this version, one's own included. Malformed could not be
	// read, OtherVersion are of replicas that are newer or older.
	Received, Malformed, OtherVersion uint64
	// Lost is how often the connection ended by itself.
	Lost uint64
	// SentBytes and ReceivedBytes are those of the messages.
	SentBytes, ReceivedBytes uint64
}

// storeReadings are of what routers share: without the options for it there are no such
// series.
type storeReadings struct {
	up, running, waiting, requests reading
	messages, lost, bytes          reading
}

//nolint:gochecknoglobals // tables that nothing changes
var (
	storeNames   = [...]string{"without", "expired", "dropped", "failed"}
	carrierNames = [...]string{"published", "failed", "received", "malformed", "other version"}
	byteNames    = [...]string{"sent", "received"}
)

const storeSeries = 3 + len(storeNames) + len(carrierNames) + 1 + len(byteNames)

func (m *Metrics) newStore() storeReadings {
	return storeReadings{
		up:       m.gauge("kvsteer_limit_store_up", "1 while the store of shared limits is asked, 0 while it is down."),
		running:  m.gauge("kvsteer_limit_store_running_requests", "Requests of this router that the store has under way."),
		waiting:  m.gauge("kvsteer_limit_store_waiting_ends", "Ends of requests that the store is still to be told."),
		requests: m.total("kvsteer_limit_store_requests_total", "Requests that the store did not see as they were, by why.", "reason"),
		messages: m.total("kvsteer_replica_carrier_messages_total",
			"Messages that the carrier between routers was given and gave, by what became of them.", "result"),
		lost:  m.total("kvsteer_replica_carrier_lost_total", "Connections to the carrier that ended by themselves."),
		bytes: m.total("kvsteer_replica_carrier_bytes_total", "Bytes of messages, as they are encoded.", "direction"),
	}
}

func (m *Metrics) collectStore(ch chan<- prom.Metric) {
	g := &m.read.store
	if read := m.opts.LimitStore; read != nil {
		s := read()
		put(ch, g.up, yes(s.Down == nil))
		put(ch, g.running, s.Running)
		put(ch, g.waiting, s.Waiting)
		for i, n := range [len(storeNames)]uint64{s.Without, s.Expired, s.Dropped, s.Failed} {
			put(ch, g.requests, n, storeNames[i])
		}
	}
	if read := m.opts.Carrier; read != nil {
		s := read()
		for i, n := range [len(carrierNames)]uint64{s.Published, s.Failed, s.Received, s.Malformed, s.OtherVersion} {
			put(ch, g.messages, n, carrierNames[i])
		}
		put(ch, g.lost, s.Lost)
		for i, n := range [len(byteNames)]uint64{s.SentBytes, s.ReceivedBytes} {
			put(ch, g.bytes, n, byteNames[i])
		}
	}
}
