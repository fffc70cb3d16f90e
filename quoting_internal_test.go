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
