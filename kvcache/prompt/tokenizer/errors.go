package tokenizer

import (
	"errors"
	"fmt"
)

var (
	// ErrUnsupported is wrapped by Load's error for a file that is sound, as far as one can
	// tell, but asks for something that this package can't do exactly. Whoever gets it
	// should have the engine tokenize, or use package hftok.
	ErrUnsupported = fmt.Errorf("tokenizer: %w", errors.ErrUnsupported)

	// ErrMalformed is wrapped by Load's error for a file that no tokenizer can be made of.
	ErrMalformed = errors.New("tokenizer: malformed file")

	// ErrInvalidUTF8 is returned by Encode for a text that isn't UTF-8, such as one with
	// half a surrogate pair. The engine refuses such texts as well.
	ErrInvalidUTF8 = errors.New("tokenizer: the text isn't UTF-8")

	// ErrTooComplex is returned by Encode when the tokenizer's pattern would take more than
	// linear time on the text. Have the engine tokenize it.
	ErrTooComplex = errors.New("tokenizer: the pattern takes too long on this text")

	// ErrTooLong is returned by Encode for a text above 256 MiB.
	ErrTooLong = errors.New("tokenizer: the text is too long")
)

// A LoadError says which part of a tokenizer file Load refused. It wraps ErrUnsupported or
// ErrMalformed.
type LoadError struct {
	Path string // such as "pre_tokenizer.pretokenizers[1]"; "" for the file as a whole
	Type string // the component's type, where there is one
	Err  error
}

// Error describes the part and what is wrong with it.
func (e *LoadError) Error() string {
	s := e.Err.Error()
	if e.Type != "" {
		s += " (" + e.Type + ")"
	}
	if e.Path != "" {
		s += " at " + e.Path
	}
	return s
}

// Unwrap returns ErrUnsupported or ErrMalformed with what is known besides.
func (e *LoadError) Unwrap() error { return e.Err }

func unsupportedf(path, format string, args ...any) error {
	return &LoadError{Path: path, Err: fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))}
}

func malformedf(path, format string, args ...any) error {
	return &LoadError{Path: path, Err: fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))}
}
