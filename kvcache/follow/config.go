package follow

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// Defaults of [Config].
const (
	DefaultReplayTimeout = 5 * time.Second
	DefaultCheckEvery    = 10 * time.Second
	DefaultStaleAfter    = 30 * time.Second
	DefaultResyncEvery   = time.Minute
	DefaultRetryMin      = 100 * time.Millisecond
	DefaultRetryMax      = 10 * time.Second
)

// ErrConfig is returned by [Start] for a Config that lacks something; the
// message says what.
var ErrConfig = errors.New("follow: incomplete configuration")

// Index is what a Follower writes to; [*kvcache.Index] is one. Calls come from
// one goroutine per Follower.
//
// Clear drops bookings too, so it is called for a reason only: after Apply, or if
// the owner holds blocks of before.
//
// [*kvcache.Index] has more than these, which a Follower uses if the index has all
// of it: SetStanding in place of SetTrust; SetPosition and Position, with which one
// Follower goes on where another stopped, as after an import of a snapshot; Short,
// OwnerStats and Stats, which tell what the index's bounds took away and whether
// there is room for it again. Without them an owner is taken to be empty when the
// Follower starts, and whole if no call of Apply said otherwise.
type Index interface {
	Apply(o kvcache.Owner, e *kvcache.Event) kvcache.Outcome
	Clear(o kvcache.Owner)
	SetTrust(o kvcache.Owner, t kvcache.Trust)
}

// Decoder turns a payload into events; [wire.Decoder] is one. The batch has to
// be valid until the next call only.
type Decoder interface {
	Decode(payload []byte) (*kvcache.Batch, error)
}

// Config describes what to follow. Transport, Endpoint.Events, Index and Owner
// are required; everything else has a default.
type Config struct {
	Transport Transport
	Endpoint  Endpoint
	Index     Index
	// Owner returns the owner of a data-parallel rank's blocks, false if this
	// worker has no such rank: events for it are counted as foreign and dropped.
	// It is asked with the rank that a batch names, or with Endpoint.Rank. An
	// answer with true is remembered. It is called from the Follower's goroutine.
	Owner func(rank int) (kvcache.Owner, bool)
	// Decoder is used by this Follower alone. nil is a new [wire.Decoder].
	Decoder Decoder
	// ReplayTimeout is how long a replay may stand still before it counts as
	// unanswered. An engine answers between two steps, so allow for a long one;
	// live messages wait meanwhile. After an unanswered replay the next is asked
	// for no sooner than ReplayTimeout later, then twice and four times that.
	// 0 or less is DefaultReplayTimeout, 5 s.
	ReplayTimeout time.Duration
	// CheckEvery is how often the publisher is asked to prove that it is still
	// the one whose messages were applied and that none is missing. It bounds
	// how long a lost last message or an unnoticed restart can go unseen. 0 or
	// less is DefaultCheckEvery, 10 s.
	CheckEvery time.Duration
	// StaleAfter is how long, after a disconnection, what is known is kept. 0 or
	// less is DefaultStaleAfter, 30 s.
	StaleAfter time.Duration
	// ResyncEvery is the least time between two replays of everything that the
	// stream itself does not call for: those that Resync asks for, and those that
	// win back what the index's bounds took away. The pause between the latter
	// doubles, up to an hour, as long as it happens again. 0 or less is
	// DefaultResyncEvery, 1 min.
	ResyncEvery time.Duration
	// RetryMin and RetryMax bound the pause before dialling again. It doubles
	// from RetryMin and is shortened by up to half at random. 0 or less are
	// DefaultRetryMin, 100 ms, and DefaultRetryMax, 10 s.
	RetryMin, RetryMax time.Duration
	// Now tells the time for [Stats]; nil is time.Now.
	Now func() time.Time
	// Logger hears of gaps, restarts and changes of trust, and once of each
	// problem with the endpoint's addresses (see [Follower.Problem]). nil is
	// silence.
	Logger *slog.Logger
	// OnTrust, if not nil, is called at each change of trust, from the
	// Follower's goroutine and after the index knows. It must not block and must
	// not call Close.
	OnTrust func(Change)
	// OnResync, if not nil, is called after everything was read anew because
	// [Follower.Resync] asked for it, or, where there is nothing to replay, what was
	// known was dropped for that; after the OnTrust of it, and like that one. A replay
	// that fails is no such end: it is done again.
	OnResync func()
}

