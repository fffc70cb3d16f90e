package simulate

import (
	"slices"
	"strconv"
	"time"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/replica"
)

// Exchange is what several routers tell each other, as the real ones do: what each has in
// flight on a worker once it has changed, all of it each second, and what it booked.
type Exchange struct {
	// On: they do. Else each has its own view and what engines report.
	On bool
	// Delay is how long a message takes to each of the others.
	Delay time.Duration
	// Loss is the share of them that never come, to each of the others apart, 0 to 1.
	Loss float64
}

// The router's own: picks within a moment are told together, ends are looked for now and
// then, and everything is told each beat.
const (
	moment = time.Millisecond
	look   = 10 * time.Millisecond
	beat   = time.Second
)

// exchanger is a router's side of the exchange.
type exchanger struct {
	table  *replica.Table // of what others said; nil if nobody says anything
	shares []work         // by worker
	// latest is when a prompt was last done, whosever it was, by worker.
	latest   []time.Duration
	seq      uint64
	dirty    []bool // workers on which something has changed since the last message
	bookings []replica.Booking
	keys     int // of all bookings
	// picked and looking: a message is going to be sent, because of a pick, or if
	// anything has ended.
	picked, looking bool

	rush steer.Rush
}

func newExchanger(c *cluster, number, workers int) exchanger {
	if !c.cfg.Exchange.On {
		return exchanger{}
	}
	return exchanger{
		table:  replica.NewTable(replica.TableOptions{Epoch: uint64(number) + 1}),
		shares: make([]work, workers), latest: make([]time.Duration, workers), dirty: make([]bool, workers),
	}
}

// peers is how many others are heard of.
func (x *exchanger) peers() int {
	if x.table == nil {
		return 0
	}
	return x.table.Len()
}

// share is what others say that they have on a worker.
func (x *exchanger) share(i int) work {
	if x.table == nil {
		return work{}
	}
	return x.shares[i]
}

// gone forgets what others have on a worker that went down: it is another instance.
func (x *exchanger) gone(i int) {
	if x.table != nil {
		x.shares[i] = work{}
	}
}

// tell sees to it that others hear of a worker.
func (r *router) tell(i int) {
	if r.table == nil {
		return
	}
	r.dirty[i] = true
	if !r.looking {
		r.looking = true
		r.cluster.agenda.plan(event{at: r.cluster.now + look, kind: tell, router: r})
	}
}

// tellOf sees to it that others hear soon of a prompt that was booked.
func (r *router) tellOf(i int, keys []kvcache.Key, ttl time.Duration) {
	if r.table == nil {
		return
	}
	// Of what doesn't fit, the beginning: it is what others' prompts share.
	if keys = keys[:min(len(keys), replica.MaxKeys-r.keys)]; len(keys) > 0 && len(r.bookings) < replica.MaxBookings {
		r.keys += len(keys)
		r.bookings = append(r.bookings, replica.Booking{Instance: r.cluster.instance(i), Keys: keys, TTL: ttl})
	}
	if !r.picked {
		r.picked = true
		r.cluster.agenda.plan(event{at: r.cluster.now + moment, kind: tell, router: r})
	}
}

// publish sends what has changed, or everything.
func (r *router) publish(full bool) {
	r.picked, r.looking = false, false
	if !full && len(r.bookings) == 0 && !slices.Contains(r.dirty, true) {
		return
	}
	r.seq++
	m := &replica.Message{
		Version: replica.Version, Router: "router-" + strconv.Itoa(r.number), Epoch: uint64(r.number) + 1, Seq: r.seq,
		Full: full, Bookings: r.bookings,
	}
	r.bookings, r.keys = nil, 0
	for i := range r.own {
		w := &r.own[i]
		if r.dirty[i] && !full || full && w.prefilling+w.decoding > 0 {
			m.Loads = append(m.Loads, r.load(i))
		}
		r.dirty[i] = false
	}
	c := r.cluster
	for _, to := range c.routers {
		if to == r || c.cfg.Exchange.Loss > 0 && c.losses.Float64() < c.cfg.Exchange.Loss {
			continue
		}
		c.agenda.plan(event{at: c.now + c.cfg.Exchange.Delay, kind: hear, router: to, message: m})
	}
}

