package policy

import "errors"

// Options are what a policy is compiled with beside itself. The zero value is fine.
type Options struct {
	// Models labels models, for rules that name them by labels, beside what the specs
	// themselves say.
	Models []ModelLabels
}

// Set is one or several policies, compiled. It is immutable and safe for concurrent
// use.
type Set struct{}

// Compile makes a Set of specs. Its error lists everything that is wrong with them.
func Compile(_ Options, _ ...*Spec) (*Set, error) {
	return nil, errors.ErrUnsupported // the next commit
}

// Evaluate implements [Policy].
func (s *Set) Evaluate(_ *Request, _ []Candidate, plan *Plan) { plan.Reset("") }

// Models implements [Scoped].
func (s *Set) Models(req *Request, dst []string) []string { return append(dst, req.Model) }

// Needs implements [Needy].
func (s *Set) Needs() Needs { return Needs{} }

// Version identifies what was compiled: a hash.
func (s *Set) Version() string { return "" }
