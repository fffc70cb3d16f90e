package main

import (
	"fmt"
	"sync"
	"time"
)

// injected is what was done to workers, so that what failed because of it can be told from
// what failed for no reason. It is asked about each attempt at the moment that it fails.
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
	left int       // answers that are still to be cut off
	at   time.Time // since when
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

// cut says that so many answers of a worker will be cut off from now on.
func (i *injected) cut(worker string, n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cuts[worker] = &cuts{left: n, at: time.Now()} // as the engine has it: what was left before is not done
}

// explain says which injection an attempt has failed by, "" for none. That the engine said
// so of itself is the best reason; else its connection broke while it was being killed, or
// it was to cut off answers and has done so no more often than that.
func (i *injected) explain(a *attempt) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case a.confessed:
		return a.worker + " was made to answer with an error"
	case !a.broken:
		return ""
	}
	for n := range i.kills {
		if k := &i.kills[n]; k.worker == a.worker && !a.ended.Before(k.from) && (k.to.IsZero() || a.began.Before(k.to)) {
			return a.worker + " was killed"
		}
	}
	if c := i.cuts[a.worker]; c != nil && c.left > 0 && !a.ended.Before(c.at) {
		c.left--
		return fmt.Sprintf("%s was made to cut off answers, %d more", a.worker, c.left)
	}
	return ""
}
