package kvsteercaddy

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// exitTimeout bounds what ending the process waits for: requests that were cut off, and
// what closes behind requests.
const exitTimeout = 10 * time.Second

// errCutOff is why a request ends that outlasts grace_period. It is nobody's failure.
var errCutOff = fmt.Errorf("kvsteer: Caddy stopped before the answer was whole: %w", context.Canceled)

// What there is of the process, whichever configuration it is of. Caddy's pool of
// routers can't be looked at while it opens one.
//
//nolint:gochecknoglobals // Caddy's own state of what outlives a configuration is global too
var (
	standing standingRooms
	behind   background
)

// roomState is how far a room has come.
type roomState string

const (
	opening roomState = "opening"
	serving roomState = ""
	// ending: nobody asks its router any more, but answers are still on their way.
	ending roomState = "ending"
)

// standingRooms are the routers' rooms that there are, the oldest first.
type standingRooms struct {
	mu  sync.Mutex
	all []roomAt
}

type roomAt struct {
	room  *routerRoom
	state roomState
}

func (s *standingRooms) list() []roomAt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

func (s *standingRooms) set(r *routerRoom, state roomState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.all, func(at roomAt) bool { return at.room == r }); i >= 0 {
		s.all[i].state = state
		return
	}
	s.all = append(s.all, roomAt{r, state})
}

func (s *standingRooms) remove(r *routerRoom) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(at roomAt) bool { return at.room == r })
}

// cutOff ends the requests that are left, so that the decision log has their ends, and
// waits for that.
func (s *standingRooms) cutOff(ctx context.Context) {
	all := s.list()
	for _, at := range all {
		at.room.requests.cut()
	}
	for _, at := range all {
		at.room.requests.wait(ctx)
	}
}

// requests are those of a room that have not ended.
type requests struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // is closed when n falls to 0; nil if it is
	ends map[*uint8]context.CancelCauseFunc
	left func() // is called when the last has ended; nil while the router is asked
	over bool   // they were cut off
}

// begin counts a request until done.
func (q *requests) begin(r *http.Request) (_ *http.Request, done func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	key := new(uint8)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n++; q.n == 1 {
		q.none = make(chan struct{})
		q.ends = map[*uint8]context.CancelCauseFunc{}
	}
	q.ends[key] = cancel
	if q.over {
		cancel(errCutOff)
	}
	return r.WithContext(ctx), func() { q.done(key); cancel(nil) }
}

func (q *requests) done(key *uint8) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.ends, key)
	if q.n--; q.n > 0 {
		return
	}
	close(q.none)
	q.none = nil
	if left := q.left; left != nil {
		q.left = nil
		behind.do(left)
	}
}

// afterwards calls fn after the last request, at once if there is none, and returns what
// it says then. Later errors are told to failed.
func (q *requests) afterwards(fn func() error, failed func(error)) error {
	q.mu.Lock()
	if q.n > 0 {
		q.left = func() {
			if err := fn(); err != nil {
				failed(err)
			}
		}
		q.mu.Unlock()
		return nil
	}
	q.mu.Unlock()
	return fn()
}

func (q *requests) cut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.over = true
	for _, cancel := range q.ends {
		cancel(errCutOff)
	}
}

func (q *requests) wait(ctx context.Context) {
	q.mu.Lock()
	none := q.none
	q.mu.Unlock()
	if none == nil {
		return
	}
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// background is what closes behind requests, so that no answer waits for it.
type background struct {
	mu   sync.Mutex
	n    int
	none chan struct{}
}

func (b *background) do(fn func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n++; b.n == 1 {
		b.none = make(chan struct{})
	}
	go func() {
		defer b.done()
		fn()
	}()
}

func (b *background) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 {
		close(b.none)
	}
}

// wait waits until nothing closes any more.
func (b *background) wait(ctx context.Context) {
	for {
		b.mu.Lock()
		none, n := b.none, b.n
		b.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-none: // what has ended may have begun something
		case <-ctx.Done():
			return
		}
	}
}

// leaveAll ends, with the process, what no configuration ends any more.
func leaveAll(own func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	standing.cutOff(ctx)
	lingering.hurry()
	err := own()
	behind.wait(ctx)
	return err
}