func (r *router) load(i int) replica.Load {
	w := &r.own[i]
	l := replica.Load{
		Instance: r.cluster.instance(i), PrefillRequests: w.prefilling, PrefillTokens: w.tokens, PrefillPairs: w.pairs,
		DecodeRequests: w.decoding,
	}
	if w.prefilling > 0 {
		l.PrefillFor = r.cluster.now - w.since
	}
	return l
}

// hear takes in a message of another router.
func (r *router) hear(m *replica.Message) {
	c := r.cluster
	changed, err := r.table.Take(m, epoch.Add(c.now))
	if err != nil {
		return // late
	}
	r.shared(changed)
	if len(m.Bookings) > 0 {
		r.rush.Note(epoch.Add(c.now))
	}
	for i := range m.Bookings {
		b := &m.Bookings[i]
		if w, ok := c.workerOf(b.Instance); ok {
			r.index.Book(r.owners[w], b.Keys, b.TTL)
		}
	}
}

// beats tells everything, and forgets others that were not heard of for too long.
func (r *router) beats() {
	r.shared(r.table.Expire(epoch.Add(r.cluster.now)))
	r.publish(true)
}

// shared reads anew what others have at some places.
func (r *router) shared(places []replica.Place) {
	for _, p := range places {
		i, ok := r.cluster.workerOf(p.Instance)
		if !ok {
			continue
		}
		s := r.table.Share(p)
		if more := s.PrefillTokens - r.shares[i].tokens; more > 0 {
			r.unheard(i, more)
		}
		if s.PrefillRequests < r.shares[i].prefilling {
			r.latest[i] = r.cluster.now
		}
		r.shares[i] = work{prefilling: s.PrefillRequests, decoding: s.DecodeRequests, tokens: s.PrefillTokens, pairs: s.PrefillPairs}
		if s.PrefillRequests > 0 {
			r.shares[i].since = s.PrefillSince.Sub(epoch)
		}
		r.sum(i)
	}
}

// unheard notes that others have more tokens on a worker, for those of this router that
// were sent there before that was known. See fleet.Booking.Unheard.
func (r *router) unheard(i, tokens int) {
	for _, l := range r.cluster.workers[i].legs {
		if l.job.via == r && r.cluster.now-l.sent <= steer.Rushed {
			l.unheard += tokens
		}
	}
}

// done notes that one of this router's prompts is done on a worker.
func (r *router) done(i int) {
	if r.table != nil {
		r.latest[i] = r.cluster.now
	}
}

// begunAt is when a worker began with a prompt that is taken to be its oldest since then:
// not before the last one was done.
func (r *router) begunAt(i int, since time.Duration) time.Duration {
	if r.table == nil {
		return since
	}
	return max(since, r.latest[i])
}

// instance is a worker as routers name it to each other.
func (c *cluster) instance(i int) string {
	return strconv.Itoa(i) + "@" + strconv.Itoa(c.workers[i].life)
}

// workerOf is the worker that an instance is, if it still is.
func (c *cluster) workerOf(instance string) (i int, ok bool) {
	for i := range c.workers {
		if c.instance(i) == instance {
			return i, true
		}
	}
	return 0, false
}

// entrance is the router that a call comes to.
func (c *cluster) entrance() *router {
	if len(c.routers) == 1 {
		return c.routers[0]
	}
	if c.cfg.InTurn {
		c.turns++
		return c.routers[(c.turns-1)%len(c.routers)]
	}
	return c.routers[c.spread.IntN(len(c.routers))]
}
