package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// keeper is the Ledger's goroutine: it alone has the spool and says what the sink gets.
// The sink is called in another, so that it may be as slow as it likes.
type keeper struct {
	ledger *Ledger
	spool  *spool // nil: none
	ask    chan []Record
	answer chan error
	cancel context.CancelFunc // ends the Write that is under way

	// batch is with the sink, or waits to be given to it again.
	batch   []Record
	from    stretch // of the spool, if spooled
	spooled bool
	busy    bool // it is with the sink
	// moving is on its way to the spool, which has failed to take it.
	moving []Record
	// retry is when to give it again, and backoff how long to wait the next time.
	retry   *time.Timer
	backoff time.Duration
	paused  bool // until retry
	// cantRead and cantWrite: the spool failed; it is not tried before unstick.
	cantRead, cantWrite bool

	unstick *time.Timer
	jammed  bool // it failed the last time
	closed  bool // Close waits
}

const (
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
	// closeBackoff bounds it while Close waits.
	closeBackoff = 200 * time.Millisecond
	spoolBackoff = time.Second
	// spoolChunk bounds the records that go to the spool at once.
	spoolChunk = 4096
)

func (k *keeper) start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.retry, k.unstick = stopped(), stopped()
	go k.run()
	go func() {
		for records := range k.ask {
			k.answer <- k.ledger.write(ctx, records)
		}
	}()
}

func stopped() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// write calls the sink.
func (l *Ledger) write(ctx context.Context, records []Record) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.opts.WriteTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("ledger: the sink panicked: %v", p)
		}
	}()
	return l.opts.Sink.Write(ctx, records)
}

func (k *keeper) run() {
	l := k.ledger
	defer close(l.done)
	defer close(k.ask)
	defer k.cancel()
	deadline := stopped()
	defer deadline.Stop()
	closing := l.closing
	for {
		k.give()
		k.store()
		if k.closed && len(k.batch) == 0 && k.empty() {
			break
		}
		select {
		case <-l.wake:
		case err := <-k.answer:
			k.busy = false
			k.answered(err)
		case <-k.retry.C:
			k.paused = false
		case <-k.unstick.C:
			k.cantRead, k.cantWrite = false, false
		case <-closing:
			closing, k.closed, k.paused, k.cantRead, k.cantWrite = nil, true, false, false, false
			deadline.Reset(l.opts.CloseTimeout)
		case <-deadline.C:
			k.giveUp()
			return
		}
	}
	if k.spool != nil {
		_ = k.spool.close() // it is empty
	}
}

func (k *keeper) empty() bool {
	if k.spool != nil && k.spool.count > 0 {
		return false
	}
	k.ledger.mu.Lock()
	defer k.ledger.mu.Unlock()
	return k.ledger.queue.n == 0 && len(k.moving) == 0
}

// give gives the sink something to write if it has nothing: the batch that failed, then
// what is in the spool, then what is in memory.
func (k *keeper) give() {
	if k.busy || k.paused {
		return
	}
	if len(k.batch) == 0 && !k.take() {
		return
	}
	k.busy = true
	k.ask <- k.batch
}

