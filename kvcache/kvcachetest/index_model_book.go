package kvcachetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/kvcache"
)

type modelBooking struct {
	expiry time.Time
	number uint64
	// end: a prompt that was booked ends here, so that the engine will have the
	// windows before it.
	end bool
}

// Book is [kvcache.Index.Book].
func (m *Model) Book(o kvcache.Owner, keys []kvcache.Key, ttl time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.owners[o]
	if s == nil || ttl <= 0 {
		return
	}
	now := m.opts.Now()
	s.expire(now)
	// From the last to the first, so that a prompt's end leaves before its start.
	for i, k := range slices.Backward(keys) {
		if _, ok := s.tier(k); ok {
			continue
		}
		if _, ok := s.booked[k]; !ok {
			s.Booked++
		}
		s.bookings++
		end := s.booked[k].end || s.hybrid() && i == len(keys)-1
		s.booked[k] = modelBooking{now.Add(ttl), s.bookings, end}
	}
	s.trim(m.opts.MaxProvisional)
}

// SetCapacity is [kvcache.Index.SetCapacity].
func (m *Model) SetCapacity(o kvcache.Owner, blocks int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.owners[o]; s != nil {
		s.expire(m.opts.Now())
		s.capacity = max(blocks, 0)
		s.trim(m.opts.MaxProvisional)
	}
}

func (s *modelOwner) trim(most int) {
	if s.capacity > 0 {
		most = min(most, s.capacity)
	}
	n := len(s.booked) - most
	if n <= 0 {
		return
	}
	s.Expired += uint64(n)
	oldest := slices.SortedFunc(maps.Keys(s.booked), func(a, b kvcache.Key) int {
		return cmp.Compare(s.booked[a].number, s.booked[b].number)
	})
	for _, k := range oldest[:n] {
		delete(s.booked, k)
	}
}

func (s *modelOwner) expire(now time.Time) {
	for k, b := range s.booked {
		if !now.Before(b.expiry) {
			delete(s.booked, k)
			s.Expired++
		}
	}
}
