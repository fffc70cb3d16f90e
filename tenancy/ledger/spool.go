package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// spool is the file for what the sink is too slow for. It is for one goroutine.
type spool struct {
	file *lines
	most int64
	read int64 // up to where the sink has it
	// count is the lines from read on, of which the first old are an earlier Ledger's.
	count, old int
	buf        bytes.Buffer
}

func openSpool(path string, most int64) (*spool, error) {
	file, err := openLines(path)
	if err != nil {
		return nil, err
	}
	s := &spool{file: file, most: most}
	in := bufio.NewReaderSize(io.NewSectionReader(file.f, 0, file.size), readBytes)
	for {
		part, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, errors.Join(err, file.close())
		}
		if part[len(part)-1] == '\n' {
			s.old++
		}
	}
	s.count = s.old
	return s, nil
}

// errSpoolFull is the reason for which no more goes there.
var errSpoolFull = errors.New("the spool file has reached Options.SpoolBytes")

func (s *spool) add(records []Record) error {
	s.buf.Reset()
	if err := Encode(&s.buf, records); err != nil {
		return err
	}
	if s.file.size+int64(s.buf.Len()) > s.most {
		return errSpoolFull
	}
	if err := s.file.add(s.buf.Bytes()); err != nil {
		return err
	}
	s.count += len(records)
	return nil
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
	out := stretch{end: s.read}
	in := bufio.NewReaderSize(io.NewSectionReader(s.file.f, s.read, s.file.size-s.read), readBytes)
	for out.lines < most && out.end < s.file.size {
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
		} else if err := s.file.keep(io.NewSectionReader(s.file.f, out.end, n)); err != nil {
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
	s.read = of.end
	s.count -= of.lines
	old = min(s.old, of.lines)
	s.old -= old
	if s.read < s.file.size {
		return old, nil
	}
	if err := s.file.clear(); err != nil {
		return old, err
	}
	s.read = 0
	return old, nil
}
