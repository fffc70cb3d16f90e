package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// JSONLOptions are the settings of [OpenJSONL]. The zero value works.
type JSONLOptions struct {
	// MaxBytes is the size at which another file is begun, at least 64 KiB. 0 means
	// 256 MiB.
	MaxBytes int64
	// MaxAge is how old the first record in the file may be before another file is begun,
	// with the next record. 0 means any age.
	MaxAge time.Duration
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Logger is told when another file can't be begun, and the old one grows on. Nil means
	// nobody.
	Logger *slog.Logger
}

const defaultMaxBytes = 256 << 20

// JSONL is a [Sink] that writes files with a record in JSON a line. Safe for concurrent
// use.
type JSONL struct {
	opts JSONLOptions
	mu   sync.Mutex
	file *lines
	// since is when the file's first record was written, or what that says of itself if
	// another process wrote it; zero if there is none.
	since time.Time
	// broken: the disk failed, and the file must not be written to again.
	broken bool
	closed bool
	buf    bytes.Buffer
}

// OpenJSONL opens the file of that path, whose folder must be there, and makes it where it
// is not, readable for its owner only. A last line that a crash has cut off is moved to
// path + ".torn". One JSONL has the file at a time: another gets an error that wraps
// [ErrInUse].
//
// When the file has grown to MaxBytes or MaxAge it is renamed, usage.jsonl to
// usage-20261130T113443.123456Z.jsonl by the clock, and another begins. Files are never
// deleted: that is for whoever has charged them.
func OpenJSONL(path string, o JSONLOptions) (*JSONL, error) {
	switch {
	case o.MaxBytes == 0:
		o.MaxBytes = defaultMaxBytes
	case o.MaxBytes < MaxLine:
		return nil, fmt.Errorf("ledger: JSONLOptions.MaxBytes is %d: give at least %d, or 0 for %d", o.MaxBytes, MaxLine, defaultMaxBytes)
	}
	if o.MaxAge < 0 {
		return nil, fmt.Errorf("ledger: JSONLOptions.MaxAge is negative: %s", o.MaxAge)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	file, err := openLines(path)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	j := &JSONL{opts: o, file: file}
	if err := j.age(); err != nil {
		return nil, fmt.Errorf("ledger: %w", errors.Join(err, file.close()))
	}
	return j, nil
}

// errFirst ends the reading of a file after its first record.
var errFirst = errors.New("the first record")

func (j *JSONL) age() error {
	err := Read(io.NewSectionReader(j.file.f, 0, j.file.size), func(e *Entry) error {
		if e.Record == nil {
			return nil
		}
		j.since = e.Record.At
		return errFirst
	})
	if errors.Is(err, errFirst) {
		return nil
	}
	return err
}

// Write implements [Sink]: the records are on disk when it returns nil, written at once
// and flushed by fsync. A disk that hangs holds it, whatever ctx says.
func (j *JSONL) Write(ctx context.Context, records []Record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil || len(records) == 0 {
		return err
	}
	j.buf.Reset()
	if err := Encode(&j.buf, records); err != nil {
		return err
	}
	if err := j.turn(int64(j.buf.Len())); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	err := j.file.add(j.buf.Bytes())
	var failed *syncError
	if errors.As(err, &failed) {
		j.broken = true
	}
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if j.since.IsZero() {
		j.since = j.opts.Now()
	}
	return nil
}

// turn begins another file if that is due.
func (j *JSONL) turn(more int64) error {
	now := j.opts.Now()
	full := j.file.size > 0 && j.file.size+more > j.opts.MaxBytes
	old := j.opts.MaxAge > 0 && !j.since.IsZero() && now.Sub(j.since) >= j.opts.MaxAge
	if !full && !old && !j.broken && j.file.f != nil {
		return nil
	}
	if err := j.rotate(now); err != nil {
		if j.broken || j.file.f == nil {
			return err
		}
		if l := j.opts.Logger; l != nil {
			l.Warn("ledger: another file can't be begun; the old one grows on", slog.Any("error", err))
		}
		return nil
	}
	j.since, j.broken = time.Time{}, false
	return nil
}

// rotate names the file by the time, or the first microsecond after it that is not taken.
func (j *JSONL) rotate(now time.Time) error {
	const tries = 1000
	ext := filepath.Ext(j.file.path)
	stem := strings.TrimSuffix(j.file.path, ext)
	for i := range tries {
		at := now.UTC().Add(time.Duration(i) * time.Microsecond)
		err := j.file.moveTo(stem + "-" + at.Format("20060102T150405.000000Z") + ext)
		if err == nil || !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("no free name for %s", j.file.path)
}

// Close closes the file. Close the Ledger first. It is idempotent.
func (j *JSONL) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return j.file.close()
}
