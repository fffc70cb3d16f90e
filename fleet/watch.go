package fleet

import (
	"slices"
	"strings"
	"sync"
)

// ChangeKind says what happened to a member.
type ChangeKind uint8

const (
	// Added: a new instance.
	Added ChangeKind = iota + 1
	// Removed: the instance left; drop all state kept under it. A worker that
	// restarted is Removed and Added, in this order.
	Removed
	// Updated: description, models, engine, health or draining changed.
	Updated
	// CacheLost: the engine says that it dropped its cache (it sleeps); clear what
	// is known of the cache's content. An Updated may follow.
	CacheLost
)

// String is the kind's name in lower case.
func (k ChangeKind) String() string {
	switch k {
	case Added:
		return "added"
	case Removed:
		return "removed"
	case Updated:
		return "updated"
	case CacheLost:
		return "cache-lost"
	default:
		return "unknown"
	}
}

// Change is one difference between two Snapshots.
type Change struct {
	Kind   ChangeKind
	Member *Member
	// Snapshot is the later one. Several Changes may share it.
	Snapshot *Snapshot
}

// Watch calls fn for each member there is, as Added, and then for each change,
// in order and never concurrently, from a goroutine of its own. Changes that fn
// was too slow for are folded: an instance that came and went between two calls
// is never mentioned. fn may use the Fleet but must not call Close or stop, both
// of which wait for it.
//
// stop ends the calls; when it returns none is running. It may be called more
// than once. Close stops all watchers; members are not reported as Removed then.
func (f *Fleet) Watch(fn func(Change)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return func() {}
	}
	f.wg.Go(func() {
		defer close(done)
		w := watcher{fn: fn, quit: quit, known: make(map[*Member]entry)}
		w.run(f)
	})
	var once sync.Once
	return func() {
		once.Do(func() { close(quit) })
		<-done
	}
}

type watcher struct {
	fn    func(Change)
	quit  chan struct{}
	known map[*Member]entry
}

func (w *watcher) run(f *Fleet) {
	for {
		s := f.Snapshot()
		if !w.announce(f, s) {
			return
		}
		select {
		case <-s.next:
		case <-w.quit:
			return
		case <-f.ctx.Done():
			return
		}
	}
}

// announce tells the differences between what was announced and s. It reports
// false if the watcher was stopped meanwhile.
func (w *watcher) announce(f *Fleet, s *Snapshot) bool {
	tell := func(kind ChangeKind, m *Member) bool {
		select {
		case <-w.quit:
			return false
		case <-f.ctx.Done():
			return false
		default:
			w.fn(Change{Kind: kind, Member: m, Snapshot: s})
			return true
		}
	}
	present := make(map[*Member]bool, len(s.members))
	for _, m := range s.members {
		present[m] = true
	}
	var gone []*Member
	for m := range w.known {
		if !present[m] {
			gone = append(gone, m)
		}
	}
	slices.SortFunc(gone, func(a, b *Member) int { return strings.Compare(a.id, b.id) })
	// The old instance of a name goes before the new one comes.
	for _, m := range gone {
		delete(w.known, m)
		if !tell(Removed, m) {
			return false
		}
	}
	for _, e := range s.entries {
		before, ok := w.known[e.member]
		w.known[e.member] = e
		switch {
		case !ok:
			if !tell(Added, e.member) {
				return false
			}
			continue
		case before.losses != e.losses:
			if !tell(CacheLost, e.member) {
				return false
			}
		}
		before.losses = e.losses
		if before != e && !tell(Updated, e.member) {
			return false
		}
	}
	return true
}
