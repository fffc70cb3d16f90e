package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/kvsteer/kvsteer/fleet"
)

const (
	defaultInterval = 2 * time.Second
	defaultMaxBytes = 4 << 20
	// settled is how old a file's time stamp must be for its contents to be taken
	// as unchanged without reading: file systems stamp as coarsely as 2 s.
	settled = 5 * time.Second
)

// Errors about the file as such. Seen by operators in Fleet.Err: the path is
// probably wrong.
var (
	// ErrTooLarge: the file is longer than Discoverer.MaxBytes.
	ErrTooLarge = errors.New("file: too large")
	// ErrNotRegular: the path is a directory, a pipe or a device.
	ErrNotRegular = errors.New("file: not a regular file; correct the path")
)

// Discoverer follows a file. Only Path is required. Its fields must not be
// changed once it is in use; it keeps no state, so that several Fleets may share
// it.
type Discoverer struct {
	// Path of the file.
	Path string
	// Interval between two looks at it. Default 2 s.
	Interval time.Duration
	// MaxBytes bounds the file. Default 4 MiB.
	MaxBytes int64
	// Now tells the time, to compare with the file's time stamp. Default time.Now.
	Now func() time.Time
}

var _ fleet.Discoverer = (*Discoverer)(nil)

// Validate reports a missing Path and values below zero; fleet.New asks it.
func (d *Discoverer) Validate() error {
	switch {
	case d.Path == "":
		return errors.New("file: Discoverer.Path is empty; name the file with the workers")
	case d.Interval < 0:
		return fmt.Errorf("file: Discoverer.Interval is %v; give a positive duration, or 0 for %v", d.Interval, defaultInterval)
	case d.MaxBytes < 0:
		return fmt.Errorf("file: Discoverer.MaxBytes is %d; give a positive number, or 0 for %d",
			d.MaxBytes, int64(defaultMaxBytes))
	default:
		return nil
	}
}

// Discover reads the file and reads it again when it changed, until ctx ends. It
// returns an error when the file is wrong in two looks in a row, so that one that
// is being written is not reported.
func (d *Discoverer) Discover(ctx context.Context, set func([]fleet.Worker) error) error {
	if err := d.Validate(); err != nil {
		return err
	}
	interval := d.Interval
	if interval == 0 {
		interval = defaultInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var good, bad look
	for first := true; ; first = false {
		if first || !good.unchanged(d.Path, d.now()) {
			seen, err := d.load(good, set)
			switch {
			case err == nil:
				good, bad = seen, look{}
			case first || bad.known && bad.sum == seen.sum && bad.size == seen.size:
				return err
			default:
				bad = seen
				bad.known = true
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (d *Discoverer) now() time.Time {
	if d.Now != nil {
		return d.Now()
	}
	return time.Now()
}

// load reads the file and sets its workers, unless the contents are those of the
// last good look.
func (d *Discoverer) load(good look, set func([]fleet.Worker) error) (look, error) {
	limit := d.MaxBytes
	if limit == 0 {
		limit = defaultMaxBytes
	}
	data, info, err := read(d.Path, limit)
	if err != nil {
		return look{}, err
	}
	seen := look{known: true, info: info, size: int64(len(data)), sum: xxhash.Sum64(data), at: d.now()}
	if good.known && good.sum == seen.sum && good.size == seen.size {
		return seen, nil
	}
	workers, places, err := parse(data)
	if err != nil {
		return seen, fmt.Errorf("%s: %w", d.Path, err)
	}
	// Before set, so that what is wrong is first heard of with its place.
	if err := fleet.Validate(workers); err != nil {
		return seen, places.locate(d.Path, err)
	}
	if err := set(workers); err != nil {
		return seen, places.locate(d.Path, err)
	}
	return seen, nil
}

// look is what was seen of the file at one time.
type look struct {
	known bool
	info  os.FileInfo
	size  int64
	sum   uint64
	at    time.Time
}

// unchanged reports whether the file is surely the one that was looked at: the
// same file, by identity, size and time stamp, and a stamp old enough that a
// later write would have changed it.
func (l *look) unchanged(path string, now time.Time) bool {
	if !l.known {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && os.SameFile(info, l.info) && info.Size() == l.info.Size() &&
		info.ModTime().Equal(l.info.ModTime()) && l.at.Sub(info.ModTime()) > settled && !now.Before(l.at)
}

// read reads at most limit bytes.
func read(path string, limit int64) (data []byte, info os.FileInfo, err error) {
	// Asked before opening, because opening a named pipe waits for a writer.
	if info, err = os.Stat(path); err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%w: %s", ErrNotRegular, path)
	}
	f, err := os.Open(path) //nolint:gosec // which file is the caller's choice
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// Of the open file, so that it is of the bytes that are read.
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	data, err = io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(data)) > limit {
		return nil, nil, fmt.Errorf("%w: %s is longer than %d bytes; correct the path or raise MaxBytes", ErrTooLarge, path, limit)
	}
	return data, info, nil
}

// Load reads the workers of a file once and checks them as a Fleet would.
func Load(path string) ([]fleet.Worker, error) {
	data, _, err := read(path, defaultMaxBytes)
	if err != nil {
		return nil, err
	}
	workers, places, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := fleet.Validate(workers); err != nil {
		return nil, places.locate(path, err)
	}
	return workers, nil
}

// Parse reads workers from the contents of a file and checks them as a Fleet
// would.
func Parse(data []byte) ([]fleet.Worker, error) {
	workers, places, err := parse(data)
	if err != nil {
		return nil, err
	}
	if err := fleet.Validate(workers); err != nil {
		return nil, places.locate("", err)
	}
	return workers, nil
}
