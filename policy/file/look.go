package file

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/kvsteer/kvsteer/policy"
)

const (
	// settled is how old a file's time stamp must be for its contents to be taken as
	// unchanged without reading: file systems stamp as coarsely as 2 s.
	settled = 5 * time.Second
	// Bounds on directories: far more than policies need, so that a wrong path is found
	// out at once.
	maxFiles = 1000
	maxBytes = 16 << 20
	maxDepth = 8
)

// Errors about files as such. Seen by operators in Status and Open: the path is
// probably wrong.
var (
	// ErrTooLarge: a file, or all together, or a directory is larger than policies are.
	ErrTooLarge = errors.New("policy/file: too large")
	// ErrNotRegular: a path is a pipe or a device.
	ErrNotRegular = errors.New("policy/file: neither a file nor a directory; correct the path")
)

// look is what was seen of all files at one time.
type look struct {
	known bool
	at    time.Time
	files []seenFile
	// fault says what could not be read, "" if everything could.
	fault string
}

// seenFile is one file in a look.
type seenFile struct {
	path string
	info os.FileInfo
	size int64
	sum  uint64
	data []byte
}

// drop forgets the contents.
func (l *look) drop() {
	for i := range l.files {
		l.files[i].data = nil
	}
}

func (l *look) names() []string {
	names := make([]string, len(l.files))
	for i := range l.files {
		names[i] = l.files[i].path
	}
	return names
}

// same reports whether both have seen the same.
func (l *look) same(o *look) bool {
	return l.known && o.known && l.fault == o.fault && slices.EqualFunc(l.files, o.files, func(a, b seenFile) bool {
		return a.path == b.path && a.size == b.size && a.sum == b.sum
	})
}

// unchanged reports whether the files are surely those that were looked at: by path,
// identity, size and time stamp, and stamps old enough that a later write would have
// changed them.
func (l *look) unchanged(paths []string, now time.Time) bool {
	if !l.known || l.fault != "" || now.Before(l.at) {
		return false
	}
	found, err := find(paths)
	return err == nil && slices.EqualFunc(l.files, found, func(a, b seenFile) bool {
		return a.path == b.path && os.SameFile(a.info, b.info) && a.info.Size() == b.info.Size() &&
			a.info.ModTime().Equal(b.info.ModTime()) && l.at.Sub(a.info.ModTime()) > settled
	})
}

// read reads all files. The look holds as many as could be read.
func (s *Source) read() (look, error) {
	l := look{known: true, at: s.opts.Now()}
	found, err := find(s.paths)
	if err == nil {
		err = l.fill(found)
	}
	if err != nil {
		l.fault = err.Error()
	}
	return l, err
}

func (l *look) fill(found []seenFile) error {
	var total int64
	for i := range found {
		f, err := readFile(found[i].path)
		if err != nil {
			return err
		}
		if total += f.size; total > maxBytes {
			return fmt.Errorf("%w: all files together are longer than %d bytes; correct the path", ErrTooLarge, maxBytes)
		}
		l.files = append(l.files, f)
	}
	return nil
}

// find lists the files of paths in order, each path with its own. A file that is found
// twice counts once.
func find(paths []string) ([]seenFile, error) {
	var found []seenFile
	for _, path := range paths {
		var err error
		if found, err = walk(found, path, 0); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func walk(found []seenFile, path string, depth int) ([]seenFile, error) {
	info, err := os.Stat(path) // of what a link points to
	switch {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		if slices.ContainsFunc(found, func(f seenFile) bool { return f.path == path }) {
			return found, nil
		}
		if len(found) == maxFiles {
			return nil, fmt.Errorf("%w: more than %d files; correct the path", ErrTooLarge, maxFiles)
		}
		return append(found, seenFile{path: path, info: info}), nil
	case !info.IsDir():
		return nil, fmt.Errorf("%w: %s", ErrNotRegular, path)
	case depth > maxDepth:
		return nil, fmt.Errorf("%w: %s is more than %d directories deep; correct the path", ErrTooLarge, path, maxDepth)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() && !counts(e.Name()) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if found, err = walk(found, filepath.Join(path, e.Name()), depth+1); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// counts reports whether a file of a directory is one of ours.
func counts(name string) bool {
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

func readFile(path string) (seen seenFile, err error) {
	f, err := os.Open(path) //nolint:gosec // which file is the caller's choice
	if err != nil {
		return seenFile{}, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// Of the open file, so that it is of the bytes that are read.
	info, err := f.Stat()
	if err != nil {
		return seenFile{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, policy.MaxFileBytes+1))
	switch {
	case err != nil:
		return seenFile{}, err
	case len(data) > policy.MaxFileBytes:
		return seenFile{}, fmt.Errorf("%w: %s is longer than %d bytes; correct the path or split it",
			ErrTooLarge, path, int64(policy.MaxFileBytes))
	case len(strings.TrimSpace(string(data))) == 0:
		return seenFile{}, fmt.Errorf("%w: %s is empty", ErrNoPolicy, path) // what a half-written one looks like
	}
	return seenFile{path: path, info: info, size: int64(len(data)), sum: xxhash.Sum64(data), data: data}, nil
}
