package kvsteer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/trtllm"
)

// residency ties workers to owners in the index: it joins and leaves them as the
// fleet changes, and runs a Follower for every event endpoint.
type residency struct {
	index    *kvcache.Index
	opts     *options
	proofs   *proofs
	replicas *replicas
	polls    *trtllm.Transport // of engines whose events are fetched

	// homes is copied on write under mu and read without a lock by every pick.
	homes atomic.Pointer[map[string]*residence]
	mu    sync.Mutex
	done  bool
	warm  *warm  // nil: no snapshot, or all of it was taken over
	stop  func() // unsubscribes from the fleet
}

// residence is what the router keeps for one worker instance. It is immutable
// but for what its followers and audits do.
type residence struct {
	owners    []kvcache.Owner // by rank
	followers []follower
	audits    []auditor  // by rank
	rooms     []room     // by rank
	silences  []*silence // by rank; ranks that share a stream share one
	// degradation says why the cache state is less than events would give, "" if
	// it isn't or if followers know.
	degradation string
	// said is that as decisions say it of an approximate cache.
	said string
	// warm: something was taken from a snapshot. lukewarm is degradation while no more
	// is known.
	warm     bool
	lukewarm string
}

// follower follows an endpoint that speaks of one rank, or of all if rank is -1.
type follower struct {
	*follow.Follower

	rank int
}

// resync has what is known of a rank read anew from its engine's events.
func (h *residence) resync(rank int) {
	for _, f := range h.followers {
		if f.rank == rank || f.rank < 0 {
			f.Resync()
		}
	}
}

// owner returns the rank's owner; the zero Owner, of which the index knows
// nothing, for a worker that was only just discovered.
func (h *residence) owner(rank int) kvcache.Owner {
	if h == nil || rank >= len(h.owners) {
		return kvcache.Owner{}
	}
	return h.owners[rank]
}

// suspected is what a rank is trusted as of which the index says t: what events prove does
// not lift the doubts of the audit.
func (h *residence) suspected(rank int, t kvcache.Trust) kvcache.Trust {
	if h == nil || rank >= len(h.audits) {
		return t
	}
	return h.audits[rank].lowers(t)
}

// trusted is suspected, and no more than that of a rank that is silent.
func (h *residence) trusted(rank int, t kvcache.Trust) kvcache.Trust {
	if t = h.suspected(rank, t); t != kvcache.Suspect && h.silent(rank) {
		t = min(t, kvcache.Approximate)
	}
	return t
}

// degraded says why the cache state of the worker, trusted as t says, is less than
// exact; "" where it isn't. doubt is the index's own reason. It is asked for each
// candidate of each decision and must not allocate.
func (h *residence) degraded(rank int, t kvcache.Trust, doubt string) string {
	switch {
	case h == nil:
		return "the worker was only just discovered"
	case t == kvcache.Suspect && rank < len(h.audits):
		return h.audits[rank].doubt()
	case h.degradation != "" && doubt == reasonWarm:
		return h.lukewarm
	case h.degradation != "":
		return h.degradation
	case h.silent(rank):
		return reasonSilent
	}
	for _, f := range h.followers {
		if p := f.Problem(); p != "" {
			return p
		}
	}
	if t == kvcache.Exact {
		return ""
	}
	return doubt
}

// says is a reason of degraded in a sentence. The usual one does not allocate.
func (h *residence) says(t kvcache.Trust, reason string) string {
	if h != nil && t == kvcache.Approximate && reason == h.degradation {
		return h.said
	}
	return meaning(t) + reason
}

// meaning says in words what a state of trust means for what is counted as cached.
func meaning(t kvcache.Trust) string {
	switch t {
	case kvcache.Blind:
		return "cache unknown: "
	case kvcache.Approximate:
		return "cache approximate: "
	case kvcache.Suspect:
		return "cache not counted on: "
	case kvcache.Resyncing:
		return "cache known in part, a lower bound: "
	default: // Exact: what is wrong has no consequence yet
		return "cache exact so far: "
	}
}

