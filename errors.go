package kvsteer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Code says what kind of thing went wrong, and so what a caller should do.
type Code uint8

// The codes. The zero value is never used in an Error.
const (
	// CodeBadRequest: the body isn't JSON, or lacks what its API requires. The
	// client must change it.
	CodeBadRequest Code = iota + 1
	// CodeTooLarge: the body exceeds [WithMaxBody], or the request needs more than a limit
	// ever lets through; then Err is a [*quota.Error]. The client must send less.
	CodeTooLarge
	// CodeUnknownModel: no worker of the fleet serves the model, healthy or not.
	// Served lists what is served.
	CodeUnknownModel
	// CodeNoCandidates: the model is served, but by no worker that can take
	// requests now. Try again after RetryAfter.
	CodeNoCandidates
	// CodeRejectedByPolicy: the policy left no candidate; Rule says which.
	CodeRejectedByPolicy
	// CodeLimited: a limit is used up; Err is a [*quota.Error], which says whose. Try
	// again after RetryAfter. See [WithTenancy].
	CodeLimited
	// CodeCanceled: the request's context ended first.
	CodeCanceled
	// CodeUpstream: every attempt failed on its worker; Err is the last failure.
	CodeUpstream
	// CodeClosed: the Router was closed.
	CodeClosed
	// CodeNotForwarded: the path is not one that a Transport forwards; see
	// TransportOptions.Forward.
	CodeNotForwarded
	// CodeSaturated: every worker is busy, and the request has waited as long as it
	// may, or too many wait already. Try again after RetryAfter. See [WithQueue].
	CodeSaturated
	// CodeUnauthenticated: nobody has verified whom the request comes from. See
	// [WithTenancy].
	CodeUnauthenticated
	// CodeForbidden: whom the request comes from may not use the model, or nothing at all.
	CodeForbidden
	// CodeUnavailable: what decides whom a request comes from, or whether it may be served,
	// or that records it, can't be reached. Try again after RetryAfter.
	CodeUnavailable
)

// statusClientClosed is the status that proxies log when a client went away; it
// is never seen by anybody on the wire.
const statusClientClosed = 499

type codeInfo struct {
	name   string
	status int
	kind   string // the error type in a response body, as OpenAI's and Anthropic's clients know them
}

func (c Code) info() codeInfo {
	switch c {
	case CodeBadRequest:
		return codeInfo{"bad request", http.StatusBadRequest, "invalid_request_error"}
	case CodeTooLarge:
		return codeInfo{"request too large", http.StatusRequestEntityTooLarge, "request_too_large"}
	case CodeUnknownModel:
		return codeInfo{"unknown model", http.StatusNotFound, "not_found_error"}
	case CodeNoCandidates:
		return codeInfo{"no candidates", http.StatusServiceUnavailable, "overloaded_error"}
	case CodeRejectedByPolicy:
		return codeInfo{"rejected by policy", http.StatusForbidden, "permission_error"}
	case CodeLimited:
		return codeInfo{"limited", http.StatusTooManyRequests, "rate_limit_error"}
	case CodeCanceled:
		return codeInfo{"canceled", statusClientClosed, "api_error"}
	case CodeUpstream:
		return codeInfo{"upstream failed", http.StatusBadGateway, "api_error"}
	case CodeClosed:
		return codeInfo{"router closed", http.StatusServiceUnavailable, "overloaded_error"}
	case CodeNotForwarded:
		return codeInfo{"not forwarded", http.StatusNotFound, "not_found_error"}
	case CodeSaturated:
		return codeInfo{"saturated", http.StatusServiceUnavailable, "overloaded_error"}
	case CodeUnauthenticated:
		return codeInfo{"unauthenticated", http.StatusUnauthorized, "authentication_error"}
	case CodeForbidden:
		return codeInfo{"forbidden", http.StatusForbidden, "permission_error"}
	case CodeUnavailable:
		return codeInfo{"unavailable", http.StatusServiceUnavailable, "overloaded_error"}
	case 0:
		return codeInfo{"no error", http.StatusOK, ""}
	default:
		return codeInfo{"internal error", http.StatusInternalServerError, "api_error"}
	}
}

// String returns the code's name in words.
func (c Code) String() string { return c.info().name }

// HTTPStatus returns the status to answer with.
func (c Code) HTTPStatus() int { return c.info().status }

// Error is the only error type that a Router and a Transport return. It never
// holds any of the prompt.
type Error struct {
	Code Code
	// Message says what is wrong and what to do about it.
	Message string
	// RetryAfter is when it makes sense to try again, 0 if never as it is.
	RetryAfter time.Duration
	// Rule is the policy rule, or that of a limit, which rejected the request, if one did,
	// and Status the HTTP status that it wants, 0 for that of the Code.
	Rule   string
	Status int
	// Served lists the models that are served, for CodeUnknownModel.
	Served []string
	// Err is the cause, if there is one.
	Err error

	// linger is how long the policy lets the request wait for a candidate.
	linger time.Duration
}

// HTTPStatus returns the status to answer with.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Code.HTTPStatus()
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("kvsteer: ")
	b.WriteString(e.Code.String())
	cause := ""
	if e.Err != nil {
		cause = e.Err.Error()
	}
	if e.Message != "" && !strings.HasSuffix(cause, e.Message) { // or the cause says it
		b.WriteString(": ")
		b.WriteString(e.Message)
	}
	if cause != "" {
		b.WriteString(": ")
		b.WriteString(cause)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the *Error in err's chain, 0 if there is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func badRequest(err error, format string, args ...any) *Error {
	return &Error{Code: CodeBadRequest, Message: fmt.Sprintf(format, args...), Err: err}
}

func canceled(ctx context.Context) *Error {
	return &Error{Code: CodeCanceled, Err: context.Cause(ctx)}
}

const maxServedInMessage = 20

func unknownModel(model string, served []string) *Error {
	list := "none"
	if len(served) > 0 {
		shown := served[:min(len(served), maxServedInMessage)]
		list = strings.Join(shown, ", ")
		if rest := len(served) - len(shown); rest > 0 {
			list += fmt.Sprintf(" and %d more", rest)
		}
	}
	return &Error{
		Code:    CodeUnknownModel,
		Message: fmt.Sprintf("no worker serves %q; models served: %s", clip(model), list),
		Served:  served,
	}
}

// clip keeps what a client chose from flooding logs.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func quote(s string) string { return strconv.Quote(clip(s)) }

func tooLarge(limit int64) *Error {
	return &Error{Code: CodeTooLarge, Message: fmt.Sprintf("the body is larger than %d bytes (the gateway's WithMaxBody)", limit)}
}
