package replica

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// Place is a rank of a worker instance, as messages name it.
type Place struct {
	Instance string
	Rank     int
}

// Share is what peers have in flight on one place, all together.
type Share struct {
	PrefillRequests int
	PrefillTokens   int
	PrefillPairs    int64
	// PrefillSince is when the oldest of PrefillRequests began, by our clock; zero without.
	PrefillSince   time.Time
	DecodeRequests int
	OutputTokens   int
	ContextTokens  int
}

// TableOptions are the settings of a [Table].
type TableOptions struct {
	// Epoch is our own: messages that carry it are our own and come back.
	Epoch uint64
	// Expiry is after how long without a message a peer is taken for dead, and its share
	// dropped. 0 means 4 s.
	Expiry time.Duration
	// MaxPeers bounds the peers that are held. 0 means 64. Messages of more are refused.
	MaxPeers int
}

const (
	defaultExpiry   = 4 * time.Second
	defaultMaxPeers = 64
)

// Table holds what each peer has said last. It is safe for concurrent use.
type Table struct {
	opts TableOptions

	mu     sync.Mutex
	peers  map[uint64]*peer // by epoch
	gone   map[uint64]time.Time
	counts Counts
}

type peer struct {
	name  string
	epoch uint64
	heard time.Time
	last  uint64 // the highest Seq
	full  uint64 // Seq of the last full message
	loads map[Place]told
}

type told struct {
	Load

	seq   uint64
	since time.Time // PrefillSince
}

// Counts are what a Table has taken in and refused since it was made.
type Counts struct {
	// Received counts messages taken in, Own those of ours that came back.
	Received, Own uint64
	// Lost counts numbers that were passed over; Late counts messages that came after a
	// later one, or twice. So Lost less Late is how many never came, as far as can be told.
	Late, Lost uint64
	// Foreign counts messages of another Version, Refused those beyond the bounds or of
	// more peers than are held, Expired peers that went without a word.
	Foreign, Refused, Expired uint64
}

// Errors of [Table.Take], for whoever counts or logs. None of them is a reason to stop.
var (
	// ErrOwn: the message is our own.
	ErrOwn = errors.New("replica: our own message")
	// ErrLate: a later message has said it already.
	ErrLate = errors.New("replica: the message is out of date")
	// ErrVersion: the peer runs another version of the protocol. Update it, or this one.
	ErrVersion = errors.New("replica: message of another version")
	// ErrPeers: there are more routers than [TableOptions] allows for.
	ErrPeers = errors.New("replica: too many peers")
)

// NewTable returns an empty Table.
func NewTable(opts TableOptions) *Table {
	if opts.Expiry <= 0 {
		opts.Expiry = defaultExpiry
	}
	if opts.MaxPeers < 1 {
		opts.MaxPeers = defaultMaxPeers
	}
	return &Table{opts: opts, peers: map[uint64]*peer{}, gone: map[uint64]time.Time{}}
}

// Take takes in a message that arrived at time now and returns the places whose Share
// may have changed, also beside an error. The Bookings are for the caller, if the error is
// nil or ErrLate: prompts that were sent are no less sent for being told late.
func (t *Table) Take(m *Message, now time.Time) ([]Place, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch err := t.check(m, now); {
	case errors.Is(err, ErrOwn):
		t.counts.Own++
		return nil, err
	case errors.Is(err, ErrVersion):
		t.counts.Foreign++
		return nil, err
	case errors.Is(err, ErrLate):
		t.counts.Late++
		return nil, err
	case err != nil:
		t.counts.Refused++
		return nil, err
	}
	p := t.peers[m.Epoch]
	if p == nil {
		p = &peer{name: m.Router, epoch: m.Epoch, last: m.Seq - 1, loads: map[Place]told{}}
		t.peers[m.Epoch] = p
	}
	t.counts.Received++
	p.heard = now
	if m.Bye && !planted.PeerShareStays {
		return t.drop(p, now), nil
	}
	t.number(p, m.Seq)
	if m.Seq <= p.full {
		return nil, ErrLate
	}
	changed := p.take(m, now)
	if len(p.loads) > 2*MaxLoads {
		// It names ever more and never says what is left of them: no router does so.
		t.counts.Refused++
		return append(changed, t.drop(p, now)...), fmt.Errorf("%w: %q names %d ranks without a full message", ErrBounds, m.Router, len(p.loads))
	}
	return changed, nil
}

