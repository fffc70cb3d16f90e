package kvsteer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"testing"

	"github.com/stretchr/testify/require"
)

// What an error quotes is left out, and what it is stays.
func TestWhatIsQuotedIsLeftOut(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("broken: %w", textproto.ProtocolError(`malformed MIME header line: "secret`))
	got := unquoted(fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err))
	require.EqualError(t, got, "unexpected EOF: broken: malformed MIME header line (what was sent is left out)")
	require.NotContains(t, fmt.Sprintf("%v %+v %#v %q", got, got, got, got), "secret")
	require.ErrorIs(t, got, io.ErrUnexpectedEOF)
	var protocol textproto.ProtocolError
	require.ErrorAs(t, got, &protocol)
	require.NoError(t, errors.Unwrap(got))
	for _, plain := range []error{io.EOF, &net.OpError{Op: "dial", Err: errors.New("refused")}, &Error{Code: CodeBadRequest, Message: `no "model"`}, nil} {
		require.Equal(t, plain, unquoted(plain))
	}
}

// The texts of Go 1.25.0, which have no quotes, and of later versions, which have.
func TestWhatIsRepeatedWithoutQuotesIsLeftOut(t *testing.T) {
	t.Parallel()
	const left = " (what was sent is left out)"
	broken := func(err error) error {
		return fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", err)
	}
	const at = "net/http: HTTP/1.x transport connection broken"
	for want, err := range map[string]error{
		at + ": malformed MIME header initial line" + left:   broken(textproto.ProtocolError("malformed MIME header initial line:  secret")),
		at + ": malformed MIME header line" + left:           broken(textproto.ProtocolError("malformed MIME header line: a, b: secret")),
		at + ": malformed MIME header: missing colon" + left: broken(textproto.ProtocolError("malformed MIME header: missing colon: secret")),
		at + ": malformed MIME header" + left:                broken(textproto.ProtocolError("malformed MIME header secret")),
		at + ": malformed HTTP response" + left:              broken(errors.New("malformed HTTP response secret")),
		at + ": malformed HTTP" + left:                       broken(errors.New("malformed HTTP: secret malformed HTTP response")),
		at + left:                                            broken(errors.New("secret")),
		"malformed" + left:                                   errors.New("malformed secret"),
		"worker" + left:                                      fmt.Errorf("worker: %w", textproto.ProtocolError("short response: secret")),
		"malformed answer" + left:                            textproto.ProtocolError("secret"),
	} {
		got := unquoted(err)
		require.EqualError(t, got, want)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v %q", got, got, got, got), "secret")
		require.EqualError(t, unquoted(got), want, "twice is once")
		require.EqualError(t, unquoted(fmt.Errorf("again: %w", got)), "again: "+want)
	}
	for _, plain := range []error{broken(io.ErrUnexpectedEOF), broken(io.EOF), broken(&net.OpError{Op: "read", Err: errors.New("reset")})} {
		require.Equal(t, plain, unquoted(plain), "what is wrong with a connection is told")
	}
}
