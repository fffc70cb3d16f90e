package kvsteer

import (
	"errors"
	"strings"

	"github.com/kvsteer/kvsteer/providers"
)

// quotingError is an error of net/http that quotes what it could not make sense of: a worker
// that answers with something else than HTTP may answer with the prompt. It is whatever it
// was to those who ask what it is, and does not say what the worker sent.
type quotingError struct {
	text string // without what was quoted
	err  error
}

func (e *quotingError) Error() string { return e.text }

// Is implements what errors.Is asks for. There is no Unwrap: whoever prints what is
// wrapped would print the quotation.
func (e *quotingError) Is(target error) bool { return errors.Is(e.err, target) }

// As implements what errors.As asks for.
func (e *quotingError) As(target any) bool { return errors.As(e.err, target) }

// GoString keeps formatting by %#v from looking inside.
func (e *quotingError) GoString() string { return e.text }

// unquoted is err as logs and records may have it.
func unquoted(err error) error {
	if err == nil {
		return nil
	}
	said, _, quotes := strings.Cut(err.Error(), `"`)
	var own *Error
	var theirs *providers.Error // which has seen to it
	if !quotes || errors.As(err, &own) || errors.As(err, &theirs) {
		return err
	}
	return &quotingError{strings.TrimRight(said, " :=,") + " (what was sent is left out)", err}
}
