package simulate

import (
	"container/heap"
	"time"

	"github.com/kvsteer/kvsteer/replica"
)

// kind says what happens at an instant.
type kind uint8

const (
	arrive  kind = iota // a call comes in
	step                // a worker's step ends
	publish             // KV events reach the router
	report              // the router scrapes the engines
	fetched             // the KV of a computed prompt is where it was fetched
	expire              // nobody has come for it
	crash               // a worker goes down
	restart             // and comes back
	user                // a user of the closed loop begins anew
	wake                // the rule wants to look at those that wait
	held                // a call's turn has come
	tell                // a router tells others what has changed
	beats               // and everything
	hear                // what one told arrives at another
)

// recurs reports whether events of a kind go on by themselves, or follow from those.
func (k kind) recurs() bool { return k == report || k >= tell }

// event is something to come. Events of one instant happen in the order in which
// they were planned.
type event struct {
	at    time.Duration
	order uint64
	kind  kind

	worker int
	life   int // of the worker: what was planned for another one does not happen
	job    *Job
	leg    *Leg // that has fetched
	by     *Leg // whose KV it is
	batch  []notice

	router  *router
	message *replica.Message
}

type agenda struct {
	events []event
	order  uint64
	due    int // of them, those that don't recur
}

func (a *agenda) plan(e event) {
	a.order++
	e.order = a.order
	if !e.kind.recurs() {
		a.due++
	}
	heap.Push((*byTime)(&a.events), e)
}

func (a *agenda) next() (event, bool) {
	if len(a.events) == 0 {
		return event{}, false
	}
	e, ok := heap.Pop((*byTime)(&a.events)).(event)
	if !e.kind.recurs() {
		a.due--
	}
	return e, ok
}

type byTime []event

func (h *byTime) Len() int { return len(*h) }

func (h *byTime) Less(i, j int) bool {
	a, b := &(*h)[i], &(*h)[j]
	if a.at != b.at {
		return a.at < b.at
	}
	return a.order < b.order
}

func (h *byTime) Swap(i, j int) { (*h)[i], (*h)[j] = (*h)[j], (*h)[i] }

func (h *byTime) Push(x any) {
	if e, ok := x.(event); ok {
		*h = append(*h, e)
	}
}

func (h *byTime) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return e
}
