package kvsteer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/planted"
	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica"
)

// ReplicaOptions are the settings of [WithReplicas]. The zero value works.
type ReplicaOptions struct {
	// Name is what peers call this router in logs, metrics and consoles, at most 256
	// bytes: a pod's name, say. Empty means the start of its random epoch.
	Name string
	// Beat is how often everything in flight is told anew; what changes is told at once.
	// What a lost message did is mended by the next beat, and a peer is dead after
	// four of its own without a word: give all routers the same. 0 means 1 s; the least is
	// 10 ms.
	Beat time.Duration
	// MaxPeers bounds the other routers that are listened to. 0 means 64.
	MaxPeers int
}

const (
	defaultBeat = time.Second
	minBeat     = 10 * time.Millisecond
	// deadBeats without a word and a peer is dead: three may be lost or late.
	deadBeats = 4
	// gatherTold is for how long news are gathered into one message: about what a
	// message takes, so that it costs little, and a thousand picks a second are no
	// thousand messages.
	gatherTold = time.Millisecond
	// lookTold is how often ends of requests are looked for while there are any in
	// flight. Nobody waits for them as one does for picks.
	lookTold = 10 * time.Millisecond
)

// WithReplicas lets routers that send to the same workers know of each other's requests:
// what each has in flight, and which prompts it has just sent where. exchange carries
// it: tenancy/redis has one for Redis and Valkey, and replica/replicatest checks others.
//
// Without it, or while the exchange is down, a router knows of others' requests what
// workers' metrics say, which is seconds old and tells no lengths. Decisions say so.
// Only one router of a [fleet.Fleet] may have replicas. The router does not close
// exchange. Nil is as if there were no such option.
func WithReplicas(exchange replica.Exchange, o ReplicaOptions) Option {
	return optionFunc(func(opts *options) {
		if o.Beat <= 0 {
			o.Beat = defaultBeat
		}
		o.Beat = max(o.Beat, minBeat)
		opts.exchange, opts.replicas = exchange, o
	})
}

// replicas tells other routers of this one's work, and takes in theirs.
type replicas struct {
	router   *Router
	exchange replica.Exchange
	opts     ReplicaOptions
	epoch    uint64
	table    *replica.Table

	wake   chan struct{} // there is news
	outbox outbox
	link   link

	// sent is what was told last, by rank; seq the last message's number. Only the
	// goroutine that tells uses these two.
	sent map[replica.Place]fleet.InFlight
	seq  uint64
	all  atomic.Bool // the next message must be full

	// members by SharedID, with what the table has for them; guarded by mu.
	mu      sync.Mutex
	members map[string]*fleet.Member

	told, booked, unknown, cut atomic.Uint64
	stop                       context.Context //nolint:containedctx // ends what is being published when the router closes
	failing                    bool            // the last message was not taken; of the goroutine that tells

	rush steer.Rush // of picks, here and there
}

// outbox holds the prompts that are to be told of.
type outbox struct {
	mu   sync.Mutex
	list []replica.Booking
	keys int
}

// link is how the exchange is doing.
type link struct {
	hears, tells atomic.Bool
	mu           sync.Mutex
	problem      string
	since        time.Time
}

func newReplicas(r *Router, exchange replica.Exchange, o ReplicaOptions) *replicas {
	epoch := rand.Uint64() | 1 //nolint:gosec // tells processes apart, guards nothing; never 0
	if o.Name == "" {
		o.Name = r.run[:8]
	}
	p := &replicas{
		router: r, exchange: exchange, opts: o, epoch: epoch,
		table: replica.NewTable(replica.TableOptions{Epoch: epoch, Expiry: deadBeats * o.Beat, MaxPeers: o.MaxPeers}),
		wake:  make(chan struct{}, 1),
		sent:  map[replica.Place]fleet.InFlight{}, members: map[string]*fleet.Member{},
	}
	p.all.Store(true)
	p.link.problem, p.link.since = "not connected yet", r.opts.now()
	return p
}

// start runs what talks and listens until the router closes.
func (p *replicas) start(ctx context.Context) {
	p.stop = ctx
	p.router.wg.Go(func() { p.listen(ctx) })
	p.router.wg.Go(p.tell)
}

// joined and left follow the fleet: SharedIDs of messages stand for members.
func (p *replicas) joined(m *fleet.Member) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[m.SharedID()] = m
	for rank := range m.Ranks() {
		p.show(m, rank)
	}
}

