package policy

import (
	"slices"
	"sync"
)

// Options are what policies are compiled with beside themselves. The zero value is
// fine.
type Options struct {
	// Models labels models, for rules that name them by labels, beside what each spec
	// itself says; where both label a model, the spec's labels come first.
	Models []ModelLabels
}

// NoMatchRule is the name of the rule that a [Set] applies when no rule of its
// policies matches: local workers that serve the requested model, the lowest
// predicted time to first token first.
const NoMatchRule = "default: no rule matched"

// Set is one or several policies, compiled by [Compile]. It is immutable and safe
// for concurrent use, and lives as long as somebody refers to it.
type Set struct {
	version string
	// enforced and shadow are sorted: the first is asked first.
	enforced, shadow []program
	needs            Needs
	scratch          sync.Pool
}

var (
	_ Scoped = (*Set)(nil)
	_ Needy  = (*Set)(nil)
)

// program is one policy.
type program struct {
	name     string
	priority int
	mode     Mode
	pools    []string
	rules    []rule
}

// rule is compiled from a [Rule].
type rule struct {
	name     string
	matches  []match
	consider []consider
	exclude  []exclusion
	stages   []stage
	empty    OnEmpty
	// unconsidered and unplaced are what candidates are dropped for by what a rule
	// considers and by its stages.
	unconsidered, unplaced string
}

// Version identifies what was compiled: 16 hexadecimal digits that are the same for
// the same policies and [Options], however they were written.
func (s *Set) Version() string { return s.version }

// Needs implements [Needy]: what policies in shadow mode ask about as well, by name.
func (s *Set) Needs() Needs { return s.needs }

// about reports whether the policy decides about requests of a pool.
func (p *program) about(pool string) bool {
	return len(p.pools) == 0 || slices.Contains(p.pools, pool)
}
