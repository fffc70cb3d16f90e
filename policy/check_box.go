package policy

import (
	"net/http"
	"slices"
	"strings"
)

// What matches hold for can be compared exactly, because all that policies can tell
// apart of a request is finite: which of the names that they mention it has, in which
// of the intervals between the numbers that they mention it is, and so on. Each such
// property is a dimension whose values are numbered; an alternative of a rule is one
// or several boxes, which have a set of values for some dimensions and any value for
// the others.

// valueSet is a set of values of a dimension.
type valueSet []uint64

const wordBits = 64

func newValues(size int) valueSet { return make(valueSet, (size+wordBits-1)/wordBits) }

func (b valueSet) add(i int) { b[i/wordBits] |= 1 << (i % wordBits) }

func (b valueSet) empty() bool {
	for _, w := range b {
		if w != 0 {
			return false
		}
	}
	return true
}

func (b valueSet) meets(other valueSet) bool {
	for i := range b {
		if b[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// box is a set of requests: those whose values are in the sets of all its limits,
// which are in the order of their dimensions.
type box []limit

type limit struct {
	dim    int
	values valueSet
}

// with returns the box with other values for one dimension.
func (b box) with(dim int, values valueSet) box {
	at, found := slices.BinarySearchFunc(b, dim, func(l limit, dim int) int { return l.dim - dim })
	out := slices.Clone(b)
	if found {
		out[at].values = values
		return out
	}
	return slices.Insert(out, at, limit{dim, values})
}

// of returns the values for a dimension, nil for all.
func (b box) of(dim int) valueSet {
	for i := range b {
		if b[i].dim == dim {
			return b[i].values
		}
	}
	return nil
}

// maxWork bounds what is done in one universe, in steps of some nanoseconds. Beyond it
// nothing more is found unreachable.
const maxWork = 20_000_000

// exhausted reports whether that much was done.
func (u *universe) exhausted() bool { return u.work > maxWork }

// covered reports whether every request in any of the boxes is in one of by. It is
// wrong only in saying no, when that would take too long to find out.
func (u *universe) covered(boxes, by []box) bool {
	if len(boxes) == 0 {
		return false
	}
	for _, b := range boxes {
		if !u.covers(b, by) {
			return false
		}
	}
	return true
}

func (u *universe) covers(b box, by []box) bool {
	for i, other := range by {
		if u.exhausted() {
			return false
		}
		if !u.meets(b, other) {
			continue
		}
		// What of b is outside of other must be in those that follow.
		rest := b
		for _, l := range other {
			own := rest.of(l.dim)
			if own == nil {
				own = u.all(l.dim)
			}
			inside, outside := newValues(len(own)*wordBits), newValues(len(own)*wordBits)
			for w := range own {
				inside[w], outside[w] = own[w]&l.values[w], own[w]&^l.values[w]
			}
			u.work += len(own) + 4*len(rest) // it is copied twice
			if !outside.empty() && !u.covers(rest.with(l.dim, outside), by[i+1:]) {
				return false
			}
			rest = rest.with(l.dim, inside)
		}
		return true
	}
	return false
}

// meets reports whether a request may be in both.
func (u *universe) meets(a, b box) bool {
	u.work += 1 + len(a) + len(b)
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].dim < b[0].dim:
			a = a[1:]
		case a[0].dim > b[0].dim:
			b = b[1:]
		default:
			u.work += len(a[0].values)
			if !a[0].values.meets(b[0].values) {
				return false
			}
			a, b = a[1:], b[1:]
		}
	}
	return true
}

// rule returns the boxes of each alternative of a rule; one that can't hold has none.
// With pools, they are limited to the requests that the policy is about.
func (u *universe) rule(s *Spec, r *Rule, pools bool) [][]box {
	base := box{}
	if pools && len(s.Pools) > 0 {
		base = u.texts(base, dimPool, s.Pools)
	}
	if len(r.Matches) == 0 {
		return [][]box{{base}}
	}
	out := make([][]box, len(r.Matches))
	for i := range r.Matches {
		out[i] = u.match(base, &r.Matches[i])
	}
	return out
}

// match returns one box for each tag that the match asks for, because any one will do.
func (u *universe) match(base box, m *Match) []box {
	b := u.texts(base, dimModel, m.Model)
	b = u.texts(b, dimTenant, m.Tenant)
	b = u.texts(b, dimQoS, m.QoS)
	b = u.texts(b, dimAPI, m.API)
	if m.Session != nil {
		values := newValues(2) //nolint:mnd // no and yes
		values.add(boolIndex(*m.Session))
		b = b.with(u.index[dimSession], values)
	}
	b = u.numbers(b, dimTokens, m.PromptTokens)
	b = u.numbers(b, dimQueued, m.QueuedPrompts)
	b = u.numbers(b, dimUsage, m.KVCacheUsage)
	b = u.numbers(b, dimWorkers, m.HealthyWorkers)
	for i := range m.Header {
		b = u.header(b, &m.Header[i])
	}
	for i := range b {
		if b[i].values.empty() {
			return nil
		}
	}
	if len(m.Tag) == 0 {
		return []box{b}
	}
	boxes := make([]box, 0, len(m.Tag))
	for _, name := range m.Tag {
		states := newValues(int(TagPresent) + 1)
		states.add(int(TagPresent))
		if m.OnUnknown == UnknownPresent {
			states.add(int(TagUnknown))
		}
		boxes = append(boxes, b.with(u.index[dimTag+name], states))
	}
	return boxes
}

func boolIndex(b bool) int {
	if b {
		return 1
	}
	return 0
}

// texts limits a dimension of names.
func (u *universe) texts(b box, dim string, list []string) box {
	if len(list) == 0 {
		return b
	}
	d := u.index[dim]
	values := newValues(u.dims[d].size)
	for _, s := range list {
		values.add(u.dims[d].texts[s])
	}
	return b.with(d, values)
}

// numbers limits a dimension of numbers.
func (u *universe) numbers(b box, dim string, r Range) box {
	if r.isZero() {
		return b
	}
	d := u.index[dim]
	values := newValues(u.dims[d].size)
	within := compileRange(r)
	u.work += u.dims[d].size
	for i, x := range u.dims[d].points {
		if within.holds(x) {
			values.add(i)
		}
	}
	return b.with(d, values)
}

// header limits the dimension of a header; several conditions on one all hold.
func (u *universe) header(b box, h *HeaderMatch) box {
	d := u.index[dimHeader+http.CanonicalHeaderKey(h.Name)]
	values := newValues(u.dims[d].size)
	u.work += 4 * u.dims[d].size // texts are compared
	for i, v := range u.dims[d].headers {
		if v.holds(h) {
			values.add(i)
		}
	}
	if own := b.of(d); own != nil {
		for i := range values {
			values[i] &= own[i]
		}
	}
	return b.with(d, values)
}

// headerValue is one of the kinds of values of a header that policies tell apart.
type headerValue struct {
	absent bool
	// text is the value; or what it begins with, if open, and then it is none of the
	// other texts and has no longer beginning that is mentioned.
	text string
	open bool
}

func (v *headerValue) holds(h *HeaderMatch) bool {
	switch {
	case h.Absent || v.absent:
		return h.Absent && v.absent
	case h.Value != "" && (v.open || v.text != h.Value):
		return false
	default:
		return strings.HasPrefix(v.text, h.Prefix)
	}
}
