package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"time"
)

// spool is what the sink is too slow for, in two files: while one is read, what comes goes
// to the other, so that each is emptied some time though more comes all the time. It is
// for one goroutine.
type spool struct {
	sides [2]side
	// from is read, to is written; they may be one. What is in from is older.
	from, to *side
	most     int64 // bytes that wait
	turn     int64 // the size from which on a file that is being read does not grow
	// count is the lines that wait, of which the first old are an earlier Ledger's.
	count, old int
	buf        bytes.Buffer
}

// side is one of the files.
type side struct {
	*lines
	read int64 // up to where the sink has it
}

func (s *side) left() int64 { return s.size - s.read }

// turnBytes bounds spool.turn: below, it is not worth an fsync to empty a file.
const turnBytes = 1 << 20

func openSpool(path string, most int64) (*spool, error) {
	// The one that has not been written to for longer is older. Opening may mend them.
	var written [2]time.Time
	paths := [2]string{path, path + ".2"}
	for i := range paths {
		if info, err := os.Stat(paths[i]); err == nil {
			written[i] = info.ModTime()
		}
	}
	first, err := openLines(path)
	if err != nil {
		return nil, err
	}
	second := newLines(paths[1]) // the lock is for both
	second.torn = first.torn
	s := &spool{sides: [2]side{{lines: first}, {lines: second}}, most: most, turn: min(turnBytes, most/2)}
	s.from, s.to = &s.sides[0], &s.sides[1]
	if err := second.open(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if written[1].Before(written[0]) {
		s.from, s.to = s.to, s.from
	}
	switch {
	case s.from.size == 0:
		s.from = s.to
	case s.to.size == 0:
		s.to = s.from
	}
	for i := range s.sides {
		n, err := s.sides[i].lines.count()
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.old += n
	}
	s.count = s.old
	return s, nil
}

func (s *spool) close() error {
	return errors.Join(s.sides[1].close(), s.sides[0].close()) // the lock last
}

// errSpoolFull is the reason for which no more goes there.
var errSpoolFull = errors.New("the spool file has reached Options.SpoolBytes")

func (s *spool) add(records []Record) error {
	s.buf.Reset()
	if err := Encode(&s.buf, records); err != nil {
		return err
	}
	if s.sides[0].left()+s.sides[1].left()+int64(s.buf.Len()) > s.most {
		return errSpoolFull
	}
	if s.to == s.from && s.from.read > 0 && s.from.size >= s.turn {
		s.to = s.other()
	}
	if err := s.to.add(s.buf.Bytes()); err != nil {
		return err
	}
	s.count += len(records)
	return nil
}

// rest is called when nothing more is to be added for now: what was last may have been
// megabytes.
func (s *spool) rest() { s.buf = bytes.Buffer{} }

// other is the file that is not read.
func (s *spool) other() *side {
	if s.from == &s.sides[0] {
		return &s.sides[1]
	}
	return &s.sides[0]
}

// stretch is a part of the spool.
type stretch struct {
	records []Record
	// lines is how many it has, more than records if some are damaged; end is where it
	// does.
	lines int
	end   int64
}

// next returns the stretch of at most so many lines that is to be written next. What can't
// be read is moved to the file beside.
func (s *spool) next(most int) (stretch, error) {
	from := s.from
	out := stretch{end: from.read}
	in := bufio.NewReaderSize(io.NewSectionReader(from.f, from.read, from.left()), readBytes)
	for out.lines < most && out.end < from.size {
		text, err := in.ReadSlice('\n')
		n := int64(len(text))
		for errors.Is(err, bufio.ErrBufferFull) {
			text, err = in.ReadSlice('\n')
			n += int64(len(text))
		}
		if err != nil {
			return stretch{}, err
		}
		if r, err := parse(text); n == int64(len(text)) && err == nil && r != nil {
			out.records = append(out.records, *r)
		} else if err := from.keep(io.NewSectionReader(from.f, out.end, n)); err != nil {
			return stretch{}, err
		}
		out.lines++
		out.end += n
	}
	return out, nil
}

// done says that the sink has a stretch; it returns how much of it was an earlier
// Ledger's. If the file can't be emptied it will be written again: that is an error, and
// no harm.
func (s *spool) done(of stretch) (old int, err error) {
	from := s.from
	from.read = of.end
	s.count -= of.lines
	old = min(s.old, of.lines)
	s.old -= old
	if from.left() > 0 {
		return old, nil
	}
	s.from = s.to
	err = from.clear()
	from.read = min(from.read, from.size) // it may be empty all the same
	return old, err
}
