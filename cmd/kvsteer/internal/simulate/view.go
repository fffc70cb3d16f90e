package simulate

import (
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/sim"
	"github.com/kvsteer/kvsteer/kvcache"
)

// View is what a rule may know of one worker: what the router itself has in
// flight, what the cache index holds, what the engine last reported.
type View struct {
	// Name and Class are the worker's, Owner its place in the index.
	Name, Class string
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

	index int
}

// State is what a rule decides on.
type State struct {
	// Now is the virtual time.
	Now time.Duration
	// Call is to be placed.
	Call *Call
	// Queued is the other calls that wait in the router.
	Queued int
	// Workers must not be changed.
	Workers []View
	// Index is the cache index, for rules that ask it for more.
	Index *kvcache.Index

	cluster *cluster
}

// Engine is the truth about a worker, for rules that may cheat.
func (s *State) Engine(i int) *sim.Engine { return s.cluster.workers[i].engine }

// Rule chooses a worker for every call.
type Rule interface {
	// Pick returns the index of a worker.
	Pick(s *State) int
}

// Observer is a Rule that learns.
type Observer interface {
	// FirstToken tells how long the call's first token took from when it was sent.
	FirstToken(j *Job, ttft time.Duration)
}

// Booker is a Rule that is told when its choice was booked.
type Booker interface {
	Booked(j *Job, worker int)
}

// Auditor is a Rule that is told how many tokens of a finished request the
// engine reports as cached.
type Auditor interface {
	Done(s *State, j *Job, cached int)
}

// Binder is a Rule that may leave calls waiting in the router. Pick is not used.
type Binder interface {
	// Bind names one of the waiting jobs and a worker for it; -1 to wait on. It is
	// asked again until it says so, whenever something has changed.
	Bind(s *State, waiting []*Job) (job, worker int)
}

// look brings the views up to date for a call.
func (c *cluster) look(j *Job) *State {
	s := &c.state
	s.Now, s.Call = c.now, j.Call
	c.index.Match(j.keys, c.owners, c.hits)
	for i := range s.Workers {
		v := &s.Workers[i]
		v.Hit = c.hits[i]
		v.CachedBlocks = int(v.Hit.Blocks)
		v.CachedTokens = kvcache.CachedTokens(v.CachedBlocks, v.BlockSize, j.Call.Prompt, false)
		if c.cfg.Faults.Stale == 0 {
			c.scrape(i)
		}
		v.ReportAge = c.now - c.reported
	}
	return s
}

// scrape reads what an engine reports.
func (c *cluster) scrape(i int) {
	c.reported = c.now
	v, e := &c.state.Workers[i], c.workers[i].engine
	v.Waiting, v.Running = e.Waiting(), e.Running()
	v.KVUsage = float64(e.UsedBlocks()) / float64(v.CapacityBlocks)
}

// book makes the choice visible to whoever looks next.
func (c *cluster) book(j *Job, i int) {
	v := &c.state.Workers[i]
	w := &c.workers[i]
	w.prefilling = append(w.prefilling, j)
	j.worker = i
	j.cached = v.CachedTokens
	j.work = j.Call.Prompt - v.CachedTokens
	j.pairs = pairs(j.work, j.cached)
	if v.Prefilling == 0 {
		v.PrefillSince = c.now
	}
	v.InFlight++
	v.Prefilling++
	v.PrefillTokens += j.work
	v.PrefillPairs += j.pairs
	full := j.Call.Prompt / v.BlockSize
	for _, b := range j.Call.Blocks[:min(full, len(j.Call.Blocks))] {
		v.Live[b]++
	}
	if j.Call.Prompt%v.BlockSize != 0 {
		v.Tails++
	}
	if c.pool == nil {
		ttl := bookTTL
		if v.PrefillTokens <= v.CapacityBlocks*v.BlockSize { // else it is going to be evicted before
			ttl = max(ttl, lateFactor*c.expects(i))
		}
		c.index.Book(v.Owner, j.keys, ttl)
	}
	if c.booker != nil {
		c.booker.Booked(j, i)
	}
}

// bookTTL is the router's, but for as long as the first token is expected to take
// it must not end.
const (
	bookTTL    = time.Minute
	lateFactor = 2
)

// expects is when the call's first token is expected: by the rule, or by who knows.
func (c *cluster) expects(i int) time.Duration {
	if p, ok := c.rule.(interface {
		expects(worker int) time.Duration
	}); ok {
		return p.expects(i)
	}
	return trueTTFT(&c.state, i)
}

func (c *cluster) firstToken(j *Job) {
	v := &c.state.Workers[j.worker]
	v.PrefillSince = c.now
	v.Prefilling--
	v.Decoding++
	v.PrefillTokens -= j.work
	v.PrefillPairs -= j.pairs
	w := &c.workers[j.worker]
	w.prefilling = slices.DeleteFunc(w.prefilling, func(o *Job) bool { return o == j })
	w.context += j.Call.Prompt
}

func (c *cluster) end(j *Job) {
	v := &c.state.Workers[j.worker]
	v.InFlight--
	v.Decoding--
	c.workers[j.worker].context -= j.Call.Prompt
	full := j.Call.Prompt / v.BlockSize
	for _, b := range j.Call.Blocks[:min(full, len(j.Call.Blocks))] {
		if v.Live[b]--; v.Live[b] == 0 {
			delete(v.Live, b)
		}
	}
	if j.Call.Prompt%v.BlockSize != 0 {
		v.Tails--
	}
}

// pairs is the attention work of computing uncached tokens behind cached ones.
func pairs(uncached, cached int) int64 {
	u, c := int64(uncached), int64(cached)
	return u*c + u*(u+1)/2
}
