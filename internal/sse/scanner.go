package sse

import "bytes"

const (
	// DefaultMaxEvent is the longest event that is parsed, in bytes, when a
	// Scanner states none. Chunks with log probabilities or images reach 4 MiB.
	DefaultMaxEvent = 8 << 20
	// minMaxEvent keeps the byte order mark and a field name within the bound.
	minMaxEvent = 64
	// keepBuffer is the most memory a Scanner holds on to between events.
	keepBuffer = 64 << 10
)

// ending is how a line ends.
type ending uint8

const (
	endUnknown ending = iota
	endLF
	endCR
	endCRLF
)

// span is part of the current event, relative to its first byte.
type span struct{ from, to int }

// Scanner takes a stream apart as it comes. The zero Scanner is ready. It is not
// safe for concurrent use. It copies input only when an event is split over
// calls of Feed, and holds at most MaxEvent bytes plus one input of it.
type Scanner struct {
	// MaxEvent bounds the events that are parsed, in bytes: 0 means
	// [DefaultMaxEvent], less than 64 means 64. A longer event passes in pieces
	// marked Oversize, and parsing resumes after it. Set it before the first Feed.
	MaxEvent int

	buf      []byte
	oversize int

	// The current event; positions are relative to its first byte.
	line    int  // where the current line begins
	scanned int  // no line ends before here
	fields  bool // it has a line that is neither comment nor blank
	name    span
	data    span
	lines   int    // number of data lines
	joined  []byte // the data, once there are two lines of it

	// An event beyond MaxEvent has been passed on up to line, which lies within
	// a line (partial) of the kind stated.
	passing     bool
	partial     bool
	partialKind lineKind

	last    ending // of the line before
	swallow bool   // an LF here belongs to a CR that was acted on already
	started bool   // the first line is complete
}

// Oversized counts the events that were longer than MaxEvent.
func (s *Scanner) Oversized() int { return s.oversize }

// Buffered is the number of bytes held back, waiting for the end of their event.
func (s *Scanner) Buffered() int { return len(s.buf) }

// Held are those bytes: the beginning of the Raw of the event to come. They are valid
// until the next call.
func (s *Scanner) Held() []byte { return s.buf }

func (s *Scanner) limit() int {
	switch {
	case s.MaxEvent == 0:
		return DefaultMaxEvent
	case s.MaxEvent < minMaxEvent:
		return minMaxEvent
	default:
		return s.MaxEvent
	}
}

// Feed takes the next bytes of the stream and calls fn for each event that they
// complete. p may be reused afterwards.
func (s *Scanner) Feed(p []byte, fn func(Event)) {
	w := p
	held := len(s.buf) > 0
	if held {
		s.buf = append(s.buf, p...)
		w = s.buf
	}
	start := s.scan(w, fn)
	if held {
		if start > 0 {
			s.buf = s.buf[:copy(s.buf, s.buf[start:])]
		}
	} else if start < len(w) {
		s.buf = append(s.buf[:0], w[start:]...)
	}
	s.trim()
}

// trim lets go of memory that one long event needed.
func (s *Scanner) trim() {
	if len(s.buf) == 0 && cap(s.buf) > keepBuffer {
		s.buf = nil
	}
	if s.lines < 2 && cap(s.joined) > keepBuffer {
		s.joined = nil
	}
}

// scan emits what is complete in w and returns where the rest begins.
func (s *Scanner) scan(w []byte, fn func(Event)) int {
	start := 0
	ends := lineEnds{w: w, lf: -1, cr: -1}
	for {
		if s.swallow && start+s.line < len(w) {
			s.swallow = false
			if w[start+s.line] == '\n' {
				s.last = endCRLF
				s.line++
				s.scanned = max(s.scanned, s.line)
			}
		}
		end := ends.next(start + s.scanned)
		if end >= len(w) {
			s.scanned = len(w) - start
			break
		}
		line := s.text(w[start+s.line : end])
		emits := s.emits(s.kind(line))
		next, how, ok := s.lineEnd(w, end, emits)
		if !ok {
			s.scanned = end - start
			break
		}
		s.last = how
		s.swallow = emits && how == endCR
		if !emits && !s.passing {
			s.take(w[start:], line, end-start)
		}
		s.fields = s.fields || s.kind(line) == fieldLine
		s.started = true
		s.partial = false
		s.line = next - start
		s.scanned = s.line
		if emits {
			s.emit(w[start:next], false, fn)
			start = next
		}
	}
	return s.spill(w, start, fn)
}

