package kvsteer

import (
	"sync"
	"time"
)

// liveSet holds the Selections that have not ended, so that forgotten ones can
// be released. It is an intrusive list: joining and leaving cost a short lock
// and no memory.
type liveSet struct {
	mu    sync.Mutex
	head  *Selection
	count int
}

func (l *liveSet) add(s *Selection) {
	l.mu.Lock()
	s.next = l.head
	if l.head != nil {
		l.head.prev = s
	}
	l.head = s
	l.count++
	l.mu.Unlock()
}

func (l *liveSet) remove(s *Selection) {
	l.mu.Lock()
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.head = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	l.count--
	l.mu.Unlock()
}

func (l *liveSet) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// idleSince lists the Selections without a sign of life since the time.
func (l *liveSet) idleSince(t time.Time) []*Selection {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*Selection
	for s := l.head; s != nil; s = s.next {
		if s.touched.Load() < t.UnixNano() {
			out = append(out, s)
		}
	}
	return out
}
