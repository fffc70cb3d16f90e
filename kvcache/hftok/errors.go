package hftok

import (
	"errors"
	"strconv"
)

// ErrClosed is returned by Encode after Close: whoever closed the Tokenizer
// should have replaced it first.
var ErrClosed = errors.New("hftok: tokenizer is closed")

// LoadError says why a tokenizer.json can't be used. One that wraps
// [errors.ErrUnsupported] is about a file which may be right, but which can't give
// the engine's ids here.
type LoadError struct {
	// Reason is what is wrong, in words. It may quote the file.
	Reason string
	// Err is the cause, nil if there is none beyond the Reason.
	Err error
}

// Error gives the reason.
func (e *LoadError) Error() string { return "hftok: tokenizer.json: " + e.Reason }

// Unwrap returns the cause.
func (e *LoadError) Unwrap() error { return e.Err }

// TextError says why a text has no ids: the library would encode another text
// than the engine does. It holds none of the text; let the engine encode it.
type TextError struct {
	// Offset is in bytes from the start of the text.
	Offset int
	// Reason is one of a fixed set of phrases.
	Reason string
}

// Error gives the reason and the offset.
func (e *TextError) Error() string {
	return "hftok: text " + e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

const (
	reasonNUL  = "has a NUL, at which the library would end it,"
	reasonUTF8 = "is not UTF-8"
)
