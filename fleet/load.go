package fleet

import "time"

// Load is one scrape of an engine's metrics. It is immutable.
type Load struct {
	// At is when the report came in.
	At time.Time
	// Total sums Ranks: counts are added, KVUsage is the mean over the ranks that
	// report it, BlockSize the greatest.
	Total RankLoad
	// Ranks has one entry for each data-parallel rank, in order. An engine that
	// doesn't report them apart is wholly in the first.
	Ranks []RankLoad
	// Sleeping: the engine says that it sleeps, which drops its cache.
	Sleeping bool
	// Started is when the engine's process began, zero if it doesn't say.
	Started time.Time
	// RunningAdapters and WaitingAdapters are names of LoRA adapters that requests
	// run with or wait for; MaxAdapters is how many fit at once, 0 if not reported.
	RunningAdapters, WaitingAdapters []string
	MaxAdapters                      int
	// Malformed counts the lines of the report that could not be read.
	Malformed int

	// own is what we had in flight on each rank of the Member when this report
	// was made, to tell others' requests from ours.
	own []ownWork
	// unsplit: the engine has several ranks and reports them as one; it stands in
	// Ranks[0].
	unsplit bool
}

// ownWork is what routers that we know of had in flight: this one, and its peers.
type ownWork struct {
	prefill, decode int // of all of them
	picks           uint64
}

// RankLoad is the load of one data-parallel rank, or of all together.
type RankLoad struct {
	// Label is the rank as the engine's metrics name it. Behind a load balancer
	// over nodes it is counted over all nodes and so differs from the place in
	// Load.Ranks.
	Label int
	// Known: the engine reported its queue. If false Running and Waiting mean
	// nothing.
	Known bool
	// Running and Waiting are requests in the batch and in the queue, those of
	// other clients included.
	Running, Waiting int
	// KVKnown: KVUsage was reported. It is the share, 0 to 1, of the KV cache held
	// by requests in flight; blocks that are cached but free don't count.
	KVKnown bool
	KVUsage float64
	// BlockSize in tokens and GPUBlocks in blocks; 0 if not reported.
	BlockSize, GPUBlocks int
	// CapacityTokens is the size of the GPU's KV cache in tokens, as reported or as
	// the product of the two above; 0 if unknown.
	CapacityTokens int
	// PrefixQueries and PrefixHits count tokens looked up and found in the prefix
	// cache since the engine started; both 0 if not reported.
	PrefixQueries, PrefixHits uint64
	// PromptTokens and GenerationTokens count tokens since the engine started.
	PromptTokens, GenerationTokens uint64
	// Preemptions counts requests pushed out of the batch for want of memory.
	Preemptions uint64

	requests uint64 // answered since the engine started, to notice a restart
}

// Pressure combines what we have in flight on a rank with what the engine last
// said of others, without counting anything twice.
type Pressure struct {
	// InFlight is our own part, exact.
	InFlight
	// Peers is the part of other routers that tell us of theirs, as they said it last; see
	// [Member.SetPeers]. It is not in InFlight, nor in the others' below. Picks is 0.
	Peers InFlight
	// Fresh: the engine's report is not older than Options.StaleAfter. If false
	// the fields below but Age are zero: the own part is all that is known, and it
	// is always valid.
	Fresh bool
	// Age of the report; 0 if there was none.
	Age time.Duration
	// OtherRunning and OtherWaiting are requests that are neither ours nor Peers': what the
	// engine reported less what all of those had in flight at that time. OthersKnown: it
	// did report its queue.
	OtherRunning, OtherWaiting int
	OthersKnown                bool
	// KVUsage as reported, 0 to 1; KVKnown if it was.
	KVUsage float64
	KVKnown bool
	// BegunSince counts our bookings since the report: work that its KVUsage can't
	// show yet.
	BegunSince int
}

// Pressure reads the load of a rank at time now. It takes no lock and does not
// allocate.
func (m *Member) Pressure(rank int, now time.Time) Pressure {
	p := Pressure{InFlight: m.InFlight(rank), Peers: m.Peers(rank)}
	l := m.load.Load()
	if l == nil {
		return p
	}
	p.Age = max(0, now.Sub(l.At))
	if p.Age > m.fleet.opts.StaleAfter {
		return p
	}
	if rank < 0 || rank >= len(m.ranks) {
		rank = 0
	}
	own := l.own[rank]
	p.BegunSince = int(p.Picks - own.picks)
	p.Fresh = true
	r, share := &l.Total, 1
	switch {
	case l.unsplit:
		// Which rank others' requests are on is not known: each has its share.
		share = len(m.ranks)
		own = l.allOwn()
	case len(m.ranks) > 1:
		r = &l.Ranks[rank]
	}
	p.KVUsage, p.KVKnown = r.KVUsage, r.KVKnown
	if !r.Known {
		return p
	}
	p.OthersKnown = true
	others := max(0, r.Running+r.Waiting-own.prefill-own.decode)
	// Of ours, those before their first token may wait or run; taking them off the
	// queue first never makes a queue of others out of our own requests.
	waiting := min(others, max(0, r.Waiting-own.prefill))
	p.OtherWaiting = (waiting + share - 1) / share
	p.OtherRunning = (others - waiting + share - 1) / share
	return p
}

func (l *Load) allOwn() ownWork {
	var sum ownWork
	for _, o := range l.own {
		sum.prefill += o.prefill
		sum.decode += o.decode
	}
	return sum
}

// sum fills Total from Ranks.
func (l *Load) sum() {
	t := RankLoad{}
	usages := 0
	for i := range l.Ranks {
		r := &l.Ranks[i]
		t.Known = t.Known || r.Known
		t.Running += r.Running
		t.Waiting += r.Waiting
		if r.KVKnown {
			t.KVUsage += r.KVUsage
			usages++
		}
		t.BlockSize = max(t.BlockSize, r.BlockSize)
		t.GPUBlocks += r.GPUBlocks
		t.CapacityTokens += r.CapacityTokens
		t.PrefixQueries += r.PrefixQueries
		t.PrefixHits += r.PrefixHits
		t.PromptTokens += r.PromptTokens
		t.GenerationTokens += r.GenerationTokens
		t.Preemptions += r.Preemptions
		t.requests += r.requests
	}
	if usages > 0 {
		t.KVKnown = true
		t.KVUsage /= float64(usages)
	}
	l.Total = t
}
