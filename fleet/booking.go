package fleet

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer/internal/planted"
)

// Work is what a request is expected to cost a worker. Negative numbers count as
// zero.
type Work struct {
	// PrefillTokens are the prompt tokens to compute: those not found in the cache.
	PrefillTokens int
	// PrefillPairs is the (query, key) pairs that their attention visits: the part
	// of a prefill's cost that grows with the context.
	PrefillPairs int64
	// PromptTokens is the whole prompt, cached tokens included.
	PromptTokens int
	// OutputTokens is the expected length of the answer; 0 if unknown.
	OutputTokens int
	// Comes: another worker computes the prompt, and this one is to fetch it and answer.
	// It counts as decoding from the start, and among InFlight.Coming until its first
	// token; PrefillTokens and PrefillPairs count for nothing.
	Comes bool
}

// InFlight is what we have booked on one rank of a worker and not yet ended.
// It knows nothing of other routers' requests; see [Member.Pressure].
type InFlight struct {
	// Requests = PrefillRequests + DecodeRequests.
	Requests int
	// PrefillRequests have not produced their first token; PrefillTokens is what
	// they have to compute, in tokens.
	PrefillRequests int
	PrefillTokens   int
	PrefillPairs    int64
	// PrefillSince is when the rank began, as far as we can tell, on the oldest of
	// PrefillRequests: when that was booked on a rank without any, or when the one
	// before it had its first token. Zero without PrefillRequests.
	PrefillSince time.Time
	// DecodeRequests have produced their first token; OutputTokens is the sum of
	// their expected lengths, in tokens.
	DecodeRequests int
	OutputTokens   int
	// Coming is those of DecodeRequests that have no first token yet, as another worker
	// computes their prompt ([Work].Comes).
	Coming int
	// ContextTokens is the sum of prompts and expected answers of all requests:
	// what they will hold of the KV cache, shared prefixes counted each time.
	ContextTokens int
	// Picks counts the bookings ever made here. Pass it to [Member.TryBegin] to
	// book only if nobody else did since this look.
	Picks uint64
}

// ranked is the bookkeeping of one data-parallel rank.
//
// Writers hold mu. Readers take no lock: version is odd while a writer is at
// work, and a reader that saw it odd or changed looks again. A writer's section
// is a few additions, but it can be descheduled inside it, so that a reader
// gives up after some tries and waits for mu.
type ranked struct {
	mu      sync.Mutex
	version atomic.Uint64
	// All below are written under mu and between two steps of version.
	prefillRequests atomic.Int64
	prefillTokens   atomic.Int64
	prefillPairs    atomic.Int64
	prefillSince    atomic.Int64 // Unix nanoseconds
	decodeRequests  atomic.Int64
	outputTokens    atomic.Int64
	coming          atomic.Int64
	contextTokens   atomic.Int64
	picks           atomic.Uint64
	// peers is what other routers said that they have here; nil: nothing. It is written
	// under mu.
	peers atomic.Pointer[InFlight]
	// heard is when they said that they have more, latest when a prompt was last done, in
	// Unix nanoseconds; guarded by mu.
	heard  heard
	latest int64

	// Ranks are written by different cores all the time: keep each on cache lines
	// of its own.
	_ [64]byte
}

const optimisticReads = 8

