package redis

import "errors"

// ErrClosed: the Limiter was closed. It is for whoever wrote the call.
var ErrClosed = errors.New("quota/redis: the Limiter is closed; end requests before it")

// UnavailableError says that Redis could not be asked, and that Options.Failure is Deny. It
// is not the request's fault: HTTP's answer is 503.
type UnavailableError struct {
	// Err is what happened; with the breaker open, what opened it.
	Err error
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return "quota/redis: Redis can't be asked, and Options.Failure says to refuse then: " + e.Err.Error()
}

// Unwrap returns what happened.
func (e *UnavailableError) Unwrap() error { return e.Err }

// StateError says that a key holds something that isn't of this package. It is for the
// operator: delete the key, or choose another Prefix.
type StateError struct{ Key string }

// Error implements error.
func (e *StateError) Error() string {
	return "quota/redis: the key " + quoted(e.Key) + " holds something else than limits; delete it, or choose another Prefix"
}
