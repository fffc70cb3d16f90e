package kubernetes

import "sync"

// memory is what a Discoverer knows from one call of Discover to the next: a call ends
// whenever the API server can't be read, and that must make nobody another instance
// and no object say less than before. Fleets that share a Discoverer run several calls
// at a time, each of which has a past of its own.
type memory struct {
	mu   sync.Mutex
	idle []*past
}

// past is for one call of Discover at a time.
type past struct {
	told  *problems
	lives lives
	// sets is what each set said last that was right, by namespace/name.
	sets map[string]*InferenceWorkerSetSpec
	// pool is the same of a pool, and poolSeen whether there was one.
	pool     *InferencePoolSpec
	poolSeen bool
}

// take is what an earlier call left, to be left again.
func (m *memory) take(opts *Options) *past {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.idle); n > 0 {
		p := m.idle[n-1]
		m.idle = m.idle[:n-1]
		return p
	}
	return &past{
		told: newProblems(opts), lives: lives{count: map[life]int{}, out: map[life]bool{}},
		sets: map[string]*InferenceWorkerSetSpec{},
	}
}

func (m *memory) leave(p *past) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = append(m.idle, p)
}
