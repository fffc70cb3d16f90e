package main

import (
	"context"
	"slices"
	"sync"

	"github.com/kvsteer/kvsteer/fleet"
)

// list is a Discoverer of workers that come and go.
type list struct {
	mu      sync.Mutex
	workers []fleet.Worker
	changed chan struct{}
}

func newList() *list { return &list{changed: make(chan struct{}, 1)} }

func (l *list) add(w fleet.Worker) {
	l.change(func(all []fleet.Worker) []fleet.Worker { return append(all, w) })
}

func (l *list) remove(name string) {
	l.change(func(all []fleet.Worker) []fleet.Worker {
		return slices.DeleteFunc(all, func(w fleet.Worker) bool { return w.Name == name })
	})
}

func (l *list) change(how func([]fleet.Worker) []fleet.Worker) {
	l.mu.Lock()
	l.workers = how(l.workers)
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default: // it will look anyway
	}
}

// Discover implements fleet.Discoverer.
func (l *list) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	for {
		l.mu.Lock()
		workers := slices.Clone(l.workers)
		l.mu.Unlock()
		if err := set(workers); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.changed:
		}
	}
}
