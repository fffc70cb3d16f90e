package promtext

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// maxValueBytes bounds the text of a number; the longest float64 is shorter.
const maxValueBytes = 64

// Sample is one line. Its methods are valid until the function it was passed to
// returns.
type Sample struct {
	name   []byte
	labels []byte // between the braces, checked to be well formed
	value  []byte
}

// Name of the series, with suffixes such as _total or _bucket.
func (s Sample) Name() []byte { return s.name }

// Value of the series. ok is false if it isn't a number; NaN and infinities are
// numbers.
func (s Sample) Value() (v float64, ok bool) {
	if len(s.value) > maxValueBytes {
		return 0, false
	}
	// ParseFloat also takes hexadecimal and underscores, which the format has not;
	// it costs nothing to take them too.
	v, err := strconv.ParseFloat(string(s.value), 64)
	if err != nil && !math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// Label returns the value of a label with its escapes undone. ok is false if the
// sample has no such label.
func (s Sample) Label(name string) (value string, ok bool) {
	rest := s.labels
	for {
		key, raw, tail, more := nextLabel(rest)
		if !more {
			return "", false
		}
		if string(key) == name {
			return unescape(raw), true
		}
		rest = tail
	}
}

// Stats counts what a scan saw.
type Stats struct {
	// Samples were passed on; Malformed lines of wanted names, or without a name,
	// were skipped.
	Samples, Malformed int
}

// Scan calls fn for each sample of text whose name is wanted, until fn returns
// false. A nil want wants all. Of other lines only the name is read, for most of
// an engine's report is histogram buckets nobody asks for.
func Scan(text []byte, want func(name []byte) bool, fn func(Sample) bool) Stats {
	var st Stats
	for len(text) > 0 {
		var line []byte
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			line, text = text, nil
		}
		line = bytes.Trim(line, " \t\r")
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		end := 0
		for end < len(line) && isNameByte(line[end]) {
			end++
		}
		if end > 0 && want != nil && !want(line[:end]) {
			continue
		}
		s, ok := parseLine(line, end)
		if !ok {
			st.Malformed++
			continue
		}
		st.Samples++
		if !fn(s) {
			break
		}
	}
	return st
}

// parseLine splits `name{labels} value [timestamp] [# exemplar]`, whose name is
// the first end bytes.
func parseLine(line []byte, end int) (Sample, bool) {
	var s Sample
	if end == 0 {
		return s, false
	}
	s.name = line[:end]
	rest := bytes.TrimLeft(line[end:], " \t")
	if len(rest) > 0 && rest[0] == '{' {
		n, ok := labelsEnd(rest[1:])
		if !ok {
			return s, false
		}
		s.labels = rest[1 : 1+n]
		rest = bytes.TrimLeft(rest[n+2:], " \t")
	} else if len(line) == end || line[end] != ' ' && line[end] != '\t' {
		return s, false
	}
	if i := bytes.IndexAny(rest, " \t"); i >= 0 {
		s.value = rest[:i]
	} else {
		s.value = rest
	}
	return s, len(s.value) > 0
}

// labelsEnd finds the closing brace and checks that what precedes it reads as
// labels all through.
func labelsEnd(b []byte) (int, bool) {
	rest := b
	for {
		rest = bytes.TrimLeft(rest, " \t,")
		if len(rest) == 0 {
			return 0, false
		}
		if rest[0] == '}' {
			return len(b) - len(rest), true
		}
		_, _, tail, ok := nextLabel(rest)
		if !ok {
			return 0, false
		}
		rest = tail
	}
}

// nextLabel splits key="raw" off b.
func nextLabel(b []byte) (key, raw, tail []byte, ok bool) {
	b = bytes.TrimLeft(b, " \t,")
	eq := bytes.IndexByte(b, '=')
	if eq <= 0 {
		return nil, nil, nil, false
	}
	key = bytes.TrimRight(b[:eq], " \t")
	for _, c := range key {
		if !isNameByte(c) {
			return nil, nil, nil, false
		}
	}
	b = bytes.TrimLeft(b[eq+1:], " \t")
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, nil, false
	}
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return key, b[1:i], b[i+1:], len(key) > 0
		}
	}
	return nil, nil, nil, false
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == ':' || c == '.'
}

func unescape(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' || i+1 == len(raw) {
			b.WriteByte(raw[i])
			continue
		}
		i++
		switch raw[i] {
		case 'n':
			b.WriteByte('\n')
		case '\\', '"':
			b.WriteByte(raw[i])
		default: // the format leaves an unknown escape as it stands
			b.WriteByte('\\')
			b.WriteByte(raw[i])
		}
	}
	return b.String()
}
