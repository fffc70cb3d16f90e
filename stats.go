package kvsteer

import (
	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Stats are figures of a Router at one moment, for metrics. Those of different parts are
// read one after the other.
type Stats struct {
	// InFlight counts the Selections that have not ended, Waiting the requests that wait for
	// a worker by [WithQueue], of which there may be MaxWaiting (0 without it), Lingering
	// those that wait because the policy says so.
	InFlight, Waiting, MaxWaiting, Lingering int
	// Index is what is known of caches, Prompts how prompts became token ids.
	Index   kvcache.Stats
	Prompts prompt.Stats
	// Caches has one entry for each worker of the fleet, by name. One that has only just
	// been discovered has no Ranks.
	Caches []CacheStats
	// Replicas is nil without [WithReplicas].
	Replicas *ReplicaStats
}

// CacheStats says what is known of the cache of one worker's instance.
type CacheStats struct {
	Worker, Instance string
	// Ranks has an entry for each data-parallel rank, in order. Trust is no more than what
	// decisions go by, and TrustReason says why it is less than exact, as theirs does.
	Ranks []kvcache.OwnerStats
	// Silent is set while requests complete and one of the engine's ranks announces nothing
	// that it has computed: its stream stands, and stands still.
	Silent bool
	// Streams has an entry for each event endpoint that is followed.
	Streams []follow.Stats
}

// Stats returns the figures. It takes each lock of the index for a moment, once for each
// rank: call it every few seconds, not for each request.
func (r *Router) Stats() Stats {
	out := Stats{
		InFlight: r.InFlight(), Waiting: r.Waiting(), Lingering: int(r.lingering.Load()),
		Index: r.index.Stats(), Prompts: r.encoder.Stats(), Replicas: r.replicas.stats(),
	}
	if r.queue != nil {
		out.MaxWaiting = r.queue.opts.MaxWaiting
	}
	members := r.fleet.Snapshot().Members()
	out.Caches = make([]CacheStats, len(members))
	for i, m := range members {
		c := &out.Caches[i]
		c.Worker, c.Instance = m.Name(), m.ID()
		h := r.residency.of(m.ID())
		if h == nil {
			continue
		}
		for rank, o := range h.owners {
			c.Silent = c.Silent || h.silent(rank)
			st := r.index.OwnerStats(o)
			st.Trust = h.trusted(rank, st.Trust)
			st.TrustReason = h.degraded(rank, st.Trust, st.TrustReason)
			c.Ranks = append(c.Ranks, st)
		}
		for _, f := range h.followers {
			c.Streams = append(c.Streams, f.Stats())
		}
	}
	return out
}

// Fleet returns the fleet that the router routes to.
func (r *Router) Fleet() *fleet.Fleet { return r.fleet }
