package providers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

// wireError stands for an error whose text may quote what the service sent, as those about
// malformed answers do. It is still the same for errors.Is and errors.As.
type wireError struct{ err error }

// Error names the type, which tells operators and searchers what it was.
func (e *wireError) Error() string {
	inner := e.err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	return fmt.Sprintf("the connection broke, or the answer is malformed (%T)", inner)
}

// Is implements what errors.Is asks for.
func (e *wireError) Is(target error) bool { return errors.Is(e.err, target) }

// As implements what errors.As asks for.
func (e *wireError) As(target any) bool { return errors.As(e.err, target) }

// plainly is an error of the transport as logs may have it: those pass whose texts are about
// the connection; any other is a wireError.
func plainly(err error) error {
	for _, known := range [...]error{
		context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded,
		http.ErrSchemeMismatch, errClosed, ErrClosed,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	var op *net.OpError
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var slow interface{ Timeout() bool }
	if errors.As(err, &op) || errors.As(err, &dns) || errors.As(err, &cert) || errors.As(err, &unknown) ||
		errors.As(err, &slow) && slow.Timeout() {
		return err
	}
	return &wireError{err}
}