func (p *replicas) left(id string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for shared, m := range p.members {
		if m.ID() == id { // else another has taken its place
			delete(p.members, shared)
		}
	}
}

// show makes what peers have on a rank visible to picks. p.mu is held, so that a later
// share is not overwritten by an earlier one.
func (p *replicas) show(m *fleet.Member, rank int) {
	s := p.table.Share(replica.Place{Instance: m.SharedID(), Rank: rank})
	m.SetPeers(rank, fleet.InFlight{
		PrefillRequests: s.PrefillRequests, PrefillTokens: s.PrefillTokens, PrefillPairs: s.PrefillPairs,
		PrefillSince: s.PrefillSince, DecodeRequests: s.DecodeRequests,
		OutputTokens: s.OutputTokens, ContextTokens: s.ContextTokens,
	})
}

func (p *replicas) showAll(places []replica.Place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range places {
		if m := p.members[at.Instance]; m != nil && at.Rank < m.Ranks() {
			p.show(m, at.Rank)
		}
	}
}

// listen takes in what peers say, and connects anew when the exchange breaks off.
func (p *replicas) listen(ctx context.Context) {
	const first, most = 100 * time.Millisecond, 5 * time.Second
	pause := first
	for ctx.Err() == nil {
		err := p.receive(ctx, func() {
			pause = first
			p.link.hears.Store(true)
			p.heal()
			p.tellAll() // and hear from the others who did not know of us
		})
		if ctx.Err() != nil {
			return
		}
		p.link.hears.Store(false)
		p.trouble("listening to other routers", err)
		if planted.ListenGivesUp {
			return
		}
		// Not all routers at once when the exchange comes back.
		wait := pause/2 + rand.N(pause) //nolint:gosec // spreads, guards nothing
		pause = min(2*pause, most)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// receive is one connection's life.
func (p *replicas) receive(ctx context.Context, subscribed func()) error {
	return p.exchange.Receive(ctx, subscribed, p.take)
}

// take takes in one message.
func (p *replicas) take(m *replica.Message) {
	if m == nil {
		return
	}
	known := p.table.Len()
	changed, err := p.table.Take(m, p.router.opts.now())
	p.showAll(changed)
	if err == nil || err == replica.ErrLate { //nolint:errorlint // Take returns it bare
		p.book(m.Bookings)
	}
	if p.table.Len() > known {
		p.tellAll() // one that has just come wants to know what we have
		if l := p.router.opts.logger; l != nil {
			l.Info("kvsteer: another router is there", slog.String("name", m.Router), slog.Int("peers", p.table.Len()))
		}
	}
	if len(changed) > 0 {
		p.router.freed() // those that wait may find somebody free
	}
}

// book takes in the prompts that a peer has sent somewhere.
func (p *replicas) book(list []replica.Booking) {
	if len(list) > 0 {
		p.rush.Note(p.router.opts.now())
	}
	for i := range list {
		b := &list[i]
		p.mu.Lock()
		m := p.members[b.Instance]
		p.mu.Unlock()
		var home *residence
		if m != nil {
			home = p.router.residency.of(m.ID())
		}
		owner := home.owner(b.Rank)
		if owner == (kvcache.Owner{}) {
			p.unknown.Add(1) // not discovered here, or not any more
			continue
		}
		most := p.router.opts.approxTTL
		if len(home.followers) > 0 {
			most = p.router.opts.bookTTL // here events tell, whatever its sender has to go by
		}
		p.router.index.Book(owner, b.Keys, min(b.TTL, most))
		p.booked.Add(1)
	}
}

// crowd tells a choice that others choose, too.
func (p *replicas) crowd(round *steer.Round, now time.Time) {
	if p != nil {
		round.Peers, round.Rush = p.table.Len(), p.rush.On(now)
	}
}

// sends notes a prompt that was sent to a rank of m, to be told to the others.
func (p *replicas) sends(m *fleet.Member, rank int, keys []kvcache.Key, ttl time.Duration) {
	if p == nil {
		return
	}
	defer p.nudge()
	p.rush.Note(p.router.opts.now())
	if len(keys) == 0 || ttl <= 0 || len(m.SharedID()) > replica.MaxName || rank > replica.MaxRank {
		return // what can't be named is not told, see news
	}
	o := &p.outbox
	o.mu.Lock()
	defer o.mu.Unlock()
	// Of what doesn't fit, the beginning: it is what others' prompts share.
	if room := replica.MaxKeys - o.keys; len(keys) > room || len(o.list) >= replica.MaxBookings {
		p.cut.Add(1)
		if keys = keys[:min(len(keys), room)]; len(keys) == 0 || len(o.list) >= replica.MaxBookings {
			return // their events will tell
		}
	}
	o.keys += len(keys)
	o.list = append(o.list, replica.Booking{
		Instance: m.SharedID(), Rank: rank, Keys: slices.Clone(keys), TTL: min(ttl, replica.MaxTime),
	})
}

func (o *outbox) empty() []replica.Booking {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list, o.keys = nil, 0
	return list
}

// tellAll has the next message, soon, be a full one.
func (p *replicas) tellAll() {
	p.all.Store(true)
	p.nudge()
}

func (p *replicas) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake
	}
}

