package kvsteerotel

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/kvsteer/kvsteer"
)

// Values of error.type, beside the HTTP statuses of workers and the names of
// [kvsteer.Code] with underscores.
const (
	typeCanceled    = "canceled"    // the client went away
	typeTimeout     = "timeout"     // a worker was silent, or the request's time was up
	typeUnreachable = "unreachable" // no connection came about
	typeBroken      = "broken_off"  // it broke
	typeAbandoned   = "abandoned"   // whoever had the Selection forgot it
	typePanic       = "panic"
	typeOther       = "_OTHER"
)

// typeOf names an error that a request ended with. What was seen on the wire says more than what
// the router made of it, but for its own side's wishes.
func (c *call) typeOf(err error) string {
	if name := typeOf(err); name == typeCanceled || name == typeTimeout || c.failure == "" {
		return name
	}
	return c.failure
}

// endType names what a request ended with that a worker was chosen for. Its client's doing is
// what the router says is; a deadline that an error of a dial wraps is no client's.
func (c *call) endType(o *kvsteer.Outcome) string {
	switch {
	case !o.Left && c.failure != "":
		return c.failure
	case !o.Left:
		return lostType(o.Err)
	case errors.Is(o.Err, context.DeadlineExceeded):
		return typeTimeout
	default:
		return typeCanceled
	}
}

// lostType names an error that is not the client's doing.
func lostType(err error) string {
	if unreachable(err) {
		return typeUnreachable
	}
	if name := typeOf(err); name != typeCanceled {
		return name
	}
	return typeOther // somebody else was cancelled, as a provider's credentials may be
}

// unreachable reports whether no connection came about, for whatever reason.
func unreachable(err error) bool {
	var (
		dns *net.DNSError
		op  *net.OpError
	)
	return errors.As(err, &dns) || errors.As(err, &op) && op.Op == "dial"
}

// typeOf names an error.
func typeOf(err error) string {
	var named interface{ ErrorType() string }
	switch {
	case errors.As(err, &named):
		return named.ErrorType()
	case errors.Is(err, context.Canceled):
		return typeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return typeTimeout
	}
	if code := kvsteer.CodeOf(err); code != 0 && code != kvsteer.CodeUpstream {
		return strings.ReplaceAll(code.String(), " ", "_")
	}
	return wireType(err)
}

// wireType names an error of the network.
func wireType(err error) string {
	var timeout net.Error
	switch {
	case unreachable(err):
		return typeUnreachable
	case errors.As(err, &timeout) && timeout.Timeout():
		return typeTimeout
	case kvsteer.CodeOf(err) == kvsteer.CodeUpstream:
		return strings.ReplaceAll(kvsteer.CodeUpstream.String(), " ", "_")
	default:
		return typeOther
	}
}

// sendType names an error of sending a request to a worker, or of reading its answer,
// which ctx bounds. client bounds the whole request: if it goes on, the router gave up.
func sendType(client, ctx context.Context, err error) string {
	switch {
	case errors.Is(client.Err(), context.DeadlineExceeded):
		return typeTimeout
	case client.Err() != nil:
		return typeCanceled
	case ctx.Err() != nil:
		return typeTimeout
	}
	if name := lostType(err); name != typeOther {
		return name
	}
	return typeBroken
}

func asError(err error) *kvsteer.Error {
	var e *kvsteer.Error
	if !errors.As(err, &e) {
		return nil
	}
	return e
}
