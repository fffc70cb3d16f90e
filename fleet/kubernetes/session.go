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
	// reports write to the cluster once the list is set: nobody waits for that.
	reports []func()
}

// discover runs build whenever something changed and sets what it finds. build is told
// to come again by ready == false.
func discover(ctx context.Context, opts *Options, told *problems, set func([]fleet.Worker) error,
	build func(s *session) (list []found, ready bool, err error),
) error {
	return keep(ctx, opts, told, func(s *session) error {
		s.set = set
		return s.round(build)
	})
}

// keep runs round whenever something changed, until ctx ends or round fails or what
// is watched can't be read.
func keep(ctx context.Context, opts *Options, told *problems, round func(s *session) error) error {
	inner, cancel := context.WithCancel(ctx)
	s := &session{
		ctx: inner, opts: opts, problems: told,
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
	s.reports = nil
	list, ready, failed := build(s)
	if !ready {
		s.report()
		return failed
	}
	slices.SortFunc(list, inOrder)
	workers := s.problems.sound(list)
	same := s.wasSet && slices.EqualFunc(workers, s.last, func(a, b fleet.Worker) bool { return a.Equal(&b) })
	if (!same || s.problems.news) && s.ctx.Err() == nil {
		if err := s.set(workers); err != nil {
			return err
		}
		s.last, s.wasSet = workers, true
	}
	s.report()
	s.problems.end()
	return failed
}

// inOrder is total, so that of two that clash it is always the same that stays.
func inOrder(a, b found) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.from.kind, b.from.kind),
		cmp.Compare(a.from.namespace, b.from.namespace), cmp.Compare(a.from.name, b.from.name),
		cmp.Compare(a.URL, b.URL), cmp.Compare(a.Epoch, b.Epoch))
}

func (s *session) report() {
	for _, write := range s.reports {
		write()
	}
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
