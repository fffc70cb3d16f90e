package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// Follower keeps the owners of one endpoint in step with its event stream. It
// is safe for concurrent use. Close it to stop.
type Follower struct {
	cfg    Config
	ledger ledger          // nil if the index keeps none
	ctx    context.Context //nolint:containedctx // the Follower's life, ended by Close
	cancel context.CancelFunc
	done   chan struct{} // closed when run has returned

	mu    sync.Mutex
	stats Stats
	// What callers ask for; run is woken to look at it.
	resync, promote bool
	wake            context.CancelFunc

	problem atomic.Pointer[string] // nil is none

	// The rest belongs to run's goroutine.

	targets []*target
	// whole and why are what a target is created with.
	whole bool
	why   Reason

	recent recent
	// placed: the place in the numbering is known. last is the latest message
	// applied, next the number after it; next is 0 and last unset if the
	// publisher has published nothing.
	placed bool
	next   uint64
	last   mark
	// base, if set, is the latest message applied before a reconnection that
	// has not been proven harmless yet.
	base *mark
	// stray is the latest message that was older than recent remembers and
	// proved to be a repetition; its successors are too.
	stray *uint64
	// recoverable: not whole, but a replay might still mend that.
	recoverable bool
	// unproven: a reconnection or a broken replay left a doubt.
	unproven     bool
	failedChecks int
	// heard: there is some knowledge to trust or distrust.
	heard bool
	// busy is why the stream is not being followed just now.
	busy Reason
	// lostAt is when the connection was lost, zero once there was a sign of life.
	lostAt time.Time
	// askAgain and pause hold back replays after one went unanswered.
	askAgain  time.Time
	pause     time.Duration
	nextCheck time.Time
	// alive: this connection has brought something; live: live messages.
	alive, live bool
	// hollow: the publisher of this connection keeps nothing for replays.
	hollow bool
	// up: this connection's subscription is in force. fault is why not, as far as
	// is known, or why the one before was not.
	up    bool
	fault error
	// patient: the first check of this connection waits for its link.
	patient  bool
	problems problems
	// laggedAt is what next was when the publisher last seemed to be far ahead. quiet:
	// the latest wait for a message was in vain.
	laggedAt uint64
	quiet    bool
	// confirm: continuity is to be checked once more, soon after the next proof.
	confirm bool
	// resumed: what is known is that of a predecessor, and not yet proven.
	// inherited is the place in the stream where that one stopped, until a history
	// begins here.
	resumed   bool
	inherited *mark
	// resyncAt is when Resync is heeded again, restoreAt when the index's losses
	// may be made up for again; restorePause comes after that.
	resyncAt, restoreAt time.Time
	// owed: a Resync was heeded and is not done. anew: everything has just been read
	// anew.
	owed, anew   bool
	restorePause time.Duration
}

// Start dials the endpoint and follows it until Close. An error means a mistake
// in cfg: a publisher that can't be reached yet is waited for. ctx bounds the
// dialling only.
func Start(ctx context.Context, cfg Config) (*Follower, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	conn, err := cfg.Transport.Dial(ctx, cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("follow %s: %w", cfg.Endpoint.Events, err)
	}
	f := &Follower{cfg: cfg, done: make(chan struct{}), busy: ReasonStarting, why: ReasonStarting}
	f.ledger, _ = cfg.Index.(ledger)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	go f.run(conn)
	return f, nil
}

// Close stops following and waits until that is so. The owners become
// [kvcache.Blind], since nobody keeps them up to date any more; their blocks
// stay. It is idempotent.
func (f *Follower) Close() error {
	if planted.FollowerStays {
		return nil
	}
	f.cancel()
	<-f.done
	return nil
}

// Resync makes the Follower begin anew: it replays everything that the publisher
// remembers into an emptied index. It is for a caller who has found that what
// the index predicts is not what the engine reports. It returns at once and may be
// called as often as one likes: it begins anew once in [Config.ResyncEvery], and
// calls that come sooner count as one that waits until then. A publisher that does
// not remember everything leaves a lower bound of what it does remember.
func (f *Follower) Resync() { f.ask(&f.resync) }

