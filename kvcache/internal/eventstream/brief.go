package eventstream

import (
	"errors"
	"net"
	"net/url"
	"os"
)

// Brief returns the part of a network error that says what went wrong, without
// the operation and the addresses around it: the caller names the address that
// was meant, and a local port would make every attempt's text a new one.
func Brief(err error) error {
	for {
		var (
			request *url.Error
			op      *net.OpError
			call    *os.SyscallError
			inner   error
		)
		switch {
		case errors.As(err, &request):
			inner = request.Err
		case errors.As(err, &op):
			inner = op.Err
		case errors.As(err, &call):
			inner = call.Err
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}
