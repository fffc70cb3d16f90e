package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// Bounds on directories: far more than configuration needs, so that a wrong path is
	// found out at once.
	maxFiles = 1000
	maxBytes = 16 << 20
	maxDepth = 8
)

// look is what was seen of all files at one time.
type look struct {
	known bool
	at    time.Time
	files []File
	// fault says what could not be read, "" if everything could.
	fault string
}

// drop forgets the contents.
func (l *look) drop() {
	for i := range l.files {
		l.files[i].Data = nil
	}
}

// same reports whether both have seen the same.
func (l *look) same(o *look) bool {
	return l.known && o.known && l.fault == o.fault && slices.EqualFunc(l.files, o.files, func(a, b File) bool {
		return a.Path == b.Path && a.Same(&b)
	})
}

// unchanged reports whether the files are surely those that were looked at.
func (f *Files) unchanged(l *look) bool {
	now := f.opts.Now()
	if !l.known || l.fault != "" || now.Before(l.at) {
		return false
	}
	found, err := f.find()
	return err == nil && slices.EqualFunc(l.files, found, func(a, b File) bool {
		return a.Path == b.Path && a.untouched(b.info, l.at)
	})
}

// read reads all files. The look holds as many as could be read.
func (f *Files) read() (look, error) {
	l := look{known: true, at: f.opts.Now()}
	found, err := f.find()
	if err == nil {
		err = f.fill(&l, found)
	}
	if err != nil {
		l.fault = err.Error()
	}
	return l, err
}

func (f *Files) fill(l *look, found []File) error {
	var total int64
	for i := range found {
		file, err := Read(found[i].Path, f.opts.MaxFileBytes, f.opts.Errors)
		if err != nil {
			return err
		}
		if total += file.size; total > maxBytes {
			return fmt.Errorf("%w: all files together are longer than %d bytes; correct the path", f.opts.Errors.TooLarge, maxBytes)
		}
		l.files = append(l.files, file)
	}
	return nil
}

// find lists the files of all paths in order, each path with its own. A file that is
// found twice counts once.
func (f *Files) find() ([]File, error) {
	var found []File
	for _, path := range f.opts.Paths {
		var err error
		if found, err = f.walk(found, path, 0); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (f *Files) walk(found []File, path string, depth int) ([]File, error) {
	info, err := os.Stat(path) // of what a link points to
	switch {
	case err != nil:
		return nil, err
	case info.Mode().IsRegular():
		if slices.ContainsFunc(found, func(f File) bool { return f.Path == path }) {
			return found, nil
		}
		if len(found) == maxFiles {
			return nil, fmt.Errorf("%w: more than %d files; correct the path", f.opts.Errors.TooLarge, maxFiles)
		}
		return append(found, File{Path: path, info: info}), nil
	case !info.IsDir():
		return nil, fmt.Errorf("%w: %s", f.opts.Errors.NotRegular, path)
	case depth > maxDepth:
		return nil, fmt.Errorf("%w: %s is more than %d directories deep; correct the path", f.opts.Errors.TooLarge, path, maxDepth)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() && !counts(e.Name()) || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if found, err = f.walk(found, filepath.Join(path, e.Name()), depth+1); err != nil {
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
