package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// What Append fails with, beside [ErrInvalid].
var (
	// ErrFull: the Buffer was full for all of Options.Patience.
	ErrFull = errors.New("ledger: no room for the record: the sink is slower than records come; set Options.Spool, or give it a larger Buffer")
	// ErrClosed: the Ledger, or the sink, was closed.
	ErrClosed = errors.New("ledger: it was closed")
)

// Ledger takes records and gives them to a sink. All methods are safe for concurrent use.
type Ledger struct {
	opts Options
	// slots has an element for each record in memory.
	slots chan struct{}
	// wake has room for one: that there are records.
	wake    chan struct{}
	closing chan struct{} // closed by Close
	done    chan struct{} // closed when the keeper has ended
	once    sync.Once
	err     error // of Close

	mu     sync.Mutex
	closed bool
	// queue is what was taken and is neither with the sink nor in the spool, oldest first.
	queue fifo
	stats Stats
	// through is how many of the records taken are acknowledged or lost.
	through uint64
	// gone is how many of those are lost, left how many Close left in the spool.
	gone, left uint64
	// inHand is how many records the keeper has in memory.
	inHand int
	// moved, if somebody waits for it, is closed when through changes.
	moved chan struct{}
	told  time.Time // when the log last spoke of lost records
}

// Stats says how a Ledger is doing. Counts are since it began: Appended is Durable, plus
// Waiting, plus what of Spooled is not an earlier Ledger's, plus what Close gave up.
type Stats struct {
	// Appended records were taken, Durable ones are acknowledged. Replayed ones are
	// acknowledged too, but were an earlier Ledger's.
	Appended, Durable, Replayed uint64
	// Lost records were refused by Append, given up by Close, or found damaged in the
	// spool. All but the latter were told to OnLost.
	Lost uint64
	// Waiting records are in memory, Spooled ones in the spool.
	Waiting, Spooled int
	// Errors counts failed attempts to write, to the sink or the spool. LastError is the
	// last of them, at LastErrorAt. Failing: the sink has taken nothing since.
	Errors      uint64
	LastError   error
	LastErrorAt time.Time
	Failing     bool
}

// New returns a Ledger, which must be closed. It fails if an option is wrong, or if the
// spool can't be opened.
func New(o Options) (*Ledger, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	l := &Ledger{
		opts: o, slots: make(chan struct{}, o.Buffer), wake: make(chan struct{}, 1),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	k := &keeper{ledger: l, ask: make(chan []Record, 1), answer: make(chan error, 1)}
	if o.Spool != "" {
		s, err := openSpool(o.Spool, o.SpoolBytes)
		if err != nil {
			return nil, fmt.Errorf("ledger: the spool: %w", err)
		}
		k.spool, l.stats.Spooled = s, s.count
	}
	k.start()
	return l, nil
}

// Append takes a record and does not keep r. It returns at once if there is room, else
// within Options.Patience, and never waits for a disk or a network. Nil means that the
// record was taken, see the package comment for when it is safe. An error wraps
// [ErrFull], [ErrInvalid] or [ErrClosed]: then the record is lost, counted, and told to
// Options.OnLost.
func (l *Ledger) Append(r *Record) error {
	err := l.append(r)
	if err != nil {
		l.lose(r, err)
	}
	return err
}

func (l *Ledger) append(r *Record) error {
	if err := r.Check(); err != nil {
		return err
	}
	taken := *r
	taken.Normalize()
	select {
	case l.slots <- struct{}{}:
	default:
		if err := l.wait(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		<-l.slots
		return ErrClosed
	}
	l.queue.push(&taken)
	l.stats.Appended++
	l.mu.Unlock()
	l.signal()
	return nil
}

// wait takes a slot, if one is given back in time.
func (l *Ledger) wait() error {
	if l.opts.Patience > 0 {
		timer := time.NewTimer(l.opts.Patience)
		defer timer.Stop()
		select {
		case l.slots <- struct{}{}:
			return nil
		case <-l.closing:
			return ErrClosed
		case <-timer.C:
		}
	}
	l.mu.Lock()
	err := l.stats.LastError
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%w; the last error was: %w", ErrFull, err)
	}
	return ErrFull
}

func (l *Ledger) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// lose counts a record that will not be written.
func (l *Ledger) lose(r *Record, why error) {
	const pause = time.Minute
	now := time.Now()
	l.mu.Lock()
	l.stats.Lost++
	lost, tell := l.stats.Lost, l.told.IsZero() || now.Sub(l.told) >= pause
	if tell {
		l.told = now
	}
	l.mu.Unlock()
	if tell && l.opts.Logger != nil {
		l.opts.Logger.Error("ledger: usage records are lost", slog.Uint64("lost", lost), slog.Any("error", why))
	}
	if l.opts.OnLost != nil && r != nil {
		l.call("OnLost", func() { l.opts.OnLost(r, why) })
	}
}

// call calls the user's code, which may do anything.
func (l *Ledger) call(name string, fn func()) {
	defer func() {
		if p := recover(); p != nil {
			l.trouble(fmt.Errorf("ledger: %s panicked: %v", name, p), false)
		}
	}()
	fn()
}

// Flush waits until every record whose Append returned before is acknowledged. To wait for
// one record is to append it and to flush: those who do so at a time share one write. It
// fails when ctx ends, with the sink's last error if it is failing, and with [ErrClosed] if Close gave records
// up.
func (l *Ledger) Flush(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	want, gone := l.stats.Appended, l.gone
	for l.through < want {
		if l.moved == nil {
			l.moved = make(chan struct{})
		}
		moved := l.moved
		l.mu.Unlock()
		var err error
		select {
		case <-moved:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		l.mu.Lock()
		if err != nil && l.stats.Failing {
			return fmt.Errorf("ledger: %w; the sink's last error: %w", err, l.stats.LastError)
		}
		if err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	if n := l.gone - gone + l.left; n > 0 {
		return fmt.Errorf("%d records were not written: %w", n, ErrClosed)
	}
	return nil
}

// advance is called with mu held when n records that were taken are acknowledged or lost.
func (l *Ledger) advance(n int) {
	l.through += uint64(n)
	if l.moved != nil {
		close(l.moved)
		l.moved = nil
	}
}

// Stats says how it is doing.
func (l *Ledger) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Waiting = l.queue.n + l.inHand
	return s
}

// What Close waits on top: for a Write whose context has ended, and for the spool.
const (
	grace      = time.Second
	spoolGrace = 10 * time.Second
)

// Close takes no more records and writes those that it has, until Options.CloseTimeout.
// What is left then goes to the spool, and the next Ledger writes it; without one it is
// lost, which the error says. A Write that hangs though its context has ended can't be ended: its goroutine
// ends when it returns. Close is idempotent.
func (l *Ledger) Close() error {
	l.once.Do(func() {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
		close(l.closing)
		most := l.opts.CloseTimeout + grace + spoolGrace
		timer := time.NewTimer(most)
		defer timer.Stop()
		select {
		case <-l.done:
		case <-timer.C:
			l.err = fmt.Errorf("ledger: the spool %s did not answer within %s; it may lack records", l.opts.Spool, most)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.gone > 0 {
			l.err = fmt.Errorf("ledger: %d records are lost, the last error: %w", l.gone, l.stats.LastError)
		}
	})
	return l.err
}
