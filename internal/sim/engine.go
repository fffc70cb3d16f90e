package sim

import (
	"errors"
	"fmt"
	"math"
)

// Defaults of [Config]: vLLM's for an online server on a GPU below 80 GB.
const (
	DefaultBlockSize   = 16
	DefaultTokenBudget = 2048
	DefaultMaxRunning  = 256
	// DefaultBlocks is 196,608 tokens: what is left of 48 GB beside 27 GB of
	// weights and the activations, at 64 KiB a token.
	DefaultBlocks = 12288
)

// Errors of [Engine.Submit] and [New].
var (
	// ErrTooLong: the request would not fit into the whole cache even alone. A
	// server answers it with 400.
	ErrTooLong = errors.New("sim: request is longer than the KV cache")
	// ErrRequest: the request has no tokens, or was submitted before.
	ErrRequest = errors.New("sim: request is empty or was submitted before")
	// ErrConfig: a setting is negative or beyond what can be represented.
	ErrConfig = errors.New("sim: invalid configuration")
)

// Config describes an engine. Zero fields take the defaults.
type Config struct {
	// BlockSize is in tokens.
	BlockSize int
	// Blocks is the capacity of the KV cache in blocks.
	Blocks int
	// TokenBudget is the most tokens one step computes (vLLM:
	// max_num_batched_tokens). Prompts beyond it are split over steps.
	TokenBudget int
	// MaxRunning is the most requests in one batch (vLLM: max_num_seqs).
	MaxRunning int
	// Timing is the cost of a step; zero means DefaultTiming.
	Timing Timing
	// InsertAfterPrefill makes blocks reusable only once a prompt has been computed
	// completely, and output blocks once the request has finished, as SGLang
	// does. Otherwise, as in vLLM, a block is reusable from the moment it is
	// allocated for a step.
	InsertAfterPrefill bool
	// Speculative lowers each hit by one block, as EAGLE and MTP do.
	Speculative bool
	// NoPrefixCache turns reuse, and so events, off.
	NoPrefixCache bool
	// NoEvents records no events. Without it the caller must take them.
	NoEvents bool
}

// Stats counts what an engine has done since it was made.
type Stats struct {
	// Steps is the number of forward passes.
	Steps uint64
	// PrefillTokens were computed for prompts (recomputation after preemption
	// included), DecodeTokens for outputs.
	PrefillTokens, DecodeTokens uint64
	// Generated is the number of tokens that came out.
	Generated uint64
	// QueriedTokens is the prompt length of all requests first scheduled, HitTokens
	// the part of it that was reused; their quotient is the hit rate.
	QueriedTokens, HitTokens uint64
	// RemoteTokens were computed by another engine.
	RemoteTokens uint64
	// Finished, Cancelled and Preempted count requests; a request can be preempted
	// more than once.
	Finished, Cancelled, Preempted uint64
}

// Engine is the model of one engine with one KV cache. It is not safe for
// concurrent use: one driver owns it.
type Engine struct {
	cfg     Config
	pool    *pool
	queue   queue
	running []*Request
	// fetching wait for KV from elsewhere in blocks of their own, ready have it.
	fetching, ready []*Request
	kept            int       // finished requests that hold their blocks
	spare           [][]int32 // block lists of finished requests, for reuse
	step            Step
	stats           Stats
}

// New returns an idle engine with an empty cache.
func New(cfg Config) (*Engine, error) {
	for _, d := range []struct {
		field *int
		value int
	}{
		{&cfg.BlockSize, DefaultBlockSize},
		{&cfg.Blocks, DefaultBlocks},
		{&cfg.TokenBudget, DefaultTokenBudget},
		{&cfg.MaxRunning, DefaultMaxRunning},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
		if *d.field < 0 || *d.field > math.MaxInt32 {
			return nil, fmt.Errorf("%w: block size, blocks, token budget and running requests must be in 1..%d", ErrConfig, math.MaxInt32)
		}
	}
	if cfg.Timing == (Timing{}) {
		cfg.Timing = DefaultTiming()
	}
	return &Engine{cfg: cfg, pool: newPool(cfg.Blocks, cfg.NoEvents)}, nil
}

// Config returns the configuration with the defaults filled in.
func (e *Engine) Config() Config { return e.cfg }

// SetTiming changes the cost of the steps to come.
func (e *Engine) SetTiming(t Timing) { e.cfg.Timing = t }

