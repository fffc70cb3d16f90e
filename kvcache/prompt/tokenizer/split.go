package tokenizer

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/kvsteer/kvsteer/kvcache/prompt/tokenizer/internal/rx"
)

// behavior is what becomes of the delimiters that a pattern finds.
type behavior uint8

const (
	removed behavior = iota
	isolated
	mergedWithPrevious
	mergedWithNext
	contiguous
)

func behaviorOf(name string) (behavior, bool) {
	switch name {
	case "Removed":
		return removed, true
	case "Isolated":
		return isolated, true
	case "MergedWithPrevious":
		return mergedWithPrevious, true
	case "MergedWithNext":
		return mergedWithNext, true
	case "Contiguous":
		return contiguous, true
	default:
		return 0, false
	}
}

// splitter is a stage that splits each piece at what a pattern matches. One of re and
// literal is set.
type splitter struct {
	re       *rx.Regexp
	alphabet **rx.Alphabet
	literal  []byte
	behavior behavior
	invert   bool // what isn't matched is the delimiter
}

func (s *splitter) run(w *work) error {
	var at []byte
	if s.re != nil {
		at = w.atoms(*s.alphabet)
		w.rx.Begin(len(at))
	}
	out := w.spare[:0]
	for _, p := range w.spans {
		var err error
		switch {
		case p.lo == p.hi:
		case s.literal != nil:
			s.findLiteral(w, p)
			out = s.apply(out, w.found)
		case s.behavior == isolated:
			out, err = s.isolate(out, w, at, p)
		default:
			if err = s.findRegexp(w, at, p); err == nil {
				out = s.apply(out, w.found)
			}
		}
		if err != nil {
			return err
		}
	}
	w.spans, w.spare = out, w.spans
	return nil
}

// isolate is the common case: every match is a piece, and so is what lies between two.
func (s *splitter) isolate(out []span, w *work, at []byte, p span) ([]span, error) {
	last := p.lo
	err := eachMatch(&w.rx, s.re, at[p.lo:p.hi], func(lo, hi int) {
		from, to := p.lo+int32(lo), p.lo+int32(hi)
		if last < from {
			out = append(out, span{last, from})
		}
		if from < to {
			out = append(out, span{from, to})
		}
		last = to
	})
	if last < p.hi {
		out = append(out, span{last, p.hi})
	}
	return out, err
}

func (s *splitter) findRegexp(w *work, at []byte, p span) error {
	w.found = w.found[:0]
	last := p.lo
	err := eachMatch(&w.rx, s.re, at[p.lo:p.hi], func(lo, hi int) {
		last = s.note(w, last, p.lo+int32(lo), p.lo+int32(hi))
	})
	s.rest(w, last, p.hi)
	return err
}

func (s *splitter) findLiteral(w *work, p span) {
	w.found = w.found[:0]
	last := p.lo
	for {
		i := bytes.Index(w.text[last:p.hi], s.literal)
		if i < 0 {
			break
		}
		lo := last + int32(i)
		last = s.note(w, last, lo, lo+int32(len(s.literal)))
	}
	s.rest(w, last, p.hi)
}

// note records a match and what lies before it, and returns where it ends.
func (s *splitter) note(w *work, last, lo, hi int32) int32 {
	if last != lo {
		w.found = append(w.found, found{last, lo, s.invert})
	}
	w.found = append(w.found, found{lo, hi, !s.invert})
	return hi
}

func (s *splitter) rest(w *work, last, end int32) {
	if last != end {
		w.found = append(w.found, found{last, end, s.invert})
	}
}

// apply turns stretches into pieces.
func (s *splitter) apply(out []span, all []found) []span {
	base := len(out)
	switch s.behavior {
	case removed:
		for _, f := range all {
			if !f.match {
				out = append(out, span{f.lo, f.hi})
			}
		}
	case isolated:
		for _, f := range all {
			out = append(out, span{f.lo, f.hi})
		}
	case contiguous:
		out = join(out, all, func(f found, before bool) bool { return f.match == before })
	case mergedWithPrevious:
		out = join(out, all, func(f found, before bool) bool { return f.match && !before })
	case mergedWithNext:
		out = joinBackward(out, all)
	}
	kept := out[:base]
	for _, p := range out[base:] {
		if p.lo < p.hi {
			kept = append(kept, p)
		}
	}
	return kept
}

// join appends a piece for each stretch, but for those that prolong the piece before: with
// decides that, knowing whether the stretch before was a match.
func join(out []span, all []found, with func(f found, before bool) bool) []span {
	base, before := len(out), false
	for _, f := range all {
		if with(f, before) && len(out) > base {
			out[len(out)-1].hi = f.hi
		} else {
			out = append(out, span{f.lo, f.hi})
		}
		before = f.match
	}
	return out
}

// joinBackward goes from the last stretch to the first, and has a match begin the piece
// after it unless that begins with a match, too.
func joinBackward(out []span, all []found) []span {
	base, before := len(out), false
	for _, f := range slices.Backward(all) {
		if f.match && !before && len(out) > base {
			out[len(out)-1].lo = f.lo
		} else {
			out = append(out, span{f.lo, f.hi})
		}
		before = f.match
	}
	slices.Reverse(out[base:])
	return out
}

// eachMatch calls f with every match, as Oniguruma's iterator finds them: an empty match
// right after another is skipped. The matcher's budget is the caller's.
func eachMatch(m *rx.Matcher, re *rx.Regexp, at []byte, f func(lo, hi int)) error {
	from, last := 0, -1
	for from <= len(at) {
		lo, hi, err := m.Find(re, at, from)
		if err != nil {
			return ErrTooComplex
		}
		if lo < 0 {
			return nil
		}
		if lo == hi && hi == last {
			from = rx.Next(at, from)
			continue
		}
		from, last = hi, hi
		f(lo, hi)
	}
	return nil
}

// fixedLength cuts each piece every so many characters.
type fixedLength int

func (n fixedLength) run(w *work) error {
	out := w.spare[:0]
	for _, p := range w.spans {
		lo, count := p.lo, 0
		for i := p.lo; i < p.hi; {
			_, size := utf8.DecodeRune(w.text[i:p.hi])
			i += int32(size)
			if count++; count == int(n) || i == p.hi {
				out = append(out, span{lo, i})
				lo, count = i, 0
			}
		}
	}
	w.spans, w.spare = out, w.spans
	return nil
}
