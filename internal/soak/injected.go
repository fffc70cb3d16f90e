package main

import (
	"sync"
	"time"
)

// injected is what was done to workers, so that what failed because of it can be told from
// what failed for no reason.
type injected struct {
	mu    sync.Mutex
	kills []kill
	cuts  map[string]*cuts
}

type kill struct {
	worker   string
	from, to time.Time // to is zero while it goes on
}

type cuts struct {
	left int // answers that are still to be cut off, or were and have not been accounted for
	at   time.Time
}

// remembered is for longer than a request can take, with all that may hold it up.
const remembered = 5 * time.Minute

func newInjected() *injected { return &injected{cuts: map[string]*cuts{}} }

// killing says that a worker dies now. It returns what is to be called when it is up again.
func (i *injected) killing(worker string) func() {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	for len(i.kills) > 0 && !i.kills[0].to.IsZero() && now.Sub(i.kills[0].to) > remembered {
		i.kills = i.kills[1:]
	}
	for name, c := range i.cuts {
		if now.Sub(c.at) > remembered {
			delete(i.cuts, name)
		}
	}
	i.kills = append(i.kills, kill{worker: worker, from: now})
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		for n := range i.kills {
			if k := &i.kills[n]; k.worker == worker && k.to.IsZero() {
				k.to = time.Now()
			}
		}
	}
}

// cut says that so many answers of a worker will be cut off.
func (i *injected) cut(worker string, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.cuts[worker]
	if c == nil {
		c = &cuts{}
		i.cuts[worker] = c
	}
	c.left += n
	c.at = time.Now()
}

// explains reports whether an answer of a worker, asked for at the given moment, has broken
// off because of something that was done.
func (i *injected) explains(worker string, asked time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, k := range i.kills {
		if k.worker == worker && (k.to.IsZero() || k.to.After(asked)) {
			return true
		}
	}
	if c := i.cuts[worker]; c != nil && c.left > 0 {
		c.left--
		return true
	}
	return false
}
