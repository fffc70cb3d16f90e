package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kvsteer/kvsteer/fleet"
	"github.com/kvsteer/kvsteer/internal/watch"
)

const (
	defaultInterval = 2 * time.Second
	defaultMaxBytes = 4 << 20
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
		if first || !good.known || !good.file.Unchanged(good.at, d.now()) {
			seen, err := d.load(good, set)
			switch {
			case err == nil:
				good, bad = seen, look{}
			case first || bad.known && bad.file.Same(&seen.file):
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
	file, err := watch.Read(d.Path, limit, wrap())
	if err != nil {
		return look{}, err
	}
	data := file.Data
	file.Data = nil // only the sum is compared
	seen := look{known: true, file: file, at: d.now()}
	if good.known && good.file.Same(&file) {
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
	file  watch.File
	at    time.Time
}

func wrap() watch.Errors {
	return watch.Errors{TooLarge: ErrTooLarge, NotRegular: ErrNotRegular, Advice: "correct the path or raise MaxBytes"}
}

// Load reads the workers of a file once and checks them as a Fleet would.
func Load(path string) ([]fleet.Worker, error) {
	file, err := watch.Read(path, defaultMaxBytes, wrap())
	if err != nil {
		return nil, err
	}
	workers, places, err := parse(file.Data)
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