// Change is a change of trust in one owner.
type Change struct {
	Rank     int
	Owner    kvcache.Owner
	From, To kvcache.Trust
	Reason   Reason
}

// Reason says why an owner is not [kvcache.Exact]. The texts are stable and may
// be metric labels.
type Reason string

// The reasons.
const (
	// ReasonNone: the owner is Exact.
	ReasonNone Reason = ""
	// ReasonStarting: a replay of everything is under way.
	ReasonStarting Reason = "starting"
	// ReasonGap: messages are missing and are being asked for.
	ReasonGap Reason = "gap"
	// ReasonLost: messages are lost for good. What was known before them was
	// cleared.
	ReasonLost Reason = "messages lost"
	// ReasonWrapped: the publisher's replay buffer no longer reaches back to its
	// start. Raise buffer_steps, or follow from the engine's start.
	ReasonWrapped Reason = "history wrapped"
	// ReasonNoReplay: the endpoint has no replay address, and the stream was
	// joined late. Configure one.
	ReasonNoReplay Reason = "no replay address"
	// ReasonUnanswered: the replay address does not answer.
	ReasonUnanswered Reason = "replay unanswered"
	// ReasonNotConnected: the address of the events can't be reached, or what
	// answers there is no publisher of events. Follower.Problem says why. What
	// replays bring in spite of it is kept, and may lag behind by CheckEvery.
	ReasonNotConnected Reason = "not connected"
	// ReasonDisconnected: the connection is lost. What is known is kept for
	// StaleAfter, though removals may be missed.
	ReasonDisconnected Reason = "disconnected"
	// ReasonStale: disconnected for longer; what was known was cleared.
	ReasonStale Reason = "stale"
	// ReasonUndecodable: a message could not be decoded. What was known was
	// cleared.
	ReasonUndecodable Reason = "undecodable message"
	// ReasonMalformed: an event of a known type could not be used.
	ReasonMalformed Reason = "malformed event"
	// ReasonRefused: the index could not take an event, by its bounds or because
	// the block size changed.
	ReasonRefused Reason = "refused by the index"
	// ReasonSnapshot: what is known began as a snapshot of a lower bound, and the
	// publisher does not remember everything.
	ReasonSnapshot Reason = "incomplete snapshot"
	// ReasonEvicted, ReasonBudget and ReasonOrphanBound are the index's own, see
	// [kvcache.Index.Short]: it dropped blocks to stay within its memory budget, had
	// no room for them, or had more blocks waiting for their parent than it keeps.
	// When there is room again, a replay wins them back.
	ReasonEvicted     = Reason("evicted by budget")
	ReasonBudget      = Reason("memory budget reached")
	ReasonOrphanBound = Reason("orphan bound reached")
	// ReasonConflict: two publishers number messages on one address.
	ReasonConflict Reason = "conflicting sequence numbers"
	// ReasonClosed: the Follower was closed.
	ReasonClosed Reason = "closed"
)

func (c *Config) complete() error {
	switch {
	case c.Transport == nil:
		return fmt.Errorf("%w: no Transport", ErrConfig)
	case c.Endpoint.Events == "":
		return fmt.Errorf("%w: no Endpoint.Events", ErrConfig)
	case c.Index == nil:
		return fmt.Errorf("%w: no Index", ErrConfig)
	case c.Owner == nil:
		return fmt.Errorf("%w: no Owner", ErrConfig)
	}
	if c.Decoder == nil {
		c.Decoder = new(wire.Decoder)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.ReplayTimeout = orDefault(c.ReplayTimeout, DefaultReplayTimeout)
	c.CheckEvery = orDefault(c.CheckEvery, DefaultCheckEvery)
	c.StaleAfter = orDefault(c.StaleAfter, DefaultStaleAfter)
	c.ResyncEvery = orDefault(c.ResyncEvery, DefaultResyncEvery)
	c.RetryMin = orDefault(c.RetryMin, DefaultRetryMin)
	c.RetryMax = max(orDefault(c.RetryMax, DefaultRetryMax), c.RetryMin)
	return nil
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}
