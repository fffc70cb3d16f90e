package record

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// sink is where lines go.
type sink interface {
	io.WriteCloser
	// turn makes ready for so many bytes. fresh: a header is due before them; torn: and
	// before that the end of a line. After an error Write may still work.
	turn(n int) (fresh, torn bool, err error)
	// reopen begins anew with the file of the same name.
	reopen() error
}

// plain is a writer of the user's.
type plain struct{ w io.Writer }

func (p *plain) Write(b []byte) (int, error)          { return p.w.Write(b) }
func (p *plain) turn(int) (fresh, torn bool, _ error) { return false, false, nil }
func (p *plain) Close() error                         { return nil }

func (p *plain) reopen() error {
	return errors.New("the log is not a file of the Recorder's: it was made by New, not by Open")
}

// file is a file that may be one of several.
type file struct {
	path string
	most int64 // bytes; 0: no bound
	keep int   // older files
	f    *os.File
	size int64
	// fresh: nothing was written since it was opened. torn: it ended in half a line.
	fresh, torn bool
}

// private is the mode of a log: it tells who used what.
const private = 0o600

func (f *file) open() error {
	h, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, private)
	if err != nil {
		return err
	}
	info, err := h.Stat()
	if err != nil {
		_ = h.Close() // the first error says more
		return err
	}
	f.f, f.size, f.fresh, f.torn = h, 0, true, false
	if info.Mode().IsRegular() { // of a pipe nobody can see the end
		f.size = info.Size()
		f.torn = f.size > 0 && !endsLine(f.path, f.size)
	}
	return nil
}

// endsLine reports whether the last byte of a file ends a line; if it can't be seen it
// does not, and there will be an empty line.
func endsLine(path string, size int64) bool {
	h, err := os.Open(path) //nolint:gosec // it is the user's log
	if err != nil {
		return false
	}
	defer h.Close() //nolint:errcheck // it was only read
	var last [1]byte
	n, _ := h.ReadAt(last[:], size-1)
	return n == 1 && last[0] == '\n'
}

func (f *file) turn(n int) (fresh, torn bool, err error) {
	switch {
	case f.f == nil:
		err = f.open()
	case f.most > 0 && f.size > 0 && f.size+int64(n) > f.most:
		err = f.rotate()
	}
	fresh, f.fresh = f.fresh, false
	return fresh, f.torn, err
}

// rotate begins another file. If that fails the old one grows on.
func (f *file) rotate() error {
	err := f.Close()
	for i := f.keep - 1; i >= 1; i-- {
		if e := os.Rename(f.older(i), f.older(i+1)); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return errors.Join(err, os.Rename(f.path, f.older(1)), f.open())
}

func (f *file) older(i int) string { return f.path + "." + strconv.Itoa(i) }

func (f *file) reopen() error { return errors.Join(f.Close(), f.open()) }

func (f *file) Write(b []byte) (int, error) {
	if f.f == nil {
		return 0, fmt.Errorf("%s is not open", f.path)
	}
	n, err := f.f.Write(b)
	f.size += int64(n)
	return n, err
}

func (f *file) Close() error {
	if f.f == nil {
		return nil
	}
	err := f.f.Close()
	f.f = nil
	return err
}
