package replicatest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/replica"
)

// What a [Bus] answers.
var (
	// ErrCut: the connection is cut; see [Bus.Cut].
	ErrCut = errors.New("replicatest: the connection is cut")
	// ErrSlow: who receives is so slow that messages were lost.
	ErrSlow = errors.New("replicatest: more messages wait than the bus holds; they were dropped")
	// ErrReceiving: an end receives already, and does so once at a time.
	ErrReceiving = errors.New("replicatest: a Receive is running already")
)

// BusOptions are for [NewBus]. The zero value delivers everything once, in order, at once.
type BusOptions struct {
	// Seed is that of the faults. With one goroutine that publishes they are the same
	// again for the same seed.
	Seed uint64
	// Drop, Duplicate and Reorder are shares, from 0 to 1, of the deliveries: of one message to
	// one end. One that is reordered is held back until the next one has overtaken it.
	Drop, Duplicate, Reorder float64
	// Delay draws how long a delivery takes; nil is no time. Deliveries that take
	// differently long overtake one another. It is called under the bus's lock.
	Delay func(*rand.Rand) time.Duration
	// Buffer is how many messages may wait for a slow end before it is cut off, with
	// [ErrSlow]. 0 means 4096.
	Buffer int
}

// Bus connects routers in one process, as a message broker would: an end hears what is
// published while it receives, its own messages too, and nothing of before. What it hears
// is a deep copy. A Bus has no goroutines: nothing is to be closed. Safe for concurrent
// use.
type Bus struct {
	mu    sync.Mutex
	opts  BusOptions
	rng   *rand.Rand
	peers []*Peer
	cut   bool
	stats BusStats
}

// BusStats count deliveries: of one message to one end.
type BusStats struct {
	// Published are messages; the others are of deliveries.
	Published uint64
	// Delivered were handed over. Dropped, Duplicated and Reordered are those of the
	// faults; Overflowed found the Buffer full.
	Delivered, Dropped, Duplicated, Reordered, Overflowed uint64
}

// NewBus returns a Bus without ends.
func NewBus(o BusOptions) *Bus {
	if o.Buffer <= 0 {
		o.Buffer = 4096
	}
	return &Bus{opts: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6b767374656572))}
}

// Join returns a new end. Ends live as long as the Bus.
func (b *Bus) Join() *Peer {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &Peer{bus: b, wake: make(chan struct{}, 1)}
	b.peers = append(b.peers, p)
	return p
}

// Cut takes the whole bus away, or gives it back: while it is away Publish and Receive
// fail with [ErrCut], and who receives is told at once. What was under way is lost.
func (b *Bus) Cut(yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = yes
	for _, p := range b.peers {
		p.breakOff(yes)
	}
}

// Faults replaces the shares and the Delay from now on. Seed and Buffer stay.
func (b *Bus) Faults(o BusOptions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opts.Drop, b.opts.Duplicate, b.opts.Reorder, b.opts.Delay = o.Drop, o.Duplicate, o.Reorder, o.Delay
}

// Stats returns what has happened so far.
func (b *Bus) Stats() BusStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stats
}

