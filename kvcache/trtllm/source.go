package trtllm

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

const (
	// maxRanks bounds the data-parallel ranks of one address.
	maxRanks = 1024
	// maxUnclaimed bounds, in bytes, what is kept for a rank before somebody
	// connects to it: ranks are dialled one after the other.
	maxUnclaimed = 8 << 20
	// youth is how long after the start of an engine its events are kept for the
	// next connection: a restart is noticed within that time.
	youth = time.Minute
)

// source polls one address for all of its ranks. Its goroutine ends with the last
// connection, or Linger after it, or when polls keep failing.
type source struct {
	t        *Transport
	url      string
	client   *http.Client
	patience time.Duration
	cancel   context.CancelFunc
	done     chan struct{} // closed when run has returned

	malformed, foreign atomic.Int64

	// These belong to run's goroutine.
	method string
	warned bool // of foreign ranks

	mu sync.Mutex // locked after Transport.mu
	// up: a poll has been answered; until then fault is why the latest was not,
	// and changed is closed when either changes.
	up      bool
	fault   error
	changed chan struct{}

	conns int
	lanes map[int]*lane
	// linger ends the source unless somebody connects; nil while somebody is.
	linger *time.Timer
	over   bool // it was told to end
}

// lane is one rank's part of the stream. source.mu guards it.
type lane struct {
	conn  *conn // nil while nobody has claimed it
	born  time.Time
	queue []item
	bytes int64 // of the queue, as they came
	// broken ends the lane once the queue is empty.
	broken error

	numbered bool   // last is set
	last     uint64 // the latest event's id
	epoch    int64
	doubt    time.Time // since when events may be missing unnoticed; zero: they can't

	// young are the events since the engine's start; nil if it is not known what they
	// all are, or they are not kept any more.
	young *young
	// handed: the young events are for the next connection. They become its queue with
	// the first poll that shows that the engine has not restarted since.
	handed bool
}

// item is an event to be received, and how many bytes it came in. It shares no
// memory with its answer, which may be as large as MaxReply.
type item struct {
	follow.Message
	size int64
}

// newSource starts to poll.
func newSource(t *Transport, url string) *source {
	s := &source{
		t: t, url: url, method: http.MethodPost,
		patience: orDefault(t.Patience, DefaultPatience),
		lanes:    make(map[int]*lane), done: make(chan struct{}), changed: make(chan struct{}),
	}
	if t.Client == nil {
		s.client = newClient()
	} else {
		s.client = staying(t.Client)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx)
	return s
}

// connect claims a rank's events. t.mu is held, so that the source doesn't end
// meanwhile.
func (s *source) connect(rank int) (*conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(rank)
	if l.conn != nil {
		return nil, ErrConsumed
	}
	if l.broken != nil { // while nobody was connected
		delete(s.lanes, rank)
		l = s.lane(rank)
	}
	if s.linger != nil {
		s.linger.Stop()
		s.linger = nil
	}
	c := &conn{source: s, rank: rank, lane: l, wake: make(chan struct{}, 1), closed: make(chan struct{})}
	l.conn = c
	s.conns++
	return c, nil
}

// lane returns a rank's lane. s.mu is held.
func (s *source) lane(rank int) *lane {
	l := s.lanes[rank]
	if l == nil {
		l = &lane{born: time.Now()}
		s.lanes[rank] = l
	}
	return l
}

// run polls until ctx ends or every connection is lost.
func (s *source) run(ctx context.Context) {
	defer close(s.done)
	if s.t.Client == nil {
		defer s.client.CloseIdleConnections()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var failing time.Time // since when polls fail in a row
	failures := 0
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		began := time.Now()
		a := s.poll(ctx)
		if ctx.Err() != nil {
			return
		}
		if a.err == nil {
			failing, failures = time.Time{}, 0
		} else {
			failures++
			if failing.IsZero() {
				failing = began
			}
			s.log(slog.LevelDebug, "polling KV-cache events", slog.Any("error", a.err), slog.Bool("torn", a.torn))
		}
		s.deliver(a)
		if !failing.IsZero() && time.Since(failing) >= s.patience {
			s.end(a.err)
			return
		}
		timer.Reset(s.pauseAfter(failures))
	}
}

// release takes the connection from a rank. Where the engine has just started, what
// it said stays for who connects next. t.mu and s.mu are held.
func (s *source) release(rank int, l *lane) {
	s.conns--
	l.conn, l.queue, l.bytes = nil, nil, 0
	lingers := s.t.Linger > 0 && !s.t.closed && s.t.sources[s.url] == s
	switch {
	case s.lanes[rank] != l:
	case lingers && l.young != nil && l.broken == nil && time.Since(l.young.began) < youth:
		l.handed, l.born = true, time.Now()
	default:
		delete(s.lanes, rank) // who dials again begins anew
	}
	switch {
	case s.conns > 0:
	case lingers:
		s.linger = time.AfterFunc(s.t.Linger, func() {
			s.t.mu.Lock()
			defer s.t.mu.Unlock()
			s.retire()
		})
	default:
		s.retireLocked()
	}
}

