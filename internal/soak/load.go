package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kvsteer/kvsteer"
)

// load sends requests when they are due, whatever became of those before, unless more than
// a machine can bear are under way.
type load struct {
	rig      *rig
	asking   *asking
	client   *http.Client
	wg       sync.WaitGroup
	slots    chan struct{} // taken by those under way
	inFlight atomic.Int64
	sent     int
	late     times // by how much requests were late to leave
	took     times // from when a request was due until all of its answer was here

	mu       sync.Mutex
	counts   [outcomes]int
	failures []string // the first
	told     int      // of them
	causes   []string // of those that failed by injection, the first
	// retried are the attempts that failed by no injection and were made good by another;
	// unexplained says why, of the first.
	retried     int
	unexplained []string
}

func newLoad(r *rig, w *workers, c *config) *load {
	return &load{
		rig: r, slots: make(chan struct{}, c.open),
		asking: &asking{config: c, workers: w, began: time.Now()},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024, IdleConnTimeout: time.Minute}},
	}
}

// resting waits until nothing is under way and takes a sample; false if this is no moment
// for it.
type resting func() (taken bool, err error)

// run sends n requests at a rate, or fewer if that takes longer than it may. After every so
// many of them it calls rest, again and again until that does not decline; the time
// that this takes is not counted.
func (l *load) run(ctx context.Context, n int, rate float64, every int, rest resting) (ran time.Duration, err error) {
	began := time.Now()
	var rested time.Duration
	interval := time.Duration(float64(time.Second) / rate)
	most := l.asking.config.most
	for waits := 0; l.sent < n && (most == 0 || time.Since(began) < most); {
		due := began.Add(rested + time.Duration(l.sent)*interval)
		if early := time.Until(due); early > 0 {
			if err := pause(ctx, early); err != nil {
				return 0, err
			}
		} else if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		select {
		case l.slots <- struct{}{}:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		l.late.add(time.Since(due))
		l.send(ctx, uint64(l.sent), due)
		l.sent++
		if waits++; waits < every && l.sent < n {
			continue
		}
		stopped := time.Now()
		taken, err := rest()
		if err != nil {
			return 0, err
		}
		if taken {
			waits = 0
			rested += time.Since(stopped)
		}
	}
	l.wg.Wait()
	return time.Since(began) - rested, nil
}

func (l *load) send(ctx context.Context, n uint64, due time.Time) {
	l.inFlight.Add(1)
	l.wg.Go(func() {
		defer func() {
			l.inFlight.Add(-1)
			<-l.slots
		}()
		q := l.asking.question(n)
		if strangers := l.asking.workers.strangers; strangers != nil {
			strangers.meet(q.extra.Get(kvsteer.HeaderSession), q.adapter)
		}
		var t trail
		became, why := l.ask(ctx, n, &q, &t)
		l.asking.workers.answered(q.adapter)
		l.took.add(time.Since(due))
		l.mu.Lock()
		defer l.mu.Unlock()
		l.counts[became]++
		const enough, few = 20, 5
		at := fmt.Sprintf("request %d after %v: ", n, time.Since(l.asking.began).Round(time.Second))
		switch {
		case became == failed && len(l.failures) < enough:
			l.failures = append(l.failures, at+why)
		case became == injury && len(l.causes) < few:
			l.causes = append(l.causes, at+why)
		case became == answered:
			more := t.unexplained()
			l.retried += len(more)
			for _, m := range more {
				if len(l.unexplained) < few {
					l.unexplained = append(l.unexplained, at+m)
				}
			}
		}
	})
}

// failedSoFar says how many have failed, and why those that have since it was last asked.
func (l *load) failedSoFar() (n int, news []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news = l.failures[l.told:]
	l.told = len(l.failures)
	return l.counts[failed], news
}
