package follow

import (
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Stats describes a Follower. The counts are since its start.
type Stats struct {
	// Trust is that of the endpoint's own rank, Reason why it is not Exact.
	Trust  kvcache.Trust
	Reason Reason
	// LastMessage is when the latest live message came, zero if none ever did.
	// Requests that complete while this stands still mean that the engine
	// publishes no events, or not here.
	LastMessage time.Time
	// Next is the sequence number expected next.
	Next uint64
	// Messages came live, Replayed by replay; Duplicates were known already.
	Messages, Replayed, Duplicates uint64
	// Events were applied. Malformed ones were of a known type and unusable,
	// Unknown ones of an unknown type, Foreign ones of a rank that has no owner.
	Events, Malformed, Unknown, Foreign uint64
	// Gaps counts breaks in the numbering, Missing the messages that had not
	// come by then, Lost the breaks that no replay could close.
	Gaps, Missing, Lost uint64
	// Restarts counts publishers that began anew.
	Restarts uint64
	// Wraps counts replays that no longer reached back far enough.
	Wraps uint64
	// Resumed is 1 if the publisher proved that what was known at the start was of
	// its own stream, and the Follower went on from there.
	Resumed uint64
	// Restores counts attempts to win back what the index's bounds took away.
	Restores uint64
	// Replays were asked for; Unanswered of them failed or stood still.
	Replays, Unanswered uint64
	// Disconnects counts connections lost.
	Disconnects uint64
	// Undecodable counts messages that could not be decoded.
	Undecodable uint64
	// Conflicts counts messages with the number of another one.
	Conflicts uint64
}

// Stats returns a snapshot. It is safe for concurrent use.
func (f *Follower) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

// count changes the statistics.
func (f *Follower) count(change func(*Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.stats)
}
