package jinja

import (
	"slices"
	"strings"
)

// stripMethod is strip, lstrip or rstrip.
func stripMethod(left, right bool) func(*state, args) (Value, error) {
	return func(st *state, a args) (Value, error) {
		s := self(a)
		if err := st.work(len(s)); err != nil {
			return nil, err
		}
		s, err := strip(s, a.pos[1], left, right)
		return String(s), err
	}
}

// strip removes whitespace, or the characters that chars has, from the ends of s.
func strip(s string, chars Value, left, right bool) (string, error) {
	if isNone(chars) {
		if left {
			s = trimLeftSpace(s)
		}
		if right {
			s = trimRightSpace(s)
		}
		return s, nil
	}
	set, ok := asString(chars)
	if !ok {
		return "", raise(typeError, "strip arg must be None or str, not %s", chars.typeName())
	}
	has := runeSetOf(set)
	for left && s != "" {
		r, n := decodeRune(s)
		if !has(r) {
			break
		}
		s = s[n:]
	}
	for right && s != "" {
		r, n := decodeLastRune(s)
		if !has(r) {
			break
		}
		s = s[:len(s)-n]
	}
	return s, nil
}

// runeSetOf tells which characters s has. Short sets, the usual ones, are scanned.
func runeSetOf(s string) func(rune) bool {
	rs := toRunes(s)
	const short = 16
	if len(rs) <= short {
		return func(r rune) bool { return slices.Contains(rs, r) }
	}
	set := make(map[rune]bool, len(rs))
	for _, r := range rs {
		set[r] = true
	}
	return func(r rune) bool { return set[r] }
}

// splitArgs reads sep and maxsplit; sep "" stands for whitespace.
func (st *state) splitArgs(a args) (s, sep string, maxSplit int, err error) {
	s = self(a)
	if err := st.grow(len(s)); err != nil {
		return "", "", 0, err
	}
	maxSplit = -1
	if a.pos[2] != nil {
		n, err := index(a.pos[2])
		if err != nil {
			return "", "", 0, err
		}
		maxSplit = int(max(-1, min(n, 1<<30)))
	}
	if isNone(a.pos[1]) {
		return s, "", maxSplit, nil
	}
	sep, ok := asString(a.pos[1])
	if !ok {
		return "", "", 0, raise(typeError, "must be str or None, not %s", a.pos[1].typeName())
	}
	if sep == "" {
		return "", "", 0, raise(valueError, "empty separator")
	}
	return s, sep, maxSplit, nil
}

func stringSplit(st *state, a args) (Value, error) {
	s, sep, n, err := st.splitArgs(a)
	switch {
	case err != nil:
		return nil, err
	case sep == "":
		return st.stringList(splitSpace(s, n))
	case n < 0:
		return st.stringList(strings.Split(s, sep))
	default:
		return st.stringList(strings.SplitN(s, sep, n+1))
	}
}

func stringRSplit(st *state, a args) (Value, error) {
	s, sep, n, err := st.splitArgs(a)
	switch {
	case err != nil:
		return nil, err
	case sep == "":
		return st.stringList(rsplitSpace(s, n))
	}
	var parts []string
	for n != 0 {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(sep):])
		s = s[:i]
		n--
	}
	return st.stringList(reverseStrings(append(parts, s)))
}

func reverseStrings(s []string) []string {
	for i, j := 0, len(s)-1; i < j; i, j = i+1, j-1 {
		s[i], s[j] = s[j], s[i]
	}
	return s
}

func (st *state) stringList(parts []string) (Value, error) {
	if err := st.growItems(2 * len(parts)); err != nil {
		return nil, err
	}
	out := make([]Value, len(parts))
	for i, p := range parts {
		out[i] = String(p)
	}
	return NewList(out...), nil
}

// splitSpace splits at runs of whitespace, n times at most (-1: no limit). What
// remains keeps the whitespace at its end.
func splitSpace(s string, n int) []string {
	var out []string
	s = trimLeftSpace(s)
	for s != "" {
		if n == 0 {
			return append(out, s)
		}
		n--
		end := 0
		for end < len(s) {
			r, size := decodeRune(s[end:])
			if isSpace(r) {
				break
			}
			end += size
		}
		out = append(out, s[:end])
		s = trimLeftSpace(s[end:])
	}
	return out
}

// rsplitSpace is splitSpace from the end.
func rsplitSpace(s string, n int) []string {
	var out []string
	s = trimRightSpace(s)
	for s != "" {
		if n == 0 {
			out = append(out, s)
			break
		}
		n--
		start := len(s)
		for start > 0 {
			r, size := decodeLastRune(s[:start])
			if isSpace(r) {
				break
			}
			start -= size
		}
		out = append(out, s[start:])
		s = trimRightSpace(s[:start])
	}
	return reverseStrings(out)
}

