package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Version is the version of the lines that are written, and the newest that is read. It
// grows when a reader of the one before would come to wrong sums; new fields don't change
// it.
const Version = 1

// MaxLine is the longest line that is written or read, in bytes.
const MaxLine = 64 << 10

// ErrVersion is wrapped where a line is of a newer version: without it sums would be wrong.
var ErrVersion = errors.New("ledger: written by a newer version of kvsteer; read it with that one")

// line is one of a file. Version is left out by those who write records themselves.
type line struct {
	Version int `json:"kvsteer_usage,omitempty"`
	*Record
}

// Entry is a line of a file: a Record, or the reason for which there is none.
type Entry struct {
	// Line counts from 1.
	Line   int
	Record *Record
	// Damage says why the line can't be read; the rest may be fine.
	Damage string
	// Unfinished: it is the last line and its end is missing, so it may still be being
	// written. If it was never finished it was never acknowledged.
	Unfinished bool
}

const readBytes = 64 << 10

// Read calls fn for each line of JSON, in order; doubles are not dropped, see [Seen]. It
// stops at the first error: of r, of fn, or one that wraps [ErrVersion]. Its memory is
// bounded. fn may keep the Entry.
func Read(r io.Reader, fn func(*Entry) error) error {
	in := bufio.NewReaderSize(r, readBytes)
	var buf []byte
	for number := 1; ; number++ {
		text, whole, err := nextLine(in, buf[:0])
		buf = text[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("ledger: line %d: %w", number, err)
		}
		e := Entry{Line: number}
		e.Record, err = parse(text)
		switch {
		case errors.Is(err, ErrVersion):
			return fmt.Errorf("line %d: %w", number, err)
		case !whole:
			e.Record, e.Unfinished, e.Damage = nil, true, "its end is missing"
		case err != nil:
			e.Damage = err.Error()
		case e.Record == nil: // an empty line
			continue
		}
		if err := fn(&e); err != nil {
			return err
		}
	}
}

// nextLine reads a line into buf, without its end; of one that is too long only a part
// that no parser takes for a whole one. The error is io.EOF where there is none.
func nextLine(in *bufio.Reader, buf []byte) (text []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(buf) <= MaxLine {
			buf = append(buf, part...)
		}
		switch {
		case err == nil:
			return bytes.TrimRight(buf, "\r\n"), true, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case !errors.Is(err, io.EOF) || len(buf) == 0:
			return buf, false, err
		default:
			return buf, false, nil
		}
	}
}

// parse returns nil and no error for an empty line. What a power cut left as NULs in front
// of a line is not part of it.
func parse(text []byte) (*Record, error) {
	text = bytes.TrimSpace(bytes.TrimLeft(text, "\x00"))
	if len(text) == 0 {
		return nil, nil //nolint:nilnil // as said
	}
	if len(text) > MaxLine {
		return nil, errors.New("the line is too long")
	}
	l := line{Record: new(Record)}
	err := json.Unmarshal(text, &l)
	if l.Version > Version {
		return nil, fmt.Errorf("%w: version %d", ErrVersion, l.Version)
	}
	if err != nil || l.Record == nil {
		return nil, errors.New("it is no record in JSON")
	}
	if err := l.Check(); err != nil {
		return nil, err
	}
	l.Normalize()
	return l.Record, nil
}

// Encode writes records as lines, as [OpenJSONL] does.
func Encode(w io.Writer, records []Record) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range records {
		if err := enc.Encode(line{Version, &records[i]}); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	return nil
}
