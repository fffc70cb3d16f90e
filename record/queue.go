package record

import (
	"sync"
	"time"

	"github.com/kvsteer/kvsteer"
)

// item is an entry that waits to be written.
type item struct {
	at       time.Time
	decision *kvsteer.Decision
	rejected string
	outcome  Outcome // if decision is nil
	// lost entries should have come before this one.
	lost uint64
}

// ask is something that the writer is to do once what came before is written.
type ask struct {
	reopen bool
	done   chan error // has room for the answer: whoever asked may be gone
}

// queue is between the requests and the writer. It is bounded, and putting something
// in never waits but for the lock, which nobody holds for long.
type queue struct {
	mu    sync.Mutex
	items []item
	asks  []ask
	// spare is the memory of the items that were taken before.
	spare []item
	// held is the items here and those that the writer has taken and not written.
	held, limit int
	// lost are the entries that found no room since the last that did, dropped those of
	// all time.
	lost, dropped uint64
	closed        bool
	// wake has room for one: that there is something to do.
	wake chan struct{}
}

func newQueue(limit int) *queue {
	return &queue{limit: limit, wake: make(chan struct{}, 1)}
}

// put takes in an entry, or counts it as lost.
func (q *queue) put(it *item) {
	q.mu.Lock()
	if q.closed || q.held >= q.limit {
		q.lost++
		q.dropped++
		q.mu.Unlock()
		return
	}
	q.held++
	it.lost, q.lost = q.lost, 0
	q.items = append(q.items, *it)
	q.mu.Unlock()
	q.signal()
}

// request takes in an ask; false if nobody is going to see to it.
func (q *queue) request(a ask) bool {
	q.mu.Lock()
	open := !q.closed
	if open {
		q.asks = append(q.asks, a)
	}
	q.mu.Unlock()
	q.signal()
	return open
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take returns what there is to do. The items belong to the caller until it calls
// take again, who clears them. tail is the entries lost after all of items, once the queue is closed.
func (q *queue) take() (items []item, asks []ask, closed bool, tail uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.items, q.spare = q.items, q.spare[:0], q.items
	asks, q.asks = q.asks, nil
	if q.closed && len(items) == 0 {
		tail, q.lost = q.lost, 0
	}
	return items, asks, q.closed, tail
}

// wrote makes room.
func (q *queue) wrote(n int) {
	q.mu.Lock()
	q.held -= n
	q.mu.Unlock()
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.signal()
}

func (q *queue) counts() (held int, dropped uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held, q.dropped
}
