package watch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"
)

// settled is how old a file's time stamp must be for its contents to be taken as
// unchanged without reading: file systems stamp as coarsely as 2 s.
const settled = 5 * time.Second

// Errors are those that are wrapped in what is said about files as such. Each user has
// its own, because they are part of its API.
type Errors struct {
	// TooLarge: a file, or all together, or a directory is larger than it may be.
	// NotRegular: a path is a pipe, a device, or a directory where that isn't allowed.
	TooLarge, NotRegular error
	// Advice says what to do about one file that is too large.
	Advice string
}

// File is a file as it was read.
type File struct {
	Path string
	Data []byte

	info os.FileInfo
	size int64
	sum  uint64
}

// Same reports whether both have the same contents, which neither needs to hold any more.
func (f *File) Same(o *File) bool { return f.size == o.size && f.sum == o.sum }

// Unchanged reports whether the file is surely the one that was read at that time: by
// identity, size and time stamp, and a stamp old enough that a later write would have
// changed it.
func (f *File) Unchanged(at, now time.Time) bool {
	if now.Before(at) {
		return false
	}
	info, err := os.Stat(f.Path)
	return err == nil && f.untouched(info, at)
}

func (f *File) untouched(info os.FileInfo, at time.Time) bool {
	return os.SameFile(f.info, info) && f.info.Size() == info.Size() &&
		f.info.ModTime().Equal(info.ModTime()) && at.Sub(f.info.ModTime()) > settled
}

// Read reads a regular file of at most limit bytes.
func Read(path string, limit int64, wrap Errors) (file File, err error) {
	// Asked before opening, because opening a named pipe waits for a writer.
	info, err := os.Stat(path)
	if err != nil {
		return File{}, err
	}
	if !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("%w: %s", wrap.NotRegular, path)
	}
	f, err := os.Open(path) //nolint:gosec // which file is the caller's choice
	if err != nil {
		return File{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// Of the open file, so that it is of the bytes that are read.
	if info, err = f.Stat(); err != nil {
		return File{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return File{}, err
	}
	if int64(len(data)) > limit {
		return File{}, fmt.Errorf("%w: %s is longer than %d bytes; %s", wrap.TooLarge, path, limit, wrap.Advice)
	}
	return File{Path: path, Data: data, info: info, size: int64(len(data)), sum: xxhash.Sum64(data)}, nil
}
