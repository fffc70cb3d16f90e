package ledger

import "context"

// Sink keeps records. A Ledger calls it from one goroutine at a time.
type Sink interface {
	// Write keeps the records. Nil means that they are where a crash can't take them from:
	// that is what acknowledges them. After an error, or a panic, the same records come
	// again, so it must be able to tell those that it has by ID, Attempt and State, or who
	// reads them must. It should return soon after ctx has ended. It must not modify the
	// records, nor keep the slice. What it never can take it must drop and return nil: the
	// Ledger would try for ever, and all that comes behind would wait.
	Write(ctx context.Context, records []Record) error
}

// SinkFunc is a function as a Sink.
type SinkFunc func(ctx context.Context, records []Record) error

// Write implements [Sink].
func (f SinkFunc) Write(ctx context.Context, records []Record) error { return f(ctx, records) }