func (t *Table) check(m *Message, now time.Time) error {
	switch {
	case m.Version != Version:
		return fmt.Errorf("%w: %d, this is %d", ErrVersion, m.Version, Version)
	case m.Epoch == t.opts.Epoch:
		return ErrOwn
	default:
	}
	if err := m.Check(); err != nil {
		return err
	}
	if at, left := t.gone[m.Epoch]; left {
		if now.Sub(at) < t.opts.Expiry {
			return ErrLate // said before its Bye, or delayed by longer than a peer lives
		}
		delete(t.gone, m.Epoch)
	}
	if t.peers[m.Epoch] == nil && len(t.peers) >= t.opts.MaxPeers {
		return fmt.Errorf("%w: %d, and %q is one more", ErrPeers, t.opts.MaxPeers, m.Router)
	}
	return nil
}

// number counts the messages that did not come, and those that came after others.
func (t *Table) number(p *peer, seq uint64) {
	if seq <= p.last {
		t.counts.Late++
		return
	}
	t.counts.Lost += seq - p.last - 1
	p.last = seq
}

func (p *peer) take(m *Message, now time.Time) []Place {
	changed := make([]Place, 0, len(m.Loads))
	for i := range m.Loads {
		l := &m.Loads[i]
		at := Place{l.Instance, l.Rank}
		if old, ok := p.loads[at]; ok && old.seq > m.Seq {
			continue // what came in between is newer
		}
		// Zeros stay until the next full message: they may be newer than what comes late.
		entry := told{Load: *l, seq: m.Seq}
		if l.PrefillRequests > 0 {
			entry.since = now.Add(-l.PrefillFor)
		}
		p.loads[at] = entry
		changed = append(changed, at)
	}
	if !m.Full {
		return changed
	}
	p.full = m.Seq
	for at, entry := range p.loads {
		if entry.seq < m.Seq {
			delete(p.loads, at)
			changed = append(changed, at)
		}
	}
	return changed
}

// drop forgets a peer; what is still under way from it is ignored.
func (t *Table) drop(p *peer, now time.Time) []Place {
	delete(t.peers, p.epoch)
	for epoch, at := range t.gone {
		if now.Sub(at) >= t.opts.Expiry {
			delete(t.gone, epoch)
		}
	}
	if len(t.gone) < 4*t.opts.MaxPeers {
		t.gone[p.epoch] = now
	}
	changed := make([]Place, 0, len(p.loads))
	for at := range p.loads {
		changed = append(changed, at)
	}
	return changed
}

// Expire drops the peers that were not heard of for too long, and returns the places
// that they had a share of. One that comes back is taken in again by its next message.
func (t *Table) Expire(now time.Time) []Place {
	t.mu.Lock()
	defer t.mu.Unlock()
	var changed []Place
	for epoch, p := range t.peers {
		if now.Sub(p.heard) < t.opts.Expiry || planted.PeerShareStays {
			continue
		}
		t.counts.Expired++
		delete(t.peers, epoch)
		for at := range p.loads {
			changed = append(changed, at)
		}
	}
	return changed
}

// Share returns what all peers have in flight at a place.
func (t *Table) Share(at Place) Share {
	t.mu.Lock()
	defer t.mu.Unlock()
	var s Share
	for _, p := range t.peers {
		if e, ok := p.loads[at]; ok {
			s.add(&e)
		}
	}
	return s
}

func (s *Share) add(e *told) {
	s.PrefillRequests = sum(s.PrefillRequests, e.PrefillRequests)
	s.PrefillTokens = sum(s.PrefillTokens, e.PrefillTokens)
	s.PrefillPairs = min(s.PrefillPairs+e.PrefillPairs, MaxPairs)
	s.DecodeRequests = sum(s.DecodeRequests, e.DecodeRequests)
	s.OutputTokens = sum(s.OutputTokens, e.OutputTokens)
	s.ContextTokens = sum(s.ContextTokens, e.ContextTokens)
	if e.PrefillRequests > 0 && (s.PrefillSince.IsZero() || e.since.Before(s.PrefillSince)) {
		s.PrefillSince = e.since
	}
}

// sum stops at the greatest amount: on 32 bits a sum of two may not fit.
func sum(a, b int) int {
	if a > MaxAmount-b {
		return MaxAmount
	}
	return a + b
}

// Peer is one peer as a Table knows it.
type Peer struct {
	Name  string
	Epoch uint64
	// Heard is when its last message came, by our clock.
	Heard time.Time
	// Requests is what it has in flight, on Places ranks.
	Requests, Places int
}

// Peers lists the peers by name, then epoch.
func (t *Table) Peers() []Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]Peer, 0, len(t.peers))
	for _, p := range t.peers {
		of := Peer{Name: p.name, Epoch: p.epoch, Heard: p.heard}
		for _, e := range p.loads {
			if !e.Zero() {
				of.Requests += e.PrefillRequests + e.DecodeRequests
				of.Places++
			}
		}
		list = append(list, of)
	}
	slices.SortFunc(list, func(a, b Peer) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Epoch, b.Epoch))
	})
	return list
}

// Len is the number of peers.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.peers)
}

// Counts returns the counters.
func (t *Table) Counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.counts
}
