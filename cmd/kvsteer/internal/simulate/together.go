package simulate

import (
	"slices"
	"time"

	"github.com/kvsteer/kvsteer/internal/steer"
)

// Together is the product as it comes: calls that are in the router at the same moment
// are looked at together. A call that comes alone goes at once. Those that come at one
// instant, or while others wait so, each wait for their hesitation: a real router knows
// who else is about to choose and waits no longer than for that, which would cost nothing
// here.
type Together struct {
	*Steer
	// Gather bounds how long a call waits.
	Gather time.Duration

	moment  steer.Moment
	members map[*Job]*member
	all     []steer.Contender
	jobs    []*Job // of all
}

// member is a call that has come.
type member struct {
	came, due time.Duration
	waits     bool
}

// defaultTogether is the router's bound.
const defaultTogether = 5 * time.Millisecond

func newTogether(r *Steer, gather time.Duration) *Together {
	return &Together{Steer: r, Gather: gather, members: map[*Job]*member{}}
}

// Bind implements [Binder].
func (m *Together) Bind(s *State, waiting []*Job) (job, worker int) {
	for n, j := range waiting {
		w := m.members[j]
		if w == nil { // others of the instant may be behind it
			m.members[j] = &member{came: s.Now}
			s.Wake(1)
			continue
		}
		if w.waits || s.Now == w.came {
			continue
		}
		if len(waiting) > 1 {
			if at := m.ask(s, j); at < 0 {
				return m.serve(s, waiting, n)
			}
			// By gathering those that two workers may serve one loses.
			if h := steer.Hesitation(m.work(), m.Gather); h > 0 && m.round.Relay == nil {
				w.waits, w.due = true, w.came+max(h, 1)
				s.Wake(w.due - s.Now)
				continue
			}
		}
		return m.serve(s, waiting, n)
	}
	return m.next(s, waiting)
}

// next chooses for the first of those that wait, if one is due that comes no earlier.
func (m *Together) next(s *State, waiting []*Job) (job, worker int) {
	m.jobs = m.jobs[:0]
	room := steer.MostTogether(len(s.Workers))
	for _, j := range waiting {
		if w := m.members[j]; w.waits && len(m.jobs) < room {
			m.jobs = append(m.jobs, j)
		}
	}
	full := len(m.jobs) == room
	if !full && !slices.ContainsFunc(m.jobs, func(j *Job) bool { return s.Now >= m.members[j].due }) {
		return -1, -1
	}
	m.all = slices.Grow(m.all[:0], len(m.jobs))[:len(m.jobs)]
	for k, j := range m.jobs {
		m.all[k] = steer.Contender{Bids: m.all[k].Bids[:0]}
		if m.ask(s, j) >= 0 {
			m.all[k].Bids = m.round.Bids(m.all[k].Bids, m.bid)
		}
	}
	order := m.moment.Order(m.all)
	if !full {
		for k, i := range order { // those before one that is due are so themselves
			if s.Now >= m.members[m.jobs[i]].due {
				for _, before := range order[:k] {
					m.members[m.jobs[before]].due = s.Now
				}
			}
		}
	} else {
		for _, j := range m.jobs {
			m.members[j].due = s.Now
		}
	}
	return m.serve(s, waiting, slices.Index(waiting, m.jobs[order[0]]))
}

// bid is what steer.Round.Bids asks of candidate i.
func (m *Together) bid(i int) (place int, prefill float64) {
	return m.places[i], m.round.Predictions[i].Prefill.Seconds()
}

// work is what the prefill takes where the call that was asked about would go.
func (m *Together) work() time.Duration {
	at, k := m.computes()
	return at.Predictions[k].Prefill
}

// ask evaluates a call.
func (m *Together) ask(s *State, j *Job) int { return m.Pick(s.router.look(j)) }

// serve chooses for one that waits.
func (m *Together) serve(s *State, waiting []*Job, n int) (job, worker int) {
	j := waiting[n]
	at := m.ask(s, j)
	if at < 0 { // until there is a worker
		return -1, -1
	}
	delete(m.members, j)
	return n, s.Workers[at].index
}
