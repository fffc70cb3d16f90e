package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ErrInUse is wrapped where a file belongs to another Ledger, of this process or another.
var ErrInUse = errors.New("ledger: the file is in use; give each router a file of its own, and let kvsteer usage read them all")

func inUse(path string, err error) error { return fmt.Errorf("%w: %s: %w", ErrInUse, path, err) }

// private is the mode of files: they tell who used what.
const private = 0o600

// lines is a file of whole lines, which nobody else writes. It is for one goroutine, but
// for readAt.
type lines struct {
	path string
	torn string   // the file beside, for what is no line
	f    *os.File // nil: to be opened
	size int64    // up to where there are whole lines on disk
	held *os.File // the lock
	// dirty: behind size there may be more, or what is before it may not be on disk.
	dirty bool
	sync  func(*os.File) error
}

// openLines opens the file, makes it where it is not there, and mends its end.
func openLines(path string) (*lines, error) {
	held, err := lock(path + ".lock")
	if err != nil {
		return nil, err
	}
	l := newLines(path)
	l.held = held
	if err := l.open(); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

func newLines(path string) *lines {
	return &lines{path: path, torn: path + ".torn", sync: (*os.File).Sync}
}

func (l *lines) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_RDWR, private)
	if err != nil {
		return err
	}
	size, err := l.mend(f)
	if err == nil {
		err = syncDir(filepath.Dir(l.path))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size, l.dirty = f, size, false
	return nil
}

// mend sees to a last line whose end is missing: one that is a record gets its end, of
// another the part is kept in a file beside. It returns the size.
func (l *lines) mend(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a file", l.path)
	}
	size := info.Size()
	whole, err := wholeLines(f, size)
	if err != nil || whole == size {
		return size, err
	}
	rest := io.NewSectionReader(f, whole, size-whole)
	if size-whole <= MaxLine {
		tail, err := io.ReadAll(rest)
		if err != nil {
			return 0, err
		}
		if r, err := parse(tail); err == nil && r != nil {
			if _, err = f.WriteAt([]byte{'\n'}, size); err != nil {
				return 0, err
			}
			return size + 1, l.sync(f)
		}
	}
	if err := l.keep(rest); err != nil {
		return 0, err
	}
	if err := f.Truncate(whole); err != nil {
		return 0, err
	}
	return whole, l.sync(f)
}

// keep adds what is no line to the file beside.
func (l *lines) keep(torn *io.SectionReader) error {
	f, err := os.OpenFile(l.torn, os.O_CREATE|os.O_APPEND|os.O_WRONLY, private)
	if err != nil {
		return err
	}
	if _, err = torn.Seek(0, io.SeekStart); err == nil {
		_, err = io.Copy(f, torn)
	}
	if err == nil {
		_, err = f.WriteString("\n")
	}
	if err == nil {
		err = l.sync(f)
	}
	return errors.Join(err, f.Close())
}

// wholeLines returns where the last line that has an end, ends.
func wholeLines(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, readBytes)
	for end := size; end > 0; {
		n := min(end, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, nil
		}
		end -= n
	}
	return 0, nil
}

// count returns how many there are.
func (l *lines) count() (n int, err error) {
	in := bufio.NewReaderSize(io.NewSectionReader(l.f, 0, l.size), readBytes)
	for {
		part, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return 0, err
		}
		if part[len(part)-1] == '\n' {
			n++
		}
	}
}

// add writes whole lines behind the others and waits until they are on disk. After an
// error none of them counts.
func (l *lines) add(b []byte) error {
	if l.f == nil {
		return fmt.Errorf("%s: %w", l.path, os.ErrClosed)
	}
	if l.dirty {
		if err := l.f.Truncate(l.size); err != nil {
			return err
		}
	}
	l.dirty = true
	if _, err := l.f.WriteAt(b, l.size); err != nil {
		if l.f.Truncate(l.size) == nil { // else the next one does
			l.dirty = false
		}
		return err
	}
	if err := l.sync(l.f); err != nil {
		return &syncError{err}
	}
	l.size += int64(len(b))
	l.dirty = false
	return nil
}

// syncError is a failure after which the system may believe that what it has lost is on
// disk: nothing more may be written to the same file.
type syncError struct{ error }

func (e *syncError) Unwrap() error { return e.error }

// moveTo gives the file another name and begins a new one of the old.
func (l *lines) moveTo(path string) error {
	if l.f != nil {
		err := l.f.Close()
		l.f = nil
		if err != nil {
			return errors.Join(err, l.open())
		}
	}
	if _, err := os.Lstat(path); err == nil {
		return errors.Join(fmt.Errorf("%s: %w", path, os.ErrExist), l.open())
	}
	// Where there is no file to move, an earlier move stopped half way.
	if err := os.Rename(l.path, path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, l.open())
	}
	return l.open()
}

// clear empties the file.
func (l *lines) clear() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	l.size, l.dirty = 0, false
	return l.sync(l.f)
}

func (l *lines) close() error {
	var err error
	if l.f != nil {
		err = l.f.Close()
		l.f = nil
	}
	if l.held != nil {
		err = errors.Join(err, l.held.Close())
		l.held = nil
	}
	return err
}