// lingerPolls bounds the time between two instances at one address.
const lingerPolls = 10 * time.Second

func newResidency(index *kvcache.Index, opts *options, p *proofs) *residency {
	r := &residency{
		index: index, opts: opts, proofs: p,
		// What a restarted engine says first may come to the Follower of the instance
		// that it was, and is for the one that takes its place.
		polls: &trtllm.Transport{Logger: opts.logger, Linger: lingerPolls},
	}
	r.homes.Store(&map[string]*residence{})
	return r
}

// watch subscribes to the fleet; members that are there already are joined
// before it returns.
func (r *residency) watch(f *fleet.Fleet) {
	r.add(f.Snapshot().Members()...)
	r.stop = f.Watch(r.onChange)
}

func (r *residency) of(instance string) *residence { return (*r.homes.Load())[instance] }

// onChange is called by the fleet, one call at a time.
func (r *residency) onChange(c fleet.Change) {
	defer r.reconcile(c.Snapshot)
	switch c.Kind {
	case fleet.Added:
		r.add(c.Member)
	case fleet.Removed:
		r.remove(c.Member.ID())
	case fleet.CacheLost:
		if h := r.of(c.Member.ID()); h != nil {
			for _, o := range h.owners {
				r.index.Clear(o)
			}
		}
	case fleet.Updated: // what it serves may have changed; health is read from the Snapshot
		r.proofs.serves(c.Member)
	default:
	}
}

// reconcile drops members that left before watch had subscribed: nobody reports
// them as removed.
func (r *residency) reconcile(s *fleet.Snapshot) {
	if len(*r.homes.Load()) <= len(s.Members()) {
		return
	}
	there := make(map[string]bool, len(s.Members()))
	for _, m := range s.Members() {
		there[m.ID()] = true
	}
	for id := range *r.homes.Load() {
		if !there[id] {
			r.remove(id)
		}
	}
}

// add joins members that were not joined before. What they serve is taken in again
// even so: that may have become known between the Snapshot that watch began with and
// the subscription, whose first word on the member is then all there ever is.
func (r *residency) add(members ...*fleet.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	var list []newcomer
	for _, m := range members {
		if r.of(m.ID()) == nil {
			list = append(list, newcomer{m, r.join(m)})
		}
	}
	if len(list) > 0 {
		r.warmUp(list)
		next := maps.Clone(*r.homes.Load())
		for _, n := range list {
			r.connect(n.m, n.h)
			r.vouch(n)
			next[n.m.ID()] = n.h
		}
		r.homes.Store(&next)
	}
	for _, n := range list {
		r.replicas.joined(n.m)
	}
	for _, m := range members {
		r.proofs.serves(m)
	}
}

func (r *residency) remove(id string) {
	r.replicas.left(id)
	r.mu.Lock()
	h := r.of(id)
	if h != nil {
		next := maps.Clone(*r.homes.Load())
		delete(next, id)
		r.homes.Store(&next)
	}
	r.mu.Unlock()
	if h != nil {
		r.proofs.left(id)
		r.leave(h) // waits for followers, whose hooks may call anything but Close
	}
}

func (r *residency) join(m *fleet.Member) *residence {
	h := &residence{}
	for range m.Ranks() {
		h.silences = append(h.silences, &silence{})
		o := r.index.Join(m.SharedID()) // as a snapshot for other routers must name it
		// What we book is known from the start; a Follower makes it better.
		r.index.SetTrust(o, kvcache.Approximate)
		h.owners = append(h.owners, o)
	}
	h.audits, h.rooms = make([]auditor, len(h.owners)), make([]room, len(h.owners))
	return h
}

// connect follows the worker's events, or says why there are none.
func (r *residency) connect(m *fleet.Member, h *residence) {
	w := m.Worker()
	switch {
	case len(w.Events) == 0:
		h.degradation = "the worker publishes no KV events"
	case r.opts.events == nil && !slices.ContainsFunc(w.Events, isPolled):
		h.degradation = "the router has no event transport (WithEvents)"
	default:
		r.follow(m, h)
	}
	h.said = meaning(kvcache.Approximate) + h.degradation
	h.lukewarm = h.degradation + "; what it holds was " + reasonWarm
}

