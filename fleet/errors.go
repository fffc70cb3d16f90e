package fleet

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of a Fleet.
var (
	// ErrClosed: the Fleet was closed. Seen by callers of its methods and by
	// Discoverers that still call set.
	ErrClosed = errors.New("fleet: closed")
	// ErrUnknownWorker: no worker of that name is in the fleet. Seen by operators
	// who drain one; Snapshot.Members lists the names.
	ErrUnknownWorker = errors.New("fleet: no worker of that name")
	// ErrInvalidWorker is what every *WorkerError wraps. Seen by Discoverers and
	// by whoever wrote the list: correct the named field.
	ErrInvalidWorker = errors.New("fleet: invalid worker")
	// ErrTooManyWorkers: the list is longer than Options.MaxWorkers. Seen by
	// Discoverers: raise the limit or narrow the selection.
	ErrTooManyWorkers = errors.New("fleet: too many workers")
	// ErrNotReady: no worker became healthy in time. Seen by callers of WaitReady;
	// the text lists what is wrong with the workers there are.
	ErrNotReady = errors.New("fleet: no healthy worker")
)

// WorkerError says which field of which worker is wrong, and what to do.
type WorkerError struct {
	// Index is the worker's place in the list, from 0.
	Index int
	// Worker is its name, "" if that is what is missing.
	Worker string
	// Field is the key as it is written in a file, for example "events[1].events".
	Field string
	// Problem says what is wrong and what to do about it.
	Problem string
}

// Error names the worker, the field and the remedy.
func (e *WorkerError) Error() string {
	var b strings.Builder
	if e.Worker != "" {
		fmt.Fprintf(&b, "fleet: worker %q", e.Worker)
	} else {
		fmt.Fprintf(&b, "fleet: worker number %d", e.Index+1)
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	b.WriteString(": " + e.Problem)
	return b.String()
}

// Unwrap makes errors.Is(err, ErrInvalidWorker) true.
func (e *WorkerError) Unwrap() error { return ErrInvalidWorker }
