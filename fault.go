package kvsteer

import (
	"context"
	"errors"
	"net/http"
	"strconv"
)

// namedError is an error of the router's own that traces and metrics count by a name.
type namedError struct{ name, text string }

func (e *namedError) Error() string { return e.text }

// ErrorType is the name, as OpenTelemetry's error.type wants it: one of few.
func (e *namedError) ErrorType() string { return e.name }

// statusError is why an answered attempt is given up.
type statusError struct{ status int }

func (e *statusError) Error() string { return "the worker answered " + http.StatusText(e.status) }

// ErrorType is the status: see namedError.
func (e *statusError) ErrorType() string { return strconv.Itoa(e.status) }

// slowError is why a worker, or a provider, is given up that was waited for long enough.
type slowError struct{ text string }

func (e *slowError) Error() string { return e.text }

// Timeout sets it apart, for who sees only that a request was cut off, from a client that left.
func (*slowError) Timeout() bool { return true }

// ErrorType names it: see namedError.
func (*slowError) ErrorType() string { return "timeout" }

// StatusError returns what to give to [Selection.Next] or [Placement.Next] as the cause if
// a worker's answer has a status that another worker may better, such as 503. A 429 says
// that the worker is busy, and is no failure of it.
func StatusError(status int) error { return &statusError{status: status} }

// atFault reports whether cause, for which a request goes on elsewhere, counts against
// the health of the worker that it leaves. What the request's own side wanted does not.
func atFault(ctx context.Context, cause error) bool {
	var answered *statusError
	switch {
	case cause == nil, ctx.Err() != nil, errors.Is(cause, context.Canceled), errors.Is(cause, errReaped):
		return false
	case errors.As(cause, &answered):
		return retryable(answered.status) && answered.status != http.StatusTooManyRequests
	default:
		return true
	}
}

// blame tells the fleet, once for each attempt, that the current one's worker failed.
func (s *Selection) blame(ctx context.Context, cause error) {
	s.mu.Lock()
	member, told := s.attempt.failed().member, s.ended || s.attempt.blamed
	s.attempt.blamed = true
	s.mu.Unlock()
	if !told && member != nil && atFault(ctx, cause) {
		member.ReportFailure(cause)
	}
}
