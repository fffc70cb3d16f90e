package jsonscan

import (
	"bytes"
	"math"
)

// innerFields finds the members of a validated object. The buffer keeps objects
// of a usual size off the heap.
func innerFields(fs []field, v Value) []field {
	if v.Kind() != KindObject {
		return fs
	}
	// No bounds: the text has been accepted, and what is in it is found.
	s := newScanner(v.raw, math.MaxInt)
	s.maxFields = math.MaxInt
	fs, _ = s.fields(fs, 0)
	return fs
}

// usualInner is the buffer's size: stream_options has two members.
const usualInner = 8

// setIn returns the last change of the member of outer that is named, as
// inside means it; nil if there is none.
func (e *Edit) setIn(outer string, inside []byte) *change {
	for i := len(e.changes) - 1; i >= 0; i-- {
		c := &e.changes[i]
		if c.verb == setIn && c.key == outer && insideIs(inside, c.inner) {
			return c
		}
	}
	return nil
}

// missing reports whether change i sets a member that the object in text with
// these fields lacks, and is the last change of that member.
func (e *Edit) missing(text []byte, fs []field, outer string, i int) bool {
	c := &e.changes[i]
	if c.verb != setIn || c.key != outer {
		return false
	}
	for k := i + 1; k < len(e.changes); k++ {
		if d := &e.changes[k]; d.verb == setIn && d.key == outer && d.inner == c.inner {
			return false
		}
	}
	for _, f := range fs {
		if insideIs(text[f.key+1:f.keyEnd-1], c.inner) {
			return false
		}
	}
	return true
}

// innersSame reports whether the SetIn changes of outer leave v as it is.
func (e *Edit) innersSame(outer string, v Value) bool {
	if v.Kind() != KindObject {
		return false
	}
	var buf [usualInner]field
	fs := innerFields(buf[:0], v)
	for _, f := range fs {
		c := e.setIn(outer, v.raw[f.key+1:f.keyEnd-1])
		if c != nil && !bytes.Equal(v.raw[f.val:f.end], bytes.TrimSpace(c.raw)) {
			return false
		}
	}
	for i := range e.changes {
		if e.missing(v.raw, fs, outer, i) {
			return false
		}
	}
	return true
}

// appendInner appends v, an object, null or nothing, with the SetIn changes of
// outer made.
func (e *Edit) appendInner(out []byte, outer string, v Value) []byte {
	text := v.raw
	if v.Kind() != KindObject {
		text = []byte("{}")
	}
	var buf [usualInner]field
	fs := innerFields(buf[:0], v)
	copied := 0
	for _, f := range fs {
		if c := e.setIn(outer, text[f.key+1:f.keyEnd-1]); c != nil {
			out = append(out, text[copied:f.val]...)
			out = append(out, bytes.TrimSpace(c.raw)...)
			copied = int(f.end)
		}
	}
	rest := 1 // after the brace
	if n := len(fs); n > 0 {
		rest = int(fs[n-1].end)
	}
	if copied < rest {
		out = append(out, text[copied:rest]...)
	}
	comma := len(fs) > 0
	for i := range e.changes {
		if !e.missing(text, fs, outer, i) {
			continue
		}
		if comma {
			out = append(out, ',')
		}
		comma = true
		out = AppendString(out, e.changes[i].inner)
		out = append(out, ':')
		out = append(out, bytes.TrimSpace(e.changes[i].raw)...)
	}
	return append(out, text[rest:]...)
}
