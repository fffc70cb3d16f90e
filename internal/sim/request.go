package sim

// Request is one generation. The exported fields are set by the caller before
// Submit and not changed until the request has finished or was cancelled; the
// engine keeps its own state in the rest, so a Request is submitted once.
type Request struct {
	// Prompt is the number of prompt tokens, at least 1.
	Prompt int
	// Output is the number of tokens that will be generated, at least 1.
	Output int
	// Hashes identifies the request's full blocks in order; each hash stands for
	// its block and all before it. Hashes beyond the prompt name the blocks that
	// the output fills. Blocks beyond the list are computed but never cached.
	Hashes []uint64
	// Tokens holds the ids that Hashes covers, for events to quote. Optional.
	Tokens []uint32
	// Remote is the number of leading prompt tokens whose KV another engine sends:
	// they need blocks but no computation. At least one token is always computed.
	Remote int
	// Fetch makes the Remote tokens take time: once the request has its blocks a
	// [Step] says so in Fetches, and it waits until the caller says [Engine.Fetched].
	// Otherwise they are there at once.
	Fetch bool
	// Keep holds the request's blocks when it has finished, for another engine to
	// read, until [Engine.Release].
	Keep bool
	// Tag is the caller's.
	Tag any

	state     state
	blocks    []int32
	cached    int // leading blocks that have their hash registered
	computed  int // tokens whose KV is in blocks
	generated int
	scheduled int // tokens of the step being planned
	hit       int // tokens reused when first scheduled
	preempted int
	started   bool // has been scheduled at least once
}

// state is where a request is in its life.
type state uint8

const (
	fresh state = iota
	waiting
	fetching
	running
	kept
	finished
	cancelled
)

// CachedTokens returns how many prompt tokens needed no computation when the
// request was first scheduled, because they were cached or came from another
// engine. It is -1 before that.
func (r *Request) CachedTokens() int {
	if !r.started {
		return -1
	}
	return r.hit
}

// Generated returns how many tokens have been generated.
func (r *Request) Generated() int { return r.generated }

// Preemptions returns how often the request lost its blocks to others.
func (r *Request) Preemptions() int { return r.preempted }

// known is the number of tokens that exist: given or generated.
func (r *Request) known() int { return r.Prompt + r.generated }

// remaining is the number of prompt tokens not yet computed; for a request that
// was preempted while decoding, also those generated before.
func (r *Request) remaining() int { return r.known() - r.computed }

// decoding reports whether the next step computes only the last token.
func (r *Request) decoding() bool { return r.generated > 0 && r.remaining() == 1 }

// queue is a first-in first-out list of requests that also takes one back at
// its front.
type queue struct {
	items []*Request
	head  int
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) front() *Request { return q.items[q.head] }

func (q *queue) push(r *Request) { q.items = append(q.items, r) }

func (q *queue) pop() {
	q.items[q.head] = nil
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
		return
	}
	// Move down once the dead part is the greater one: amortised constant cost.
	if q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
}

func (q *queue) unpop(r *Request) {
	if q.head > 0 {
		q.head--
		q.items[q.head] = r
		return
	}
	q.items = append(q.items, nil)
	copy(q.items[1:], q.items)
	q.items[0] = r
}

func (q *queue) remove(r *Request) {
	for i := q.head; i < len(q.items); i++ {
		if q.items[i] == r {
			copy(q.items[i:], q.items[i+1:])
			q.items[len(q.items)-1] = nil
			q.items = q.items[:len(q.items)-1]
			return
		}
	}
}