// Promote declares that what the index holds of a late-joined engine is all
// there is: the caller has seen that predictions match what the engine reports.
// It has no effect on doubts that a replay will settle. It returns at once.
func (f *Follower) Promote() { f.ask(&f.promote) }

func (f *Follower) ask(what *bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*what = true
	if f.wake != nil {
		f.wake()
	}
}

// run owns the connection and everything else below Follower.targets.
func (f *Follower) run(conn Conn) {
	defer close(f.done)
	defer f.settle() // Blind, since ctx is over
	f.resume(f.target(f.cfg.Endpoint.Rank))
	var pause time.Duration
	for conn != nil {
		f.alive, f.live, f.hollow, f.up = false, false, false, false
		err := f.session(conn)
		if closeErr := conn.Close(); closeErr != nil {
			f.log(slog.LevelDebug, "closing the event stream", slog.Any("error", closeErr))
		}
		if f.ctx.Err() != nil {
			return
		}
		f.disconnected(err)
		if f.alive {
			pause = 0
		}
		conn, pause = f.redial(pause)
	}
}

// redial dials until it succeeds, with pauses; nil means that ctx ended.
func (f *Follower) redial(pause time.Duration) (Conn, time.Duration) {
	for {
		pause = nextPause(pause, f.cfg.RetryMin, f.cfg.RetryMax)
		timer := time.NewTimer(jitter(pause))
		select {
		case <-timer.C:
		case <-f.ctx.Done():
			timer.Stop()
			return nil, 0
		}
		f.grow()
		ctx, cancel := context.WithTimeout(f.ctx, f.cfg.ReplayTimeout)
		conn, err := f.cfg.Transport.Dial(ctx, f.cfg.Endpoint)
		cancel()
		if err == nil {
			return conn, pause
		}
		f.fault = err
		f.settle()
		f.log(slog.LevelDebug, "dialling the event stream", slog.Any("error", err))
	}
}

func nextPause(pause, least, most time.Duration) time.Duration {
	return min(max(2*pause, least), most)
}

// jitter shortens d by up to half, so that followers of one fleet spread out.
func jitter(d time.Duration) time.Duration {
	return d - rand.N(d/2+1) //nolint:gosec // not for secrets
}

// disconnected notes that messages may be missed from here on.
func (f *Follower) disconnected(cause error) {
	f.count(func(s *Stats) { s.Disconnects++ })
	f.log(slog.LevelDebug, "event stream disconnected", slog.Any("error", cause))
	if f.lostAt.IsZero() {
		f.lostAt = time.Now()
	}
	f.busy, f.unproven, f.stray = ReasonDisconnected, true, nil
	f.up = false
	switch {
	case f.cfg.Endpoint.Replay == "" || f.next == 0:
		// Without a proof to ask for, the next message begins a new history.
		f.placed = false
	default:
		f.rebase()
	}
	f.settle()
}

// grow lets knowledge of a lost engine become stale.
func (f *Follower) grow() {
	if f.lostAt.IsZero() || !f.heard || time.Since(f.lostAt) < f.cfg.StaleAfter {
		return
	}
	f.forget(ReasonStale)
	f.heard, f.busy = false, ReasonStale
	f.settle()
}

// session follows one connection until it breaks.
func (f *Follower) session(conn Conn) error {
	f.patient, f.nextCheck = true, time.Now().Add(linkPatience)
	for {
		changed := f.look(conn)
		if err := f.duties(conn); err != nil {
			return err
		}
		if err := f.listen(conn, changed); err != nil {
			return err
		}
	}
}

