package policy

import (
	"math"
	"strconv"
)

// scale says which numbers a quantity can be.
type scale uint8

const (
	counts  scale = iota // whole numbers from 0
	shares               // from 0 to 1
	amounts              // numbers from 0
)

// isZero reports whether nothing is set.
func (r Range) isZero() bool { return r.GreaterThan == nil && r.LessThan == nil }

// interval checks a range of a quantity.
func (k *checker) interval(at string, r Range, of scale) {
	if r.isZero() {
		if k.s.src != nil && k.s.written(at) && k.s.sound(at) {
			k.err(CodeFullRange, at, "the range is empty of bounds and holds every number", "add greaterThan or lessThan, or leave it out")
		}
		return
	}
	sound := true
	for _, b := range []struct {
		key   string
		value *float64
	}{{".greaterThan", r.GreaterThan}, {".lessThan", r.LessThan}} {
		if b.value != nil && !k.bound(at+b.key, *b.value, of) {
			sound = false
		}
	}
	if sound && r.empty(of) {
		k.err(CodeEmptyRange, at, "no "+of.unit()+" is in the range "+r.text(of), "the condition never holds: change a bound")
	}
}

// bound checks one end of a range.
func (k *checker) bound(at string, v float64, of scale) bool {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		k.err(CodeInvalidValue, at, "the bound is no number", "")
	case v < 0:
		k.err(CodeInvalidValue, at, format(v)+" is below every "+of.unit(), "use a number from 0")
	case of == shares && v > 1:
		suggestion := "shares are from 0 to 1, or from 0% to 100%"
		if v > 2 && v <= percents { //nolint:mnd // what is closer to 1 may be a share
			suggestion = "did you mean " + format(v) + "%?"
		}
		k.err(CodeInvalidValue, at, format(v)+" is above every share", suggestion)
	default:
		return true
	}
	return false
}

const percents = 100

func (s scale) unit() string {
	switch s {
	case shares:
		return "share"
	case counts:
		return "whole number"
	case amounts:
		return "number"
	default:
		return "number"
	}
}

// empty reports whether no number of the scale is in the range.
func (r Range) empty(of scale) bool {
	low, high := math.Inf(-1), math.Inf(1)
	if r.GreaterThan != nil {
		low = *r.GreaterThan
	}
	if r.LessThan != nil {
		high = *r.LessThan
	}
	switch {
	case low >= high, high <= 0:
		return true
	case of == shares:
		return low >= 1
	case of == counts:
		return math.Floor(low)+1 >= high // the least whole number above low
	default:
		return false
	}
}

func (r Range) text(of scale) string {
	show := func(v float64) string {
		if of == shares {
			return format(v*percents) + "%"
		}
		return format(v)
	}
	switch {
	case r.GreaterThan != nil && r.LessThan != nil:
		return "above " + show(*r.GreaterThan) + " and below " + show(*r.LessThan)
	case r.GreaterThan != nil:
		return "above " + show(*r.GreaterThan)
	case r.LessThan != nil:
		return "below " + show(*r.LessThan)
	default:
		return "without bounds"
	}
}

func format(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