// follow starts a Follower for each of the worker's event endpoints.
func (r *residency) follow(m *fleet.Member, h *residence) {
	w := m.Worker()
	logger := r.opts.logger
	if logger != nil {
		logger = logger.With(slog.String("worker", w.Name))
	}
	for i, ep := range w.Events {
		transport, decoder := r.opts.events, follow.Decoder(nil)
		if isPolled(ep) {
			transport, decoder = r.polls, &trtllm.Decoder{TokensPerBlock: w.BlockSize}
		}
		own := h.ownRank(w.Events, i)
		f, err := follow.Start(context.Background(), follow.Config{
			Transport: transport, Decoder: decoder, Endpoint: ep, Index: r.index, Owner: h.ownersOf(own),
			Now: r.opts.now, Logger: logger,
			OnTrust: func(c follow.Change) {
				rank := c.Rank
				if own >= 0 {
					rank = own
				}
				from, to := h.suspected(rank, c.From), h.suspected(rank, c.To)
				if from == to {
					return // doubted before and after
				}
				r.opts.hooks.onTrust(TrustChange{
					Worker: w.Name, Instance: m.ID(), Rank: c.Rank, From: from, To: to, Reason: string(c.Reason),
				})
			},
			OnResync: func() { r.reread(m, h, own) },
		})
		if err != nil {
			// A malformed address: the worker is usable, its events are not.
			h.degradation = "the event endpoint can't be followed: " + err.Error()
			if logger != nil {
				logger.Error("kvsteer: can't follow the events of a worker", slog.Any("error", err))
			}
			continue
		}
		h.followers = append(h.followers, follower{Follower: f, rank: own})
		if own < 0 {
			for rank := range h.silences {
				h.silences[rank] = h.silences[0]
			}
		}
	}
}

// ownRank returns the rank that endpoint i is of, -1 if it may speak of all. Where
// each rank has an endpoint of its own, the endpoint says whose events they are:
// the number in the batch is counted over the whole deployment and may be any.
// Where ranks share an endpoint, the batch's number is all there is.
func (h *residence) ownRank(endpoints []follow.Endpoint, i int) int {
	if len(endpoints) != len(h.owners) {
		return -1
	}
	own := i
	for _, ep := range endpoints {
		if ep.Rank != 0 { // given explicitly
			own = endpoints[i].Rank
		}
	}
	if own >= len(h.owners) {
		return -1
	}
	return own
}

// ownersOf maps the ranks that batches of an endpoint name to owners; own is the
// endpoint's rank, or -1.
func (h *residence) ownersOf(own int) func(rank int) (kvcache.Owner, bool) {
	return func(rank int) (kvcache.Owner, bool) {
		if own >= 0 {
			rank = own
		}
		if planted.RanksMixed {
			rank = 0
		}
		if rank < 0 || rank >= len(h.owners) {
			return kvcache.Owner{}, false
		}
		return h.owners[rank], true
	}
}

// isPolled reports whether an endpoint is polled over HTTP, as TensorRT-LLM's is,
// which needs no transport from the user.
func isPolled(ep follow.Endpoint) bool {
	scheme, _, _ := strings.Cut(ep.Events, "://")
	return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
}

func (r *residency) leave(h *residence) {
	for _, f := range h.followers {
		_ = f.Close() // it has nothing to report
	}
	for _, o := range h.owners {
		r.index.Leave(o)
	}
}

// close stops following everything.
func (r *residency) close() {
	r.stop()
	r.mu.Lock()
	r.done = true
	homes := *r.homes.Load()
	r.homes.Store(&map[string]*residence{})
	r.mu.Unlock()
	for id, h := range homes {
		r.proofs.left(id)
		r.leave(h)
	}
	_ = r.polls.Close() // always nil
}