// healthy reports whether the exchange works in both directions.
func (p *replicas) healthy() bool { return p.link.hears.Load() && p.link.tells.Load() }

// degraded adds to a decision's degradations what the exchange does to it.
func (p *replicas) degraded(list []string) []string {
	if p == nil || p.healthy() {
		return list
	}
	return append(list, reasonAlone)
}

const reasonAlone = "the exchange with other routers is down: what they send is known by workers' metrics and events only"

// heal forgets the trouble once both directions work.
func (p *replicas) heal() {
	if !p.healthy() {
		return
	}
	p.link.mu.Lock()
	was := p.link.problem
	p.link.problem, p.link.since = "", p.router.opts.now()
	p.link.mu.Unlock()
	if l := p.router.opts.logger; l != nil && was != "" {
		l.Info("kvsteer: the exchange with other routers works", slog.String("name", p.opts.Name))
	}
}

func (p *replicas) trouble(doing string, err error) {
	what := doing + ": the connection ended"
	if err != nil {
		what = doing + ": " + err.Error()
	}
	p.link.mu.Lock()
	was := p.link.problem
	if p.link.problem = what; was == "" {
		p.link.since = p.router.opts.now()
	}
	p.link.mu.Unlock()
	if l := p.router.opts.logger; l != nil && was == "" {
		l.Warn("kvsteer: the exchange with other routers is down", slog.String("problem", what))
	}
}

// ReplicaStats is how the exchange between routers is doing; see [WithReplicas].
type ReplicaStats struct {
	// Name and Epoch are this router's.
	Name  string
	Epoch uint64
	// Up: the exchange works in both directions. Problem says what is wrong, or was last
	// found to be, and Since when that or the health began.
	Up      bool
	Problem string
	Since   time.Time
	// Peers are the routers that were heard of lately.
	Peers []replica.Peer
	// Told counts messages sent, Booked peers' prompts taken in, Unknown those for
	// workers that this router does not know, Cut prompts and ranks of ours that did not fit
	// whole into a message.
	Told, Booked, Unknown, Cut uint64
	// Counts is about messages received.
	replica.Counts
}

func (p *replicas) stats() *ReplicaStats {
	if p == nil {
		return nil
	}
	p.link.mu.Lock()
	problem, since := p.link.problem, p.link.since
	p.link.mu.Unlock()
	return &ReplicaStats{
		Name: p.opts.Name, Epoch: p.epoch, Up: p.healthy(), Problem: problem, Since: since, Peers: p.table.Peers(),
		Told: p.told.Load(), Booked: p.booked.Load(), Unknown: p.unknown.Load(), Cut: p.cut.Load(), Counts: p.table.Counts(),
	}
}

// together is what all routers that we know of have in flight on a rank.
func together(load *fleet.Pressure) fleet.InFlight {
	all := load.InFlight
	p := &load.Peers
	if p.Requests == 0 {
		return all
	}
	all.Requests += p.Requests
	all.DecodeRequests += p.DecodeRequests
	if p.PrefillRequests > 0 && (all.PrefillRequests == 0 || p.PrefillSince.Before(all.PrefillSince)) {
		all.PrefillSince = p.PrefillSince
	}
	all.PrefillRequests += p.PrefillRequests
	all.PrefillTokens += p.PrefillTokens
	all.PrefillPairs += p.PrefillPairs
	all.OutputTokens += p.OutputTokens
	all.ContextTokens += p.ContextTokens
	return all
}
