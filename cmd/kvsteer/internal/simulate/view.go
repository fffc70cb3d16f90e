package simulate

import (
	"slices"
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
	// InFlight is the router's own unfinished requests: Prefilling have no first
	// token yet, Decoding do. PrefillTokens is what the former had to compute when
	// they were sent, PrefillPairs its attention work.
	InFlight, Prefilling, Decoding int
	PrefillTokens                  int
	PrefillPairs                   int64
	// PrefillSince is when the oldest of them began to be worked on, as far as the
	// router can tell: when it was sent to a worker that had none, or when the one
	// before it had its first token.
	PrefillSince time.Duration
	// Live holds the prompt blocks of unfinished requests and how many of these
	// have each; Tails counts their partly filled last blocks.
	Live  map[uint64]int
	Tails int

	// Waiting, Running and KVUsage are as the engine last reported.
	Waiting, Running int
	KVUsage          float64
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
}

// Engine is the truth about a worker, for rules that may cheat.
func (s *State) Engine(i int) *sim.Engine { return s.cluster.workers[s.Workers[i].index].engine }

// worker is what is known of a worker of the fleet, whether the call may go there or
// not.
func (s *State) worker(i int) *View {
	if s.cluster == nil { // there is nothing but the state
		return &s.Workers[i]
	}
	return &s.cluster.views[i]
}

// fleet is how many workers there are.
func (s *State) fleet() int { return len(s.cluster.views) }

// Wake has a [Binder] asked again after some time.
func (s *State) Wake(after time.Duration) {
	s.cluster.agenda.plan(event{at: s.Now + after, kind: wake})
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

// look brings the views up to date for a call, and shows those of workers that are
// up and have not failed it.
func (c *cluster) look(j *Job) *State {
	s := &c.state
	s.Now, s.Call, s.Attempt, s.job = c.now, j.Call, max(j.attempt, 1), j
	c.index.Match(j.keys, c.owners, c.hits)
	all := true
	for i := range c.views {
		v := &c.views[i]
		v.Hit = c.hits[i]
		v.CachedBlocks = int(v.Hit.Blocks)
		v.CachedTokens = kvcache.CachedTokens(v.CachedBlocks, v.BlockSize, j.Call.Prompt, false)
		if c.cfg.Faults.Stale == 0 {
			c.scrape(i)
		}
		v.ReportAge = c.now - c.reported
		all = all && c.may(j, i)
	}
	s.Workers = c.views
	if !all {
		c.some = c.some[:0]
		for i := range c.views {
			if c.may(j, i) {
				c.some = append(c.some, c.views[i])
			}
		}
		s.Workers = c.some
	}
	return s
}

// may reports whether a call may go to a worker.
func (c *cluster) may(j *Job, i int) bool { return c.views[i].Up && !slices.Contains(j.tried, i) }

// scrape reads what an engine reports.
func (c *cluster) scrape(i int) {
	c.reported = c.now
	v, e := &c.views[i], c.workers[i].engine
	v.Waiting, v.Running = e.Waiting(), e.Running()
	v.KVUsage = float64(e.UsedBlocks()) / float64(v.CapacityBlocks)
}
