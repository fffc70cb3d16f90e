package record

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// Bounds of what is read, and so of what is written.
const (
	// MaxLine is the longest line, in bytes.
	MaxLine = 8 << 20
	// maxParts bounds the memory that a line can ask for: some hundred bytes for each
	// comma in it at most.
	maxParts = 1 << 18
	// readBytes is read at a time.
	readBytes = 256 << 10
)

// What Read fails with.
var (
	// ErrNotLog: the first line is no header. It is something else, or the beginning
	// was cut off.
	ErrNotLog = errors.New("record: not a decision log: the first line is no header")
	// ErrVersion is wrapped where a header is of another version.
	ErrVersion = errors.New("record: a log of another version")
)

// The kinds of Entry.Damage.
const (
	DamageTorn    = "the last line is cut off"
	DamageJSON    = "not a line of JSON as this version writes it"
	DamageLong    = "the line is too long"
	DamageNumbers = "an index or a length in it is wrong"
)

// Read calls fn for each line of a log, in order. Lines that can't be read, such as a
// last one that a crash cut off, come as an Entry with Damage; what is not known in
// others is ignored. Read stops at the first error: of r, of fn, or one that wraps
// [ErrNotLog] or [ErrVersion]. Its memory is bounded. fn may keep the Entry.
func Read(r io.Reader, fn func(*Entry) error) error {
	in := bufio.NewReaderSize(r, readBytes)
	var buf []byte
	headed, damaged, run := false, 0, ""
	for number := 1; ; number++ {
		text, state, err := next(in, buf[:0])
		buf = text[:0]
		if err != nil {
			return fmt.Errorf("record: line %d: %w", number, err)
		}
		if state == lineNone {
			break
		}
		if state != lineLong && len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		e, err := parse(text, state)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		e.Line = number
		switch {
		case e.Header != nil:
			headed, run = true, e.Header.Run
		case !headed && (e.Damage == "" || damaged > 0):
			return ErrNotLog
		case !headed:
			damaged++ // a crash may have cut off the header of a run before
		}
		if e.Damage == "" {
			e.Run = cmp.Or(e.Run, run)
		}
		if err := fn(e); err != nil {
			return err
		}
	}
	if !headed && damaged > 0 {
		return ErrNotLog
	}
	return nil
}

// lineState says what came of looking for a line.
type lineState uint8

const (
	lineNone lineState = iota // the end
	lineWhole
	lineTorn // the end came before the line's
	lineLong
)

// next reads a line into buf, without its end, and of one that is too long nothing.
func next(in *bufio.Reader, buf []byte) ([]byte, lineState, error) {
	state := lineWhole
	for {
		part, err := in.ReadSlice('\n')
		if len(buf)+len(part) > MaxLine+1 {
			state, buf = lineLong, buf[:0]
		}
		if state != lineLong {
			buf = append(buf, part...)
		}
		switch {
		case err == nil:
			return bytes.TrimRight(buf, "\n"), state, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case !errors.Is(err, io.EOF):
			return buf, lineNone, err
		case state == lineLong:
			return buf, state, nil
		case len(buf) == 0:
			return buf, lineNone, nil
		default:
			return buf, lineTorn, nil
		}
	}
}

// parse reads a line. The error is that of a header.
func parse(text []byte, state lineState) (*Entry, error) {
	if state == lineLong || tooMany(text) {
		return &Entry{Damage: DamageLong}, nil
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil { //nolint:musttag // the fields without tags are hidden by decision's own
		if version, ok := versionOf(text); ok && version != Version {
			return nil, wrongVersion(version)
		}
		if state == lineTorn {
			return &Entry{Damage: DamageTorn}, nil
		}
		return &Entry{Damage: DamageJSON}, nil
	}
	e := &Entry{Run: l.Run, Header: l.Header, Outcome: l.Outcome, Lost: l.Lost}
	if l.At != nil {
		e.At = *l.At
	}
	switch {
	case l.Header != nil:
		if l.Header.Version != Version {
			return nil, wrongVersion(l.Header.Version)
		}
		return &Entry{Header: l.Header}, nil
	case l.Decision != nil && l.Decision.Decision != nil:
		e.Outcome, e.Lost, e.Rejected = nil, nil, l.Rejected
		if e.Decision = l.Decision.whole(); e.Decision == nil {
			return &Entry{Damage: DamageNumbers}, nil
		}
		e.Decision.Request.Header = l.Headers
	case l.Outcome != nil:
		e.Lost = nil
	case l.Lost == nil:
		return &Entry{Damage: DamageJSON}, nil // of a kind that this version doesn't know
	}
	return e, nil
}

// tooMany reports whether a line asks for too much memory.
func tooMany(text []byte) bool { return bytes.Count(text, []byte{','}) > maxParts }

// versionOf finds the version where the rest of a header is not as this one's.
func versionOf(text []byte) (version int, ok bool) {
	var h struct {
		Header *struct {
			Version int `json:"version"`
		} `json:"kvsteer_log"`
	}
	if json.Unmarshal(text, &h) != nil || h.Header == nil {
		return 0, false
	}
	return h.Header.Version, true
}

func wrongVersion(version int) error {
	hint := "read it with the kvsteer that wrote it"
	if version > Version {
		hint = "a newer kvsteer reads it"
	}
	return fmt.Errorf("%w: %d, not %d; %s", ErrVersion, version, Version, hint)
}

// whole puts together what the router had; nil if it does not fit together.
func (d *decision) whole() *kvsteer.Decision {
	out := d.Decision
	out.Features = nil
	if !completed(out.Candidates, out.Chosen) {
		return nil
	}
	if p := out.Prefill; p != nil && (p.Chosen < 0 || !completed(p.Candidates, p.Chosen)) {
		return nil
	}
	for _, s := range out.Shadows {
		if s.Chosen < -1 || s.Chosen >= len(out.Candidates) {
			return nil
		}
	}
	if d.Features == nil {
		return out
	}
	if len(d.Features) != len(out.Candidates) {
		return nil
	}
	out.Features = make([]kvsteer.Features, len(d.Features))
	for i, f := range d.Features {
		out.Features[i] = f.of(&out.Candidates[i].Candidate)
	}
	return out
}

// completed fills in what candidates are written without, and reports whether chosen
// is one of them, or -1.
func completed(list []kvsteer.DecisionCandidate, chosen int) bool {
	if chosen < -1 || chosen >= len(list) {
		return false
	}
	for i := range list {
		c := &list[i]
		if c.Rank < 0 || c.InFlight < 0 || c.CachedTokens < 0 || c.CachedBlocks < 0 || c.PredictedTTFT < 0 {
			return false
		}
		c.Trust = trustNamed(c.TrustState)
	}
	return true
}

func trustNamed(name string) kvcache.Trust {
	for _, t := range []kvcache.Trust{kvcache.Approximate, kvcache.Suspect, kvcache.Resyncing, kvcache.Exact} {
		if t.String() == name {
			return t
		}
	}
	return kvcache.Blind
}
