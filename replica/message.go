package replica

import (
	"context"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

// Version is the version of the messages' meaning. A peer of another version is
// ignored, and counted: while a gateway is rolled out, old and new replicas may run
// side by side, each group with its own view.
const Version = 1

// Bounds of a message. What a router has more of than fits is left out, and counted;
// a message that is beyond them is refused.
const (
	MaxName     = 256    // bytes of Router and of an Instance
	MaxLoads    = 8192   // ranks that one message speaks of
	MaxBookings = 1024   // prompts that one message speaks of
	MaxKeys     = 16_384 // blocks of all its prompts together
	MaxRank     = 1023   // a data-parallel rank
)

// Message is what one router tells the others. It is not changed once it is published
// or delivered, and may be shared.
type Message struct {
	// Version is [Version] of who sends it.
	Version int
	// Router is the sender's name, for people; Epoch tells its processes apart: drawn at
	// random when the process starts, never 0.
	Router string
	Epoch  uint64
	// Seq numbers the messages of one epoch, from 1 on.
	Seq uint64
	// Full says that Loads is all that the sender has in flight: of what it does not
	// name, the sender has nothing. Else Loads is only what has changed.
	Full bool
	// Bye says that the sender ends: its share is gone at once.
	Bye bool
	// Loads are amounts as they are now, not changes. Nothing in flight is a Load of zeros.
	Loads []Load
	// Bookings are prompts that were sent to a worker since the last message.
	Bookings []Booking
}

// Load is what the sender has in flight on one rank of one worker instance; see
// fleet.InFlight. All numbers are at least 0.
type Load struct {
	// Instance is the worker as all replicas know it: fleet.Member.SharedID, which does
	// not tell two lives of its process under one declared epoch apart.
	Instance string
	Rank     int

	PrefillRequests int
	PrefillTokens   int
	PrefillPairs    int64
	// PrefillFor is how long the oldest of PrefillRequests has been computed, when the
	// message was made. A duration, so that the routers' clocks need not agree.
	PrefillFor     time.Duration
	DecodeRequests int
	OutputTokens   int
	ContextTokens  int
}

// Zero reports whether nothing is in flight.
func (l *Load) Zero() bool { return l.PrefillRequests == 0 && l.DecodeRequests == 0 }

// Booking is a prompt that will be resident on a rank, provisionally: the keys of its
// blocks from the first on, and for how long they count without an event. Keys are
// hashes: they tell nothing of the text to who does not have it.
type Booking struct {
	Instance string
	Rank     int
	Keys     []kvcache.Key
	TTL      time.Duration
}

// Exchange carries messages between the replicas of one router. It is safe for
// concurrent use; delivery may lose, double and reorder. The sender's own messages may
// come back: the router knows them by their epoch.
type Exchange interface {
	// Publish hands the message to all other replicas that listen. It returns by ctx's
	// end; an error says that at least some may not get it.
	Publish(ctx context.Context, m *Message) error
	// Receive calls deliver for each message, one at a time, until ctx ends or the
	// connection is lost, which it reports. The router calls it again after a pause.
	// subscribed is called once when messages begin to come. A message of another Version
	// may be delivered with nothing in it but that.
	Receive(ctx context.Context, subscribed func(), deliver func(*Message)) error
}
