package eventstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Brief's text names the fault and no port, so that it is the same each time.
func TestBrief(t *testing.T) {
	// Where nobody listens: a port that was free a moment ago may be another process's.
	const port = "9"
	addr := net.JoinHostPort("127.0.0.1", port)
	_, dialErr := net.Dial("tcp", addr)
	require.ErrorContains(t, dialErr, port)
	_, getErr := http.Get("http://" + addr) //nolint:bodyclose // refused at once, there is none
	require.ErrorContains(t, getErr, port)
	for _, err := range []error{dialErr, getErr, fmt.Errorf("wrapped: %w", dialErr)} {
		brief := Brief(err)
		require.NotContains(t, brief.Error(), port)
		require.Contains(t, strings.ToLower(brief.Error()), "refused")
	}
	other := errors.New("handshake failed")
	require.Equal(t, other, Brief(other))
	require.Equal(t, io.EOF, Brief(io.EOF))
}