// untilDuty returns a context that ends when duties has something to do.
func (f *Follower) untilDuty() (context.Context, context.CancelFunc) {
	until := f.nextCheck
	f.mu.Lock()
	if f.resync && f.resyncAt.Before(until) {
		until = f.resyncAt
	}
	f.mu.Unlock()
	if !f.lostAt.IsZero() && f.heard {
		if stale := f.lostAt.Add(f.cfg.StaleAfter); stale.Before(until) {
			until = stale
		}
	}
	ctx, cancel := context.WithDeadline(f.ctx, until)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wake = cancel
	if (f.resync && !time.Now().Before(f.resyncAt)) || f.promote {
		cancel()
	}
	return ctx, cancel
}

// receive handles live messages until ctx ends (nil) or the connection does.
func (f *Follower) receive(ctx context.Context, conn Conn) error {
	for ctx.Err() == nil {
		m, err := conn.Recv(ctx)
		switch {
		case err == nil:
		case f.ctx.Err() != nil:
			return f.ctx.Err()
		case ctx.Err() != nil && !errors.Is(err, ErrDisconnected) && !errors.Is(err, ErrClosed):
			f.quiet = true
			return nil
		default:
			return err
		}
		f.count(func(s *Stats) { s.Messages++; s.LastMessage = f.cfg.Now() })
		if !f.alive {
			f.alive, f.askAgain, f.pause = true, time.Time{}, 0 // it is up: a replay may work now
		}
		if !f.up {
			f.linked()
		}
		f.live, f.quiet, f.lostAt, f.failedChecks = true, false, time.Time{}, 0
		if err := f.place(conn, m); err != nil {
			return err
		}
		f.busy = ReasonNone
		f.settle()
		if until, ok := ctx.Deadline(); ok && f.nextCheck.Before(until) {
			break
		}
	}
	return f.ctx.Err()
}

// asked returns what callers have asked for and is due now.
func (f *Follower) asked() (resync, promote bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	promote, f.promote = f.promote, false
	if now := time.Now(); f.resync && !now.Before(f.resyncAt) {
		resync, f.resync, f.resyncAt = true, false, now.Add(f.cfg.ResyncEvery)
	}
	return resync, promote
}

// duties does what is due beside receiving: requests, staleness, checks.
func (f *Follower) duties(conn Conn) error {
	resync, promote := f.asked()
	f.owed = f.owed || resync
	f.grow()
	if promote && f.placed {
		f.whole, f.why, f.recoverable = true, ReasonNone, false
		for _, t := range f.targets {
			t.whole, t.why = true, ReasonNone
		}
		f.keep()
	}
	defer f.settle()
	due := !time.Now().Before(f.nextCheck)
	if !resync && !due {
		return nil
	}
	f.patient, f.nextCheck = false, time.Now().Add(f.cfg.CheckEvery)
	if !f.replays() {
		if f.busy == ReasonStarting {
			f.busy = ReasonNoReplay // until the first message
		}
		if resync {
			f.anew = true
			f.forget(ReasonNoReplay)
		}
		return nil
	}
	if !resync && !f.mayReplay() {
		f.checkAgain()
		return nil
	}
	var err error
	switch {
	case resync:
		f.busy = ReasonStarting
		f.settle()
		err = f.restart(conn)
	case !f.placed || f.recoverable:
		err = f.restart(conn)
	case f.wanting() && !time.Now().Before(f.restoreAt):
		err = f.restore(conn)
	default:
		err = f.check(conn)
	}
	switch {
	case err == nil:
		f.alive, f.busy = true, ReasonNone
		if f.confirm && f.up {
			f.confirm = false
			f.confirmSoon()
		}
		return nil
	case errors.Is(err, errUnanswered):
		f.failedChecks++
		if resync {
			f.doubt(ReasonUnanswered)
			f.recoverable = true
		}
		if f.busy == ReasonStarting {
			f.busy = ReasonUnanswered // until the first message
		}
		f.checkAgain()
		return nil
	default:
		return err
	}
}

// checkAgain brings the next check forward to when replays may be asked for
// again, if there is a doubt to settle.
func (f *Follower) checkAgain() {
	if (f.unproven || !f.placed || f.recoverable) && f.askAgain.Before(f.nextCheck) {
		f.nextCheck = f.askAgain
	}
}
