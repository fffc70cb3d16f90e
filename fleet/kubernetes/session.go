package kubernetes

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/kvsteer/kvsteer/fleet"
)

// fold is how long changes are gathered after a list was set: they come in bursts.
const fold = 10 * time.Millisecond

// session is one call of Discover: mirrors of what is watched, and the loop that makes
// lists of workers of them.
type session struct {
	ctx      context.Context //nolint:containedctx // that of Discover, which the mirrors live in
	opts     *Options
	problems *problems
	dirty    chan struct{}
	failure  chan error
	wg       sync.WaitGroup
	mirrors  map[string]*mirror
	last     []fleet.Worker
	set      func([]fleet.Worker) error
	wasSet   bool
}

// discover runs build whenever something changed and sets what it finds. build is told
// to come again by ready == false.
func discover(ctx context.Context, opts *Options, set func([]fleet.Worker) error,
	build func(s *session) (list []found, ready bool, err error),
) error {
	return keep(ctx, opts, func(s *session) error {
		s.set = set
		return s.round(build)
	})
}

// keep runs round whenever something changed, until ctx ends or round fails or what
// is watched can't be read.
func keep(ctx context.Context, opts *Options, round func(s *session) error) error {
	inner, cancel := context.WithCancel(ctx)
	s := &session{
		ctx: inner, opts: opts, problems: newProblems(opts),
		dirty: make(chan struct{}, 1), failure: make(chan error, 1), mirrors: map[string]*mirror{},
	}
	defer s.wg.Wait()
	defer cancel()
	s.touch()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case err = <-s.failure:
		case <-s.dirty:
			for _, m := range s.mirrors {
				m.used = false
			}
			err = round(s)
			s.sweep()
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(fold):
		}
	}
}

// sweep ends the mirrors that the last round did not need.
func (s *session) sweep() {
	for key, m := range s.mirrors {
		if !m.used {
			m.stop()
			delete(s.mirrors, key)
		}
	}
}

// round makes one list and sets it, unless it is the last one again and nothing new
// was wrong: who counts lists sees that something was left out.
func (s *session) round(build func(*session) ([]found, bool, error)) error {
	s.problems.begin()
	list, ready, failed := build(s)
	if !ready {
		return failed
	}
	slices.SortFunc(list, func(a, b found) int { return cmp.Compare(a.Name, b.Name) })
	workers := s.problems.sound(list)
	s.problems.end()
	same := s.wasSet && slices.EqualFunc(workers, s.last, func(a, b fleet.Worker) bool { return a.Equal(&b) })
	if (!same || s.problems.news) && s.ctx.Err() == nil {
		if err := s.set(workers); err != nil {
			return err
		}
		s.last, s.wasSet = workers, true
	}
	return failed
}

// touch asks for another round.
func (s *session) touch() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

func (s *session) fail(err error) {
	select {
	case s.failure <- err:
	default:
	}
}

// need is the mirror of that key, started if it isn't there.
func (s *session) need(key string, start func() *mirror) *mirror {
	m, ok := s.mirrors[key]
	if !ok {
		m = start()
		s.mirrors[key] = m
	}
	m.used = true
	return m
}

// onChange asks for another round after each change.
func (s *session) onChange() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.touch() },
		UpdateFunc: func(any, any) { s.touch() },
		DeleteFunc: func(any) { s.touch() },
	}
}
