package simulate

import (
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache"
)

// View is what a rule may know of one worker: what the router itself has in
// flight, what the cache index holds, what the engine last reported.
type View struct {
	// Name, Class and Role are the worker's, Owner its place in the index.
	Name, Class string
	Role        fleet.Role
	Owner       kvcache.Owner
	BlockSize   int
	// CapacityBlocks is the size of its KV cache.
	CapacityBlocks int

	// Hit is what the index holds of the call's prompt: CachedBlocks of it, so that
	// CachedTokens need not be computed.
	Hit                        kvcache.Hit
	CachedBlocks, CachedTokens int
	// InFlight is the unfinished requests of the router itself, and of others as far as
	// they tell it of theirs: Prefilling have no first
	// token yet, Decoding do. PrefillTokens is what the former had to compute when
	// they were sent, PrefillPairs its attention work.
	InFlight, Prefilling, Decoding int
	// OwnPrefilling is how many of Prefilling the router has sent itself.
	OwnPrefilling int
	// Coming is those of Decoding whose prompt another worker computes, until they
	// have their first token: what is left to compute is less than a block.
	Coming        int
	PrefillTokens int
	PrefillPairs  int64
	// PrefillSince is when the oldest of them began to be worked on, as far as the
	// router can tell: when it was sent to a worker that had none, or when the one
	// before it had its first token.
	PrefillSince time.Duration
	// Live holds the prompt blocks of unfinished requests and how many of these
	// have each; Tails counts their partly filled last blocks.
	Live  map[uint64]int
	Tails int

	// Waiting, Running and KVUsage are as the engine last reported. OtherWaiting and
	// OtherRunning are those of other routers that this one knows nothing of.
	Waiting, Running           int
	OtherWaiting, OtherRunning int
	KVUsage                    float64
	// ReportAge is how old that is.
	ReportAge time.Duration
	// Up: as far as the router knows.
	Up bool

	index int
}

// answers reports whether the worker serves requests to their end.
func (v *View) answers() bool { return v.Role != fleet.RolePrefill }

// State is what a rule decides on.
type State struct {
	// Now is the virtual time.
	Now time.Duration
	// Call is to be placed.
	Call *Call
	// Queued is the other calls that wait in the router.
	Queued int
	// Attempt counts from 1.
	Attempt int
	// Workers are those that the call may go to. They must not be changed.
	Workers []View
	// TransferRate is [Config.TransferRate].
	TransferRate float64
	// Index is the cache index, for rules that ask it for more.
	Index *kvcache.Index

	job     *Job
	cluster *cluster
	router  *router
}

// Engine is the truth about a worker, for rules that may cheat.
func (s *State) Engine(i int) *sim.Engine { return s.cluster.workers[s.Workers[i].index].engine }

// worker is what is known of a worker of the fleet, whether the call may go there or
// not.
func (s *State) worker(i int) *View {
	if s.router == nil { // there is nothing but the state
		return &s.Workers[i]
	}
	return &s.router.views[i]
}

// fleet is how many workers there are.
func (s *State) fleet() int { return len(s.router.views) }

// Wake has a [Binder] asked again after some time.
func (s *State) Wake(after time.Duration) {
	s.cluster.agenda.plan(event{at: s.Now + after, kind: wake, router: s.router})
}

// Relays reports whether the call may be served by two workers. The last of several
// attempts depends on one only.
func (s *State) Relays() bool { return s.Attempt < maxAttempts }

// Rule chooses a worker for every call.
type Rule interface {
	// Pick returns the place of a worker among those of the state.
	Pick(s *State) int
}

// Observer is a Rule that learns.
type Observer interface {
	// FirstToken tells how long the call's first token took from when it was sent to
	// the worker that answers.
	FirstToken(j *Job, ttft time.Duration)
}

// Booker is a Rule that is told when its choice was booked.
type Booker interface {
	Booked(j *Job)
}

// Auditor is a Rule that is told how many tokens of a finished request the
// engine that answered reports as cached.
type Auditor interface {
	Done(s *State, j *Job, cached int)
}

// Loser is a Rule that is told of calls that nobody answers, or not to the end.
type Loser interface {
	Lost(j *Job)
}

// Binder is a Rule that may leave calls waiting in the router. Pick is not used.
type Binder interface {
	// Bind names one of the waiting jobs and a worker of the fleet; -1 to wait on. It is
	// asked again until it says so, whenever something has changed.
	Bind(s *State, waiting []*Job) (job, worker int)
}
