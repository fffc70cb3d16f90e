package kvsteercaddy

import (
	"sync"
	"time"
)

// linger is for how long a handler that is no longer configured keeps its router though
// no request uses it. A server that shuts down still takes requests on connections that
// were opened just before: net/http gives those 5 s to begin one.
const linger = 10 * time.Second

// users counts the requests of a handler that may still have to be sent somewhere, so
// that the router is let go of after the last of them: Caddy cleans up a configuration
// while its requests are still served.
type users struct {
	linger time.Duration
	last   func() error // is called once
	failed func(error)  // is told of its error when nobody else can be

	mu   sync.Mutex
	n    int
	gone bool // retired
	done bool // last was called
}

func (u *users) enter() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n++
}

// leave lets no request wait for what is closed after it.
func (u *users) leave() {
	if u.without() {
		behind.do(func() { u.tell(u.last()) })
	}
}

// over reports whether the router was let go of.
func (u *users) over() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.done
}

// without counts one less and reports whether it was the last.
func (u *users) without() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	last := u.gone && u.n == 0 && !u.done
	u.done = u.done || last
	return last
}

func (u *users) end() error {
	if !u.without() {
		return nil
	}
	return u.last()
}

func (u *users) tell(err error) {
	if err != nil {
		u.failed(err)
	}
}

// retire says that there will be no more, soon. With now, as when the process ends, all
// requests are cut off and those that linger elsewhere are let go of as well.
func (u *users) retire(now bool) error {
	u.mu.Lock()
	if u.gone {
		u.mu.Unlock()
		return nil
	}
	u.gone = true
	u.n++ // ourselves
	u.mu.Unlock()
	switch {
	case now:
		return leaveAll(u.end)
	case u.linger > 0:
		lingering.add(u)
		return nil
	default:
		return u.end()
	}
}

// lingering is of the process, as configurations are: the last of them must end what
// those before it left behind.
//
//nolint:gochecknoglobals // Caddy's own state of what outlives a configuration is global too
var lingering = lingerers{timers: map[*users]*time.Timer{}}

type lingerers struct {
	mu     sync.Mutex
	timers map[*users]*time.Timer
}

func (l *lingerers) add(u *users) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timers[u] = time.AfterFunc(u.linger, func() { l.take(u) })
}

// take ends the lingering of u unless that was done.
func (l *lingerers) take(u *users) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, ok := l.timers[u]; ok {
		t.Stop()
		delete(l.timers, u)
		u.leave()
	}
}

// hurry ends all lingering, and returns when what that closes is closed.
func (l *lingerers) hurry() {
	l.mu.Lock()
	var all []*users
	for u, t := range l.timers {
		t.Stop()
		all = append(all, u)
	}
	clear(l.timers)
	l.mu.Unlock()
	for _, u := range all {
		u.tell(u.end())
	}
}