// text is a line without the byte order mark that may begin a stream.
func (s *Scanner) text(line []byte) []byte {
	if !s.started && !s.partial {
		return bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return line
}

func (s *Scanner) kind(line []byte) lineKind {
	if s.partial {
		return s.partialKind
	}
	return kindOf(line)
}

// emits reports whether a line of that kind completes what came before. A
// comment between events goes out at once: it is there to keep the connection
// alive, and the blank line after it may not come.
func (s *Scanner) emits(k lineKind) bool {
	return k == blankLine || k == commentLine && !s.fields
}

// lineEnd says where the line that ends at w[end] is over. A CR as the last byte
// may be half of a CRLF: then the answer must wait, unless the line emits and the
// stream is one of lone CRs, which would stall by an event. An LF that follows
// after all is swallowed, however the input is split.
func (s *Scanner) lineEnd(w []byte, end int, emits bool) (next int, how ending, ok bool) {
	next = end + 1
	switch {
	case w[end] == '\n':
		return next, endLF, true
	case emits && s.last == endCR:
		return next, endCR, true
	case next == len(w):
		return 0, endUnknown, false
	case w[next] == '\n':
		return next + 1, endCRLF, true
	default:
		return next, endCR, true
	}
}

// take records a field line that ends at end, relative to the event.
func (s *Scanner) take(event, line []byte, end int) {
	if kindOf(line) != fieldLine {
		return
	}
	name, value := splitField(line)
	at := span{from: end - len(value), to: end}
	switch string(name) {
	case "event":
		s.name = at
	case "data":
		s.lines++
		switch s.lines {
		case 1:
			s.data = at
		case 2:
			s.joined = append(s.joined[:0], event[s.data.from:s.data.to]...)
			fallthrough
		default:
			s.joined = append(append(s.joined, '\n'), value...)
		}
	default: // id, retry and unknown fields mean nothing to a proxy
	}
}

// emit hands over an event and begins the next.
func (s *Scanner) emit(raw []byte, truncated bool, fn func(Event)) {
	over := s.passing
	if !over && len(raw) > s.limit() {
		over = true
		s.oversize++
	}
	ev := Event{Raw: raw, Truncated: truncated}
	switch {
	case over:
		ev = Event{Raw: raw, Oversize: true}
	case s.lines == 1:
		ev.Data = raw[s.data.from:s.data.to:s.data.to]
	case s.lines > 1:
		ev.Data = s.joined
	default:
	}
	if !over {
		ev.HasData = s.lines > 0
		if s.name.to > 0 {
			ev.Name = raw[s.name.from:s.name.to:s.name.to]
		}
	}
	s.line, s.scanned, s.lines = 0, 0, 0
	s.name, s.data = span{}, span{}
	s.fields, s.passing, s.partial = false, false, false
	fn(ev)
}

// spill passes on the beginning of an event that has grown beyond the bound.
func (s *Scanner) spill(w []byte, start int, fn func(Event)) int {
	known := start + s.scanned
	if !s.passing && s.scanned <= s.limit() || known == start {
		return start
	}
	if !s.passing {
		s.passing = true
		s.oversize++
	}
	if begin := start + s.line; begin < known && !s.partial {
		s.partialKind = kindOf(s.text(w[begin:known]))
		s.partial = true
	}
	s.line, s.scanned = 0, 0
	fn(Event{Raw: w[start:known], Oversize: true})
	return known
}

// Flush ends the stream: what is left becomes a last event, Truncated unless it
// is complete. The Scanner is then as new.
func (s *Scanner) Flush(fn func(Event)) {
	w := s.buf
	if len(w) > 0 {
		end := len(w)
		if s.scanned < end && w[s.scanned] == '\r' { // it waited for an LF
			end = s.scanned
		}
		line := s.text(w[min(s.line, end):end])
		kind := s.kind(line)
		complete := end < len(w) && s.emits(kind)
		if !s.passing {
			s.take(w, line, end)
		}
		s.emit(w, !complete, fn)
	}
	*s = Scanner{MaxEvent: s.MaxEvent, oversize: s.oversize}
}

// lineEnds finds line ends from left to right, looking at each byte once for
// each of the two characters however many lines there are.
type lineEnds struct {
	w      []byte
	lf, cr int
}

func (e *lineEnds) next(from int) int {
	if e.lf < from {
		e.lf = indexFrom(e.w, '\n', from)
	}
	if e.cr < from {
		e.cr = indexFrom(e.w, '\r', from)
	}
	return min(e.lf, e.cr)
}

func indexFrom(w []byte, c byte, from int) int {
	if k := bytes.IndexByte(w[from:], c); k >= 0 {
		return from + k
	}
	return len(w)
}
