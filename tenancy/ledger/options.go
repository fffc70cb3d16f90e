package ledger

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Options are the settings of a [Ledger]. Sink is required.
type Options struct {
	// Sink keeps the records. The caller closes it, after the Ledger.
	Sink Sink
	// Buffer bounds the records in memory, some 500 bytes each. 0 means 65,536; with a
	// Spool it is at least 16.
	Buffer int
	// Batch is the most that one Write gets, and never more than a quarter of the Buffer.
	// 0 means 512. Nothing waits for a batch to be
	// full: what comes while one is written makes the next.
	Batch int
	// Patience bounds the time for which Append waits for room in the Buffer. 0 means
	// 5 ms, less than 0 not at all.
	Patience time.Duration
	// Spool is the path of a file, in a folder that is there, for what the sink is too
	// slow for: when half of the Buffer is taken its records go there, and from there to
	// the sink, in order, as soon as it takes them. What Close can't write stays there, and
	// the next Ledger with that file writes it, as it does after a crash. Empty means
	// none: then Append refuses what finds the Buffer full. One Ledger has it at a time:
	// another gets an error that wraps [ErrInUse].
	// A second file lies beside it, Spool + ".2": while one is written to the sink, what
	// comes goes to the other.
	Spool string
	// SpoolBytes bounds what waits there for the sink. A file keeps its size until all of
	// it is written, so the two may take twice as much of the disk. 0 means 1 GiB.
	SpoolBytes int64
	// WriteTimeout ends the context of one Write. 0 means 30 s.
	WriteTimeout time.Duration
	// CloseTimeout bounds what Close waits for the sink. 0 means 10 s.
	CloseTimeout time.Duration
	// OnDurable is told of the records that have been acknowledged, in order; of some
	// twice, if a crash came between. It must not keep the slice, and what comes behind
	// waits for it.
	OnDurable func(records []Record)
	// OnLost is told of each record that will not be written, and why: those that Append
	// returned an error for, in its caller's goroutine, and those that Close gave up.
	OnLost func(r *Record, why error)
	// Logger is told when writing begins to fail, when it works again, and, once a minute,
	// that records are lost. Nil means nobody; [Ledger.Stats] tells as well.
	Logger *slog.Logger
}

const (
	defaultBuffer       = 1 << 16
	defaultBatch        = 512
	defaultPatience     = 5 * time.Millisecond
	defaultSpoolBytes   = 1 << 30
	defaultWriteTimeout = 30 * time.Second
	defaultCloseTimeout = 10 * time.Second
	// leastBuffer leaves something to move to the spool while a batch is with the sink.
	leastBuffer = 16
)

func (o *Options) fill() error {
	switch {
	case o.Sink == nil:
		return errors.New("ledger: Options.Sink is nil: give one, such as that of OpenJSONL")
	case o.Buffer < 0, o.Batch < 0, o.SpoolBytes < 0, o.WriteTimeout < 0, o.CloseTimeout < 0:
		return fmt.Errorf("ledger: Options has a negative number: Buffer %d, Batch %d, SpoolBytes %d, WriteTimeout %s, CloseTimeout %s",
			o.Buffer, o.Batch, o.SpoolBytes, o.WriteTimeout, o.CloseTimeout)
	}
	if o.Buffer == 0 {
		o.Buffer = defaultBuffer
	}
	if o.Spool != "" && o.Buffer < leastBuffer {
		return fmt.Errorf("ledger: Options.Buffer is %d: give at least %d with a Spool, or 0 for %d", o.Buffer, leastBuffer, defaultBuffer)
	}
	if o.Batch == 0 {
		o.Batch = defaultBatch
	}
	o.Batch = min(o.Batch, max(o.Buffer/4, 1))
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.SpoolBytes == 0 {
		o.SpoolBytes = defaultSpoolBytes
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = defaultWriteTimeout
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	return nil
}