// take makes the next batch, and reports whether there is one.
func (k *keeper) take() bool {
	l := k.ledger
	for k.spool != nil && k.spool.count > 0 {
		if k.cantRead {
			return false
		}
		s, err := k.spool.next(l.opts.Batch)
		if err != nil {
			k.cantRead = true
			k.jam(fmt.Errorf("ledger: reading the spool: %w", err))
			return false
		}
		if len(s.records) > 0 {
			k.batch, k.from, k.spooled = s.records, s, true
			return true
		}
		k.consume(s) // all of it is damaged
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(k.moving) > 0 { // they are older than those in the queue
		n := min(len(k.moving), l.opts.Batch)
		k.batch, k.moving = append(k.batch[:0], k.moving[:n]...), k.moving[n:]
	} else {
		k.batch = l.queue.pop(k.batch[:0], l.opts.Batch)
		l.inHand += len(k.batch)
	}
	k.spooled = false
	return len(k.batch) > 0
}

// answered is called with what the sink made of the batch.
func (k *keeper) answered(err error) {
	l := k.ledger
	if err != nil && !planted.SinkErrorDrops {
		l.trouble(err, true)
		k.backoff = min(max(2*k.backoff, firstBackoff), maxBackoff)
		if k.closed {
			k.backoff = min(k.backoff, closeBackoff)
		}
		k.paused = true
		k.retry.Reset(k.backoff)
		return
	}
	k.backoff = 0
	if l.opts.OnDurable != nil {
		l.call("OnDurable", func() { l.opts.OnDurable(k.batch) })
	}
	l.mu.Lock()
	recovered := l.stats.Failing
	l.stats.Failing = false
	l.mu.Unlock()
	if recovered && l.opts.Logger != nil {
		l.opts.Logger.Info("ledger: the sink takes records again")
	}
	if k.spooled {
		k.consume(k.from)
	} else {
		n := len(k.batch)
		l.mu.Lock()
		l.stats.Durable += uint64(n)
		l.inHand -= n
		l.advance(n)
		l.mu.Unlock()
		l.release(n)
	}
	clear(k.batch) // strings need not be kept
	k.batch = k.batch[:0]
}

// consume takes from the spool what the sink has, or nobody can read.
func (k *keeper) consume(s stretch) {
	old, err := k.spool.done(s)
	if err != nil { // it grows on
		k.jam(fmt.Errorf("ledger: emptying the spool: %w", err))
	}
	l := k.ledger
	damaged := s.lines - len(s.records)
	l.mu.Lock()
	defer l.mu.Unlock()
	// Which lines were damaged is not kept: those of an earlier Ledger, if there are any.
	ofOld := min(old, damaged)
	l.stats.Replayed += uint64(old - ofOld)
	l.stats.Durable += uint64(s.lines - old - (damaged - ofOld))
	l.stats.Lost += uint64(damaged)
	l.gone += uint64(damaged - ofOld)
	l.stats.Spooled = k.spool.count
	l.advance(s.lines - old)
	if damaged > 0 && l.opts.Logger != nil {
		l.opts.Logger.Error("ledger: lines of the spool can't be read; they are in the file beside it",
			slog.Int("lines", damaged), slog.String("file", k.spool.from.torn))
	}
}

// release gives slots back.
func (l *Ledger) release(n int) {
	for range n {
		<-l.slots
	}
}

// store moves what waits to the spool, if half of the buffer is taken.
func (k *keeper) store() {
	l := k.ledger
	if k.spool == nil {
		return
	}
	for !k.cantWrite {
		l.mu.Lock()
		if len(k.moving) == 0 && 2*l.queue.n >= l.opts.Buffer {
			k.moving = l.queue.pop(k.moving[:0], spoolChunk)
			l.inHand += len(k.moving)
		}
		l.mu.Unlock()
		if len(k.moving) == 0 {
			k.moving = nil // it is rare that so many are moved
			k.spool.rest()
			return
		}
		if err := k.spool.add(k.moving); err != nil {
			k.cantWrite = true
			k.jam(fmt.Errorf("ledger: writing the spool: %w", err))
			return
		}
		k.jammed = false
		n := len(k.moving)
		l.mu.Lock()
		l.inHand -= n
		l.stats.Spooled = k.spool.count
		l.mu.Unlock()
		l.release(n)
		clear(k.moving)
		k.moving = k.moving[:0]
	}
}

// jam is called when the spool has failed.
func (k *keeper) jam(err error) {
	k.ledger.trouble(err, false)
	if l := k.ledger.opts.Logger; l != nil && !k.jammed {
		l.Warn("ledger: the spool failed and will be tried again", slog.Any("error", err))
	}
	k.jammed = true
	k.unstick.Reset(spoolBackoff)
}

// trouble takes note of an error.
func (l *Ledger) trouble(err error, ofSink bool) {
	l.mu.Lock()
	first := ofSink && !l.stats.Failing
	l.stats.Failing = l.stats.Failing || ofSink
	l.stats.Errors++
	l.stats.LastError, l.stats.LastErrorAt = err, time.Now()
	l.mu.Unlock()
	if first && l.opts.Logger != nil {
		l.opts.Logger.Warn("ledger: the sink failed and will be tried again", slog.Any("error", err))
	}
}

// giveUp ends the Ledger when Close's time is over.
func (k *keeper) giveUp() {
	l := k.ledger
	k.cancel()
	if k.busy { // it may yet say that it has them
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case err := <-k.answer:
			k.busy = false
			k.answered(err)
		case <-timer.C:
			l.trouble(errors.New("ledger: the sink did not return when its context ended"), true)
		}
	}
	l.mu.Lock()
	rest := l.queue.pop(slices.Clone(k.moving), l.queue.n)
	l.mu.Unlock()
	if len(k.batch) > 0 && !k.spooled {
		rest = slices.Concat(k.batch, rest)
	}
	var err error
	if k.spool != nil {
		for err == nil && len(rest) > 0 {
			n := min(len(rest), spoolChunk)
			if err = k.spool.add(rest[:n]); err == nil {
				rest = rest[n:]
			}
		}
		if err != nil {
			l.trouble(fmt.Errorf("ledger: writing the spool: %w", err), false)
		}
		if e := k.spool.close(); e != nil {
			l.trouble(e, false)
		}
	}
	if l.Stats().LastError == nil {
		l.trouble(errors.New("ledger: Options.CloseTimeout is over"), true)
	}
	last := l.Stats().LastError
	for i := range rest {
		l.lose(&rest[i], fmt.Errorf("%w before it was written: %w", ErrClosed, last))
	}
	l.mu.Lock()
	l.gone += uint64(len(rest))
	l.inHand = 0
	if k.spool != nil {
		l.stats.Spooled = k.spool.count
		l.left = uint64(k.spool.count - k.spool.old)
	}
	l.advance(int(l.stats.Appended - l.through))
	spooled := l.stats.Spooled
	l.mu.Unlock()
	if spooled > 0 && l.opts.Logger != nil {
		l.opts.Logger.Warn("ledger: records are left in the spool; the next Ledger writes them",
			slog.Int("records", spooled), slog.String("file", l.opts.Spool))
	}
}