func stringSplitLines(st *state, a args) (Value, error) {
	s := self(a)
	if err := st.grow(len(s)); err != nil {
		return nil, err
	}
	keep, err := argTruth(st, a.pos[1])
	if err != nil {
		return nil, err
	}
	return st.stringList(splitLines(s, keep))
}

// splitLines splits at every line boundary that Python knows.
func splitLines(s string, keep bool) []string {
	var out []string
	for start := 0; start < len(s); {
		end, next := start, -1
		for end < len(s) {
			r, n := decodeRune(s[end:])
			if isLineBreak(r) {
				next = end + n
				if r == '\r' && next < len(s) && s[next] == '\n' {
					next++
				}
				break
			}
			end += n
		}
		if next < 0 {
			next = end
		}
		if keep {
			end = next
		}
		out = append(out, s[start:end])
		start = next
	}
	return out
}

func isLineBreak(r rune) bool {
	switch r {
	case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
		return true
	default:
		return false
	}
}

func stringPartition(st *state, a args) (Value, error) {
	s := self(a)
	sep, err := separator(a.pos[1])
	if err != nil {
		return nil, err
	}
	before, after, ok := strings.Cut(s, sep)
	if !ok {
		return NewTuple(String(s), String(""), String("")), st.work(len(s))
	}
	return NewTuple(String(before), String(sep), String(after)), st.work(len(s))
}

func stringRPartition(st *state, a args) (Value, error) {
	s := self(a)
	sep, err := separator(a.pos[1])
	if err != nil {
		return nil, err
	}
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return NewTuple(String(""), String(""), String(s)), st.work(len(s))
	}
	return NewTuple(String(s[:i]), String(sep), String(s[i+len(sep):])), st.work(len(s))
}

func separator(v Value) (string, error) {
	sep, err := textArg(v)
	if err == nil && sep == "" {
		err = raise(valueError, "empty separator")
	}
	return sep, err
}

// textArg returns an argument that has to be a string.
func textArg(v Value) (string, error) {
	s, ok := asString(v)
	if !ok {
		return "", raise(typeError, "must be str, not %s", v.typeName())
	}
	return s, nil
}

func stringReplace(st *state, a args) (Value, error) {
	old, err := textArg(a.pos[1])
	if err != nil {
		return nil, err
	}
	with, err := textArg(a.pos[2])
	if err != nil {
		return nil, err
	}
	count := int64(-1)
	if a.pos[3] != nil {
		if count, err = index(a.pos[3]); err != nil {
			return nil, err
		}
	}
	s, err := st.replace(self(a), old, with, count)
	return String(s), err
}

// replace replaces old by with, count times at most (negative: everywhere).
func (st *state) replace(s, old, with string, count int64) (string, error) {
	if err := st.work(len(s)); err != nil {
		return "", err
	}
	found := int64(strings.Count(s, old))
	if old == "" {
		found = int64(runeLen(s)) + 1
	}
	if count >= 0 {
		found = min(found, count)
	}
	if found == 0 {
		return s, nil
	}
	size := int64(len(s)) + found*int64(len(with)-len(old))
	if size > int64(st.opts.MaxOutput) {
		return "", limit("string longer than %d bytes", st.opts.MaxOutput)
	}
	if err := st.grow(int(size)); err != nil {
		return "", err
	}
	if old != "" {
		return strings.Replace(s, old, with, int(found)), nil
	}
	out := make([]byte, 0, size)
	for i := 0; ; {
		if found > 0 {
			out = append(out, with...)
			found--
		}
		if i >= len(s) {
			return string(out), nil
		}
		_, n := decodeRune(s[i:])
		out = append(out, s[i:i+n]...)
		i += n
	}
}

func stringJoin(st *state, a args) (Value, error) {
	sep := self(a)
	items, err := st.items(a.pos[1])
	if err != nil {
		return nil, err
	}
	size := 0
	for i, item := range items {
		s, ok := asString(item)
		if !ok {
			return nil, raise(typeError, "sequence item %d: expected str instance, %s found", i, item.typeName())
		}
		size += len(s) + len(sep)
		if size-len(sep) > st.opts.MaxOutput {
			break
		}
	}
	if len(items) == 1 {
		if m, ok := items[0].(markup); ok {
			return m, nil // the very object
		}
	}
	if err := st.grow(max(0, size-len(sep))); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.Grow(size)
	for i, item := range items {
		if i > 0 {
			b.WriteString(sep)
		}
		s, _ := asString(item)
		b.WriteString(s)
	}
	return String(b.String()), nil
}
