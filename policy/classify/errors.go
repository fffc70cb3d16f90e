package classify

import (
	"errors"
	"strconv"
)

// Why a classifier said nothing. Whoever runs the gateway sees them, wrapped in an
// [*Error].
var (
	// ErrDeadline: the classifier took longer than it had, or the request's own
	// context ended.
	ErrDeadline = errors.New("no answer within the deadline")
	// ErrBusy: as many calls as may be are still running, because the classifier is
	// slow or does not heed its context.
	ErrBusy = errors.New("too many calls under way")
	// ErrPanic: the classifier panicked. What it said is not kept, as it may quote
	// the request.
	ErrPanic = errors.New("panicked")
	// ErrSilent: the classifier left out a tag without saying why.
	ErrSilent = errors.New("left out a tag that it should produce")
)

// Error says which classifier failed. All the tags that it alone produces are then
// unknown. It holds nothing of the request, as long as Err doesn't.
type Error struct {
	// Index is the classifier's place in [SetOptions.Members], Tag the first of its
	// tags.
	Index int
	Tag   string
	Err   error
}

// Error names the classifier by its first tag.
func (e *Error) Error() string {
	return "classify: the classifier of " + strconv.Quote(e.Tag) + " (number " + strconv.Itoa(e.Index) + "): " + e.Err.Error()
}

// Unwrap returns why.
func (e *Error) Unwrap() error { return e.Err }
