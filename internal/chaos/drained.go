package chaos

import (
	"fmt"
	"maps"
	"net/http"
	"sync"

	"github.com/kvsteer/kvsteer"
)

// drains are the instances that are drained now, each with a number that no other drain has.
type drains struct {
	mu     sync.Mutex
	last   int
	now    map[string]int
	before map[string]map[string]int // by a request's id: those when it came
	wrong  string
}

// drain takes a site out of service, or back into it.
func (g *gateway) drain(s *site, on bool) {
	name, d := s.engine.Name(), &g.drains
	if !on {
		d.mu.Lock()
		for id := range d.now {
			if m := g.fleet.Snapshot().Member(name); m == nil || m.ID() == id {
				delete(d.now, id)
			}
		}
		d.mu.Unlock()
	}
	if g.fleet.Drain(name, on) != nil || !on {
		return // it may be that the fleet has not heard of it
	}
	if m := g.fleet.Snapshot().Member(name); m != nil && m.Draining() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.now == nil {
			d.now = make(map[string]int)
		}
		d.last++
		d.now[m.ID()] = d.last
	}
}

// comes notes what is drained when a request comes.
func (d *drains) comes(r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.before == nil {
		d.before = make(map[string]map[string]int)
	}
	d.before[r.Header.Get(headerID)] = maps.Clone(d.now)
}

// onDecision is told where a request goes: not to an instance that was drained before it came
// and has been all the time since.
func (g *gateway) onDecision(r *http.Request, d *kvsteer.Decision) {
	if d.Winner() == nil {
		return
	}
	id := r.Header.Get(headerID)
	g.drains.mu.Lock()
	defer g.drains.mu.Unlock()
	for _, to := range legsOf(d) {
		if n := g.drains.before[id][to]; n != 0 && n == g.drains.now[to] && g.drains.wrong == "" {
			g.drains.wrong = fmt.Sprintf("client %s is sent to %s, attempt %d, which was drained before it came", id, to, d.Attempt)
		}
	}
	if len(g.drains.before[id]) > 0 {
		g.world.tally.add("a choice while somebody is drained")
	}
}

func (d *drains) check() *Violation {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wrong != "" {
		return violation(Drained, "%s", d.wrong)
	}
	return nil
}
