package kvsteer

import (
	"errors"
	"io"
	"net"
	"net/textproto"
	"strings"

	"github.com/kvsteer/kvsteer/internal/planted"
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

// What net/http and net/textproto say before they repeat what they were sent, the longer
// first. Some versions of Go put it in quotes, Go 1.25.0 does not.
const (
	malformed = "malformed"
	broken    = "transport connection broken"
)

var complaints = []string{ //nolint:gochecknoglobals // a constant
	malformed + " MIME header initial line",
	malformed + " MIME header line",
	malformed + " MIME header: missing colon",
	malformed + " MIME header",
	malformed + " HTTP response",
	malformed + " HTTP status code",
	malformed + " HTTP version",
	malformed + " HTTP",
	malformed + " chunked encoding",
	malformed + " answer",
	malformed,
}

// unquoted is err as logs and records may have it.
func unquoted(err error) error {
	if err == nil || planted.QuotationKept {
		return err
	}
	var own *Error
	var theirs *providers.Error // which has seen to it
	if errors.As(err, &own) || errors.As(err, &theirs) {
		return err
	}
	said := err.Error()
	kept := harmless(said, err)
	if kept == said {
		return err
	}
	if kept = strings.TrimRight(kept, " :=,("); kept == "" {
		kept = malformed + " answer"
	}
	return &quotingError{kept + " (what was sent is left out)", err}
}

// harmless is the part of an error's text that can't be what a worker sent: what comes
// before a quotation, and before whatever repeats without quotes.
func harmless(said string, err error) string {
	kept, _, _ := strings.Cut(said, `"`)
	var protocol textproto.ProtocolError
	if errors.As(err, &protocol) && !strings.HasPrefix(string(protocol), malformed) {
		kept = kept[:upTo(kept, string(protocol))]
	}
	if at := strings.Index(kept, malformed); at >= 0 {
		for _, words := range complaints {
			if strings.HasPrefix(kept[at:], words) {
				kept = kept[:at+len(words)]
				break
			}
		}
	}
	if at := strings.Index(kept, broken); at >= 0 && !strings.Contains(kept[at:], malformed) && !ofConnection(err) {
		kept = kept[:at+len(broken)]
	}
	return kept
}

// upTo is where part begins, the whole length if it doesn't.
func upTo(text, part string) int {
	if at := strings.Index(text, part); at >= 0 {
		return at
	}
	return len(text)
}

// ofConnection reports whether err is about the connection, and so can't repeat what came.
func ofConnection(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op)
}
