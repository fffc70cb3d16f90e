package hftok

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"unicode/utf8"
)

// Tokenizer turns text into token ids. Make it with [Load]. Safe for concurrent
// use; a Tokenizer must not be copied.
type Tokenizer struct {
	size    int
	tokens  vocabulary
	cleanup runtime.Cleanup

	mu     sync.RWMutex // held for reading while the library uses native
	native native
	closed bool
}

// Load makes a Tokenizer of a tokenizer.json, which is not kept. What the file
// says about truncation and padding is ignored, as engines ignore it. Errors are
// [*LoadError], or wrap [errors.ErrUnsupported] where there is no cgo.
//
// Close the Tokenizer to free its memory at once; one that is forgotten is freed
// by the garbage collector, which doesn't know how much memory that is.
func Load(data []byte) (*Tokenizer, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	file, data, err := prepare(data)
	if err != nil {
		return nil, err
	}
	n, err := open(data)
	if err != nil {
		return nil, &LoadError{Reason: err.Error(), Err: err}
	}
	t := &Tokenizer{native: n, size: sizeOf(n), tokens: readVocabulary(file)}
	t.cleanup = runtime.AddCleanup(t, free, n)
	return t, nil
}

// LoadFile is [Load] of the file at path.
func LoadFile(path string) (*Tokenizer, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path) //nolint:gosec // which file is the caller's to say
	if err != nil {
		return nil, fmt.Errorf("hftok: %w", err)
	}
	return Load(data)
}

// Encode appends the ids of text to dst and returns the extended slice. With
// addSpecial it adds the tokens that the file's post-processor puts around a text,
// such as that of its beginning; tokens spelled out in the text are recognised
// either way.
//
// A text with a NUL or that is not UTF-8 is refused with a [*TextError], because
// the library would silently encode another one. On an error dst is returned as it
// was.
func (t *Tokenizer) Encode(dst []uint32, text string, addSpecial bool) ([]uint32, error) {
	if err := check(text); err != nil {
		return dst, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.closed {
		return dst, ErrClosed
	}
	ids, err := encode(t.native, text, addSpecial)
	if err != nil {
		return dst, fmt.Errorf("hftok: encode: %w", err)
	}
	return append(dst, ids...), nil
}

func check(text string) error {
	if i := strings.IndexByte(text, 0); i >= 0 {
		return &TextError{Offset: i, Reason: reasonNUL}
	}
	if utf8.ValidString(text) {
		return nil
	}
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 { // not the character of that code
				return &TextError{Offset: i, Reason: reasonUTF8}
			}
		}
	}
	return nil
}

// Size is the number of tokens, added ones included.
func (t *Tokenizer) Size() int { return t.size }

// Token returns the token with an id, as the file spells it: in byte-level models
// with characters that stand for bytes.
func (t *Tokenizer) Token(id uint32) (string, bool) {
	token, ok := t.tokens[id]
	return token, ok
}

// Close waits for the calls of Encode in progress, and frees the library's
// memory. Encode returns [ErrClosed] afterwards. Closing again does nothing. It
// always returns nil.
func (t *Tokenizer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	t.cleanup.Stop()
	free(t.native)
	return nil
}