// retire ends a source without connections and reports whether it has none. t.mu is
// held.
func (s *source) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.retireLocked()
}

func (s *source) retireLocked() bool {
	if s.conns > 0 {
		return false
	}
	if s.linger != nil {
		s.linger.Stop()
	}
	if s.t.sources[s.url] == s {
		delete(s.t.sources, s.url)
	}
	s.over = true
	s.cancel()
	return true
}

// end breaks every connection; later ones get a source of their own.
func (s *source) end(cause error) {
	s.t.drop(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		l.fail(cause)
	}
}

// deliver puts events into their lanes and keeps the account of doubts.
func (s *source) deliver(a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(a.err)
	now := time.Now()
	foreign := 0
	for _, ev := range a.events {
		if !s.push(ev, now) {
			foreign++
		}
	}
	for _, l := range s.lanes {
		if a.err == nil {
			l.adopt()
		}
		l.grow(now)
		if a.torn && l.doubt.IsZero() {
			l.doubt = now
		}
		if a.err == nil && !l.doubt.IsZero() && now.Sub(l.doubt) >= s.patience {
			l.fail(errTorn)
		}
	}
	if a.bad > 0 {
		s.malformed.Add(int64(a.bad))
		s.log(slog.LevelWarn, "KV-cache events: answer with elements that are not numbered events", slog.Int("elements", a.bad))
	}
	if foreign > 0 {
		s.foreign.Add(int64(foreign))
		if !s.warned {
			s.warned = true
			s.log(slog.LevelWarn, "KV-cache events of data-parallel ranks that nobody follows; list the address once for each rank")
		}
	}
}

// note keeps the account of whether the address can be polled. s.mu is held.
func (s *source) note(err error) {
	if err != nil {
		err = eventstream.Brief(err)
	}
	if s.up || (err != nil && s.fault != nil && s.fault.Error() == err.Error()) {
		return
	}
	s.up, s.fault = err == nil, err
	close(s.changed)
	s.changed = make(chan struct{})
}

// push queues an event and reports false if that was in vain, for want of a
// connection. s.mu is held.
func (s *source) push(ev event, now time.Time) bool {
	l := s.laneOf(ev.rank)
	follows := l.numbered && ev.id == l.last+1
	if !follows {
		l.handed = false
	}
	l.adopt()
	if !l.numbered || ev.id <= l.last {
		// Another process, as far as we know: ids only rise.
		l.epoch = max(l.epoch+1, now.UnixNano())
	}
	l.numbered, l.last, l.doubt = true, ev.id, time.Time{}
	it := item{follow.Message{Seq: ev.id, Payload: payload(ev.raw, l.epoch)}, int64(len(ev.raw))}
	if s.t.Linger > 0 {
		l.remember(&it, follows, now)
	}
	most := s.t.maxReply()
	if l.conn == nil {
		if most = min(most, maxUnclaimed); now.Sub(l.born) >= s.patience {
			l.queue, l.bytes, most = nil, 0, 0 // nobody will come
		}
	}
	if l.bytes+it.size <= most && l.broken == nil {
		l.bytes += it.size
		l.queue = append(l.queue, it)
		l.signal()
		return true
	}
	return l.conn != nil // its reader is slow, and will find a gap
}

// adopt queues what is handed on.
func (l *lane) adopt() {
	if !l.handed {
		return
	}
	l.queue, l.bytes = append(l.young.items(), l.queue...), l.bytes+l.young.size
	l.handed = false
	l.signal()
}

// remember keeps the first events of an engine. follows says that none is missing
// before this one.
func (l *lane) remember(it *item, follows bool, now time.Time) {
	switch {
	case it.Seq == 0:
		l.young = &young{began: now}
		l.young.add(it)
	case l.young == nil:
	case follows && l.young.fits(it, now):
		l.young.add(it)
	default:
		l.young = nil
	}
}

// grow forgets the first events of an engine that is no longer young: nobody would be given
// them.
func (l *lane) grow(now time.Time) {
	if l.young != nil && !l.handed && now.Sub(l.young.began) >= youth {
		l.young = nil
	}
}

// laneOf returns where an event of that rank, -1 if it names none, goes. s.mu is
// held.
func (s *source) laneOf(rank int) *lane {
	if rank >= 0 {
		return s.lane(rank)
	}
	if s.conns == 1 {
		for _, l := range s.lanes {
			if l.conn != nil {
				return l
			}
		}
	}
	return s.lane(0)
}

// fail ends the lane for its connection. source.mu is held.
func (l *lane) fail(cause error) {
	if l.broken == nil {
		l.broken = cause
		l.signal()
	}
}

func (l *lane) signal() {
	if l.conn == nil {
		return
	}
	select {
	case l.conn.wake <- struct{}{}:
	default:
	}
}

func (s *source) log(level slog.Level, text string, attrs ...slog.Attr) {
	if l := s.t.Logger; l != nil && l.Enabled(context.Background(), level) {
		attrs = append(attrs, slog.String("url", s.url))
		l.LogAttrs(context.Background(), level, text, attrs...) //nolint:sloglint // the callers' texts are literals
	}
}