// Submit puts a request at the end of the queue. It may be called at any time,
// also while the duration of the last step is still passing: the queue is
// looked at when the next step is planned.
func (e *Engine) Submit(r *Request) error {
	if r.state != fresh || r.Prompt < 1 || r.Output < 1 || r.Remote < 0 {
		return ErrRequest
	}
	const most = math.MaxInt32 / 4 // so that sums fit an int of 32 bits
	if r.Prompt > most || r.Output > most {
		return ErrTooLong
	}
	// The last token generated is never fed back, so it needs no place.
	if e.blocksFor(r.Prompt+r.Output-1) > e.cfg.Blocks {
		return fmt.Errorf("%w: %d tokens, room for %d", ErrTooLong, r.Prompt+r.Output, e.cfg.Blocks*e.cfg.BlockSize)
	}
	r.state = waiting
	e.queue.push(r)
	return nil
}

// Cancel ends a request wherever it is and gives its blocks back; what they hold
// can still be reused. It reports whether the request was waiting or running.
func (e *Engine) Cancel(r *Request) bool {
	switch r.state {
	case waiting:
		if r.blocks == nil {
			e.queue.remove(r)
			break
		}
		e.ready = without(e.ready, r)
		e.releaseBlocks(r)
	case running:
		e.running = without(e.running, r)
		e.releaseBlocks(r)
	case fetching:
		e.fetching = without(e.fetching, r)
		e.releaseBlocks(r)
	default:
		return false
	}
	r.state = cancelled
	e.stats.Cancelled++
	return true
}

// Reset empties the prefix cache and reports whether it could: it can't while
// requests hold blocks.
func (e *Engine) Reset() bool { return e.pool.reset() }

// TakeEvents returns the events since the last call, in order. They stay valid
// until the next call.
func (e *Engine) TakeEvents() []Event { return e.pool.log.take() }

// Idle reports whether there is nothing to compute. Requests may wait for KV from
// elsewhere, and blocks be kept for others, all the same.
func (e *Engine) Idle() bool { return len(e.running) == 0 && e.queue.len() == 0 && len(e.ready) == 0 }

// Running returns the number of requests in the batch.
func (e *Engine) Running() int { return len(e.running) }

// Waiting returns the number of requests in the queue, preempted ones and those
// that wait for KV from elsewhere included.
func (e *Engine) Waiting() int { return e.queue.len() + len(e.fetching) + len(e.ready) }

// UsedBlocks returns the number of blocks held by requests. Blocks that are only
// cached don't count, as in the engines' own usage metric.
func (e *Engine) UsedBlocks() int { return e.cfg.Blocks - e.pool.free }

// CachedBlocks returns the number of distinct reusable blocks, held or not.
func (e *Engine) CachedBlocks() int { return len(e.pool.byHash) }

// Stats returns the counters.
func (e *Engine) Stats() Stats { return e.stats }

// Match returns how many tokens a request with these hashes and n prompt tokens
// would reuse if it were scheduled now. It changes nothing.
func (e *Engine) Match(hashes []uint64, n int) int {
	if e.cfg.NoPrefixCache || n < 1 {
		return 0
	}
	return e.pool.hits(hashes, n, e.cfg.BlockSize, e.cfg.Speculative) * e.cfg.BlockSize
}

// Cached calls fn for every reusable block until fn returns false, with the
// number of physical copies it has. The order is unspecified.
func (e *Engine) Cached(fn func(hash uint64, copies int) bool) {
	for hash, i := range e.pool.byHash {
		copies := 1
		for i = e.pool.blocks[i].twin; i != none; i = e.pool.blocks[i].twin {
			copies++
		}
		if !fn(hash, copies) {
			return
		}
	}
}

// Outstanding returns the prompt tokens that requests in the queue and the batch
// still have to compute. What waiting requests will find in the cache is not
// subtracted.
func (e *Engine) Outstanding() int {
	tokens := 0
	for _, r := range e.queue.items[e.queue.head:] {
		tokens += r.remaining()
	}
	for _, list := range [...][]*Request{e.running, e.fetching, e.ready} {
		for _, r := range list {
			if !r.decoding() {
				tokens += r.remaining()
			}
		}
	}
	return tokens
}

// blocksFor returns how many blocks n tokens occupy.
func (e *Engine) blocksFor(n int) int { return (n + e.cfg.BlockSize - 1) / e.cfg.BlockSize }
