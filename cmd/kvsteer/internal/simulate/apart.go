package simulate

import (
	"fmt"

	"github.com/kvsteer/kvsteer/fleet"
)

// Apart is another system's rule in a fleet whose workers have separate roles: who
// computes a prompt is chosen by the rule among those that do that, who answers by
// the rule, with a memory of its own, among the others. All prompts that two workers
// may serve are, however short.
type Apart struct {
	Prefill, Decode Rule

	by    int
	state State
	some  []View
}

// NewApart makes a rule by its name for a fleet of workers with separate roles.
func NewApart(name string, seed uint64) (Rule, error) {
	first, err := NewRule(name, seed)
	if err != nil {
		return nil, err
	}
	if _, ok := first.(Relayer); ok {
		return first, nil // the product
	}
	switch first.(type) {
	case *Bound, *LowestTTFT:
		return nil, fmt.Errorf("%s knows no workers of separate roles", name)
	default:
	}
	second, err := newRule(name, seed, streamDecode)
	return &Apart{Prefill: first, Decode: second}, err
}

// Pick implements [Rule].
func (a *Apart) Pick(s *State) int {
	a.by = -1
	i := a.among(a.Decode, s, (*View).answers)
	if i < 0 || s.Workers[i].Role != fleet.RoleDecode || !s.Relays() {
		return i
	}
	if k := a.among(a.Prefill, s, func(v *View) bool { return !v.answers() }); k >= 0 {
		a.by = s.Workers[k].index
	}
	return i
}

// Relay implements [Relayer].
func (a *Apart) Relay() int { return a.by }

// among lets a rule choose from some of the workers, and returns the place of its
// choice among all; -1 if there are none.
func (a *Apart) among(r Rule, s *State, may func(*View) bool) int {
	a.state, a.some = *s, a.some[:0]
	var places []int
	for i := range s.Workers {
		if may(&s.Workers[i]) {
			a.some = append(a.some, s.Workers[i])
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return -1
	}
	a.state.Workers = a.some
	i := r.Pick(&a.state)
	if i < 0 || i >= len(places) {
		return -1
	}
	return places[i]
}