// send gives a message to all ends; under mu.
func (b *Bus) send(from *Peer, m *replica.Message) {
	b.stats.Published++
	for _, p := range b.peers {
		if !p.receiving || p.err != nil {
			continue
		}
		if from.silent || p.silent || b.rng.Float64() < b.opts.Drop {
			b.stats.Dropped++
			continue
		}
		times := 1
		if b.rng.Float64() < b.opts.Duplicate {
			b.stats.Duplicated++
			times++
		}
		for range times {
			due := time.Now()
			if b.opts.Delay != nil {
				due = due.Add(b.opts.Delay(b.rng))
			}
			d := delivery{due: due, message: clone(m)}
			if p.held == nil && b.rng.Float64() < b.opts.Reorder {
				b.stats.Reordered++
				p.held = &d
				continue
			}
			p.put(d)
			if held := p.held; held != nil {
				p.held = nil
				held.due = later(held.due, d.due)
				p.put(*held)
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Peer is one router's end of a [Bus]: a [replica.Exchange]. Safe for concurrent use.
type Peer struct {
	bus *Bus
	// wake has something in it if queue, err or cut have changed.
	wake chan struct{}

	// The rest is under the bus's mu.
	receiving, cut, silent bool
	err                    error // why the Receive that runs must end
	held                   *delivery
	queue                  []delivery // by due; of equal ones the first published is first
}

type delivery struct {
	due     time.Time
	message *replica.Message
}

var _ replica.Exchange = (*Peer)(nil)

// Cut is [Bus.Cut] for this end only.
func (p *Peer) Cut(yes bool) {
	p.bus.mu.Lock()
	defer p.bus.mu.Unlock()
	p.cut = yes
	p.breakOff(yes)
}

// Silence loses everything that comes from or goes to this end, or ends that. Nobody is
// told: Publish and Receive go on as if all were well.
func (p *Peer) Silence(yes bool) {
	p.bus.mu.Lock()
	defer p.bus.mu.Unlock()
	p.silent = yes
}

func (p *Peer) breakOff(yes bool) {
	if yes && p.receiving {
		p.fail(ErrCut)
	}
}

func (p *Peer) fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.queue, p.held = nil, nil
	p.nudge()
}

func (p *Peer) nudge() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Peer) put(d delivery) {
	if p.err != nil {
		return
	}
	if len(p.queue) >= p.bus.opts.Buffer {
		p.bus.stats.Overflowed += uint64(len(p.queue)) + 1
		p.fail(ErrSlow)
		return
	}
	i := len(p.queue)
	for i > 0 && p.queue[i-1].due.After(d.due) {
		i--
	}
	p.queue = slices.Insert(p.queue, i, d)
	p.nudge()
}

// Publish implements replica.Exchange. It refuses a message that is beyond the bounds.
func (p *Peer) Publish(ctx context.Context, m *replica.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return err
	}
	p.bus.mu.Lock()
	defer p.bus.mu.Unlock()
	if p.cut || p.bus.cut {
		return ErrCut
	}
	p.bus.send(p, m)
	return nil
}

// Receive implements replica.Exchange.
func (p *Peer) Receive(ctx context.Context, subscribed func(), deliver func(*replica.Message)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.begin(); err != nil {
		return err
	}
	defer p.end()
	if subscribed != nil {
		subscribed()
	}
	for {
		m, wait, err := p.next()
		if err != nil {
			return err
		}
		if m != nil {
			deliver(m)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if err := p.await(ctx, wait); err != nil {
			return err
		}
	}
}

// await waits until something has changed, for so long at most if wait is not 0.
func (p *Peer) await(ctx context.Context, wait time.Duration) error {
	var due <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		due = t.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-p.wake:
	case <-due:
	}
	return nil
}

func (p *Peer) begin() error {
	p.bus.mu.Lock()
	defer p.bus.mu.Unlock()
	switch {
	case p.receiving:
		return ErrReceiving
	case p.cut || p.bus.cut:
		return ErrCut
	}
	p.receiving, p.err, p.queue, p.held = true, nil, nil, nil
	return nil
}

func (p *Peer) end() {
	p.bus.mu.Lock()
	defer p.bus.mu.Unlock()
	p.receiving, p.err, p.queue, p.held = false, nil, nil, nil
}

// next returns the message that is due, or for how long none is: 0 if none is under way.
func (p *Peer) next() (*replica.Message, time.Duration, error) {
	p.bus.mu.Lock()
	defer p.bus.mu.Unlock()
	if p.err != nil || len(p.queue) == 0 {
		return nil, 0, p.err
	}
	d := p.queue[0]
	if wait := time.Until(d.due); wait > 0 {
		return nil, wait, nil
	}
	p.queue = slices.Delete(p.queue, 0, 1)
	p.bus.stats.Delivered++
	return d.message, 0, nil
}

func clone(m *replica.Message) *replica.Message {
	c := *m
	c.Loads = slices.Clone(m.Loads)
	c.Bookings = slices.Clone(m.Bookings)
	for i := range c.Bookings {
		c.Bookings[i].Keys = slices.Clone(c.Bookings[i].Keys)
	}
	return &c
}