func (r *ranked) read() InFlight {
	for range optimisticReads {
		before := r.version.Load()
		if before%2 == 1 {
			continue
		}
		f := r.load()
		if r.version.Load() == before {
			return f
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load()
}

func (r *ranked) load() InFlight {
	f := InFlight{
		PrefillRequests: int(r.prefillRequests.Load()),
		PrefillTokens:   int(r.prefillTokens.Load()),
		PrefillPairs:    r.prefillPairs.Load(),
		DecodeRequests:  int(r.decodeRequests.Load()),
		OutputTokens:    int(r.outputTokens.Load()),
		Coming:          int(r.coming.Load()),
		ContextTokens:   int(r.contextTokens.Load()),
		Picks:           r.picks.Load(),
	}
	if f.PrefillRequests > 0 {
		f.PrefillSince = time.Unix(0, r.prefillSince.Load())
	}
	f.Requests = f.PrefillRequests + f.DecodeRequests
	return f
}

// lock makes the caller the only writer and readers look again.
func (r *ranked) lock() {
	r.mu.Lock()
	r.version.Add(1)
}

func (r *ranked) unlock() {
	r.version.Add(1)
	r.mu.Unlock()
}

type phase uint8

const (
	phasePrefill phase = iota
	phaseComing
	phaseDecode
	phaseEnded
)

// Booking is a request in flight on a worker. Its methods are safe for
// concurrent use and may be called in any order and number: each counts once,
// and nothing counts after End. A Booking outlives its Member's presence in the
// fleet.
type Booking struct {
	member *Member
	rank   *ranked
	work   Work
	began  int64 // Unix nanoseconds
	phase  phase // guarded by rank.mu
}

// Member is the worker the request was booked on.
func (b *Booking) Member() *Member { return b.member }

// FirstToken says that the prefill is done: its tokens no longer weigh on the
// worker, and the request counts as decoding until End.
func (b *Booking) FirstToken() {
	r := b.rank
	now := b.member.fleet.opts.Now().UnixNano()
	r.lock()
	defer r.unlock()
	if b.phase == phaseComing {
		b.phase = phaseDecode
		r.coming.Add(-1)
	}
	if b.phase != phasePrefill {
		return
	}
	b.phase = phaseDecode
	r.prefillRequests.Add(-1)
	if !planted.PrefillStays {
		r.prefillTokens.Add(-int64(b.work.PrefillTokens))
	}
	r.prefillPairs.Add(-b.work.PrefillPairs)
	r.prefillSince.Store(now)
	r.theirsBegin(now)
	r.decodeRequests.Add(1)
	r.outputTokens.Add(int64(b.work.OutputTokens))
}

// End releases the request, however it ended. It reports whether this call did
// it, which is true exactly once.
func (b *Booking) End() bool {
	r := b.rank
	r.lock()
	defer r.unlock()
	switch b.phase {
	case phasePrefill:
		r.prefillRequests.Add(-1)
		r.prefillTokens.Add(-int64(b.work.PrefillTokens))
		r.prefillPairs.Add(-b.work.PrefillPairs)
	case phaseComing:
		r.coming.Add(-1)
		r.decodeRequests.Add(-1)
		r.outputTokens.Add(-int64(b.work.OutputTokens))
	case phaseDecode:
		r.decodeRequests.Add(-1)
		r.outputTokens.Add(-int64(b.work.OutputTokens))
	case phaseEnded:
		if planted.BookingEndsTwice {
			r.decodeRequests.Add(-1)
		}
		return false
	default:
		return false
	}
	b.phase = phaseEnded
	r.contextTokens.Add(-int64(b.work.PromptTokens + b.work.OutputTokens))
	b.member.fleet.inFlight.Add(-1)
	return true
}

// Begin books a request on a rank, whatever the worker's state: the caller has
// decided. A rank the worker doesn't have counts as rank 0. The caller must End
// the booking.
func (m *Member) Begin(rank int, work Work) *Booking {
	b := &Booking{member: m, rank: m.rank(rank), work: work.clamp()}
	now := m.fleet.opts.Now()
	b.rank.lock()
	b.start(now)
	b.rank.unlock()
	return b
}

// TryBegin books a request like Begin if nobody has booked on the rank since the
// caller saw InFlight.Picks = seenPicks, and the worker still takes requests
// (neither draining nor gone). If it reports false nothing is booked: look
// again, at a new Snapshot, and choose anew.
func (m *Member) TryBegin(rank int, seenPicks uint64, work Work) (*Booking, bool) {
	r := m.rank(rank)
	// The losers of a race should not pay for an allocation.
	if r.picks.Load() != seenPicks || m.Draining() && !planted.DrainIgnored || m.Gone() {
		return nil, false
	}
	b := &Booking{member: m, rank: r, work: work.clamp()}
	now := m.fleet.opts.Now()
	r.lock()
	defer r.unlock()
	if r.picks.Load() != seenPicks {
		return nil, false
	}
	b.start(now)
	return b, true
}

// start counts the booking in; rank.mu is held.
func (b *Booking) start(now time.Time) {
	r := b.rank
	b.began = now.UnixNano()
	if b.work.Comes {
		b.phase = phaseComing
		r.coming.Add(1)
		r.decodeRequests.Add(1)
		r.outputTokens.Add(int64(b.work.OutputTokens))
	} else {
		if r.prefillRequests.Add(1) == 1 {
			r.prefillSince.Store(now.UnixNano())
		}
		r.prefillTokens.Add(int64(b.work.PrefillTokens))
		r.prefillPairs.Add(b.work.PrefillPairs)
	}
	r.contextTokens.Add(int64(b.work.PromptTokens + b.work.OutputTokens))
	r.picks.Add(1)
	b.member.fleet.inFlight.Add(1)
}

// InFlight is what we have in flight on a rank, read at one instant without a
// lock. A rank the worker doesn't have reads as rank 0.
func (m *Member) InFlight(rank int) InFlight { return m.rank(rank).read() }

func (m *Member) rank(rank int) *ranked {
	if rank < 0 || rank >= len(m.ranks) {
		rank = 0
	}
	return &m.ranks[rank]
}

// maxWorkTokens keeps sums of nonsense estimates from overflowing.
const (
	maxWorkTokens = 1 << 30
	maxWorkPairs  = 1 << 46 // of 8 million tokens at once
)

func (w Work) clamp() Work {
	return Work{
		PrefillTokens: min(max(w.PrefillTokens, 0), maxWorkTokens),
		PrefillPairs:  min(max(w.PrefillPairs, 0), maxWorkPairs),
		PromptTokens:  min(max(w.PromptTokens, 0), maxWorkTokens),
		OutputTokens:  min(max(w.OutputTokens, 0), maxWorkTokens),
		Comes:         w.Comes,
	}
}
