package jinja

import (
	"errors"
	"fmt"
	"slices"
)

// The kinds of errors, for errors.Is. All are seen by whoever chose the template
// or sent the request.
var (
	// ErrSyntax: the template is not valid Jinja. The engine refuses it too.
	ErrSyntax = errors.New("jinja: invalid template")
	// ErrUnsupported: the template uses something this package doesn't have, or
	// whose outcome is not determined (a memory address, a random choice). Ask the
	// engine to render instead.
	ErrUnsupported = errors.New("jinja: not supported")
	// ErrRuntime: rendering failed with these variables, as it does in Python.
	ErrRuntime = errors.New("jinja: rendering failed")
	// ErrRaised: the template itself refused the request by raise_exception.
	ErrRaised = errors.New("jinja: the template refused the request")
	// ErrLimit: the template exceeded a limit of its Options.
	ErrLimit = errors.New("jinja: limit exceeded")
)

// Kind says what sort of failure an [Error] is.
type Kind uint8

// The kinds; each has a sentinel error of the same name.
const (
	Syntax Kind = iota + 1
	Unsupported
	Runtime
	Raised
	Limit
)

// Error is what Compile, Render and FromJSON return, except for a context's own
// error. It never contains values of the variables, with one exception: Message
// of a Raised error is what the template passed to raise_exception, and a
// template may quote the request there. Error therefore leaves it out; show it to
// the client who sent the request and to nobody else.
type Error struct {
	Kind    Kind
	Line    int // in the template, from 1; 0: not known
	Message string

	class class // the Python exception's class, where one is imitated
}

// Error implements error.
func (e *Error) Error() string {
	where := ""
	if e.Line > 0 {
		where = fmt.Sprintf(", line %d", e.Line)
	}
	if e.Kind == Raised || e.Message == "" {
		return e.sentinel().Error() + where
	}
	return e.sentinel().Error() + where + ": " + e.Message
}

// Is reports whether target is the sentinel of e's kind.
func (e *Error) Is(target error) bool { return target == e.sentinel() }

func (e *Error) sentinel() error {
	switch e.Kind {
	case Syntax:
		return ErrSyntax
	case Unsupported:
		return ErrUnsupported
	case Raised:
		return ErrRaised
	case Limit:
		return ErrLimit
	case Runtime:
		return ErrRuntime
	default:
		return ErrRuntime
	}
}

// class is the part of Python's exception hierarchy that code here catches.
type class uint8

const (
	otherError class = iota
	typeError
	valueError
	lookupError
	overflowError
)

func raise(c class, format string, args ...any) error {
	return &Error{Kind: Runtime, Message: fmt.Sprintf(format, args...), class: c}
}

func unsupported(format string, args ...any) error {
	return &Error{Kind: Unsupported, Message: fmt.Sprintf(format, args...)}
}

func limit(format string, args ...any) error {
	return &Error{Kind: Limit, Message: fmt.Sprintf(format, args...)}
}

// isClass tells whether err is an exception that `except (classes...)` catches.
func isClass(err error, classes ...class) bool {
	e, ok := err.(*Error) //nolint:errorlint // made here, never wrapped; As would allocate
	if !ok || e.Kind != Runtime {
		return false
	}
	return slices.Contains(classes, e.class)
}

// atLine notes where err happened, unless it is known already.
func atLine(err error, line int) error {
	if e, ok := err.(*Error); ok && e.Line == 0 { //nolint:errorlint // made here, never wrapped
		e.Line = line
	}
	return err
}
