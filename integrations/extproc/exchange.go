package extproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kvsteer/kvsteer"
)

// phase is how far a request has come.
type phase uint8

const (
	waiting phase = iota // nothing was heard of it
	reading              // its headers are here, its body is not yet
	decided              // it is on its way to a worker
	over                 // it was answered here, or without us
)

// errLeft is why a request ends whose stream did, before its answer was whole: nobody says
// whether the client left or the worker broke off.
var errLeft = errors.New("extproc: Envoy closed the request's stream before the answer was whole")

// unfinished is errLeft as a cancellation, for which no worker is blamed.
type unfinished struct{}

func (unfinished) Error() string        { return errLeft.Error() }
func (unfinished) Is(target error) bool { return target == context.Canceled || target == errLeft }

// exchange is one HTTP request and its answer, in the one goroutine of its stream.
type exchange struct {
	srv    *Server
	stream extprocv3.ExternalProcessor_ProcessServer
	ahead  chan received // what is received while a worker is chosen

	requestBody, answerBody procv3.ProcessingMode_BodySendMode

	phase    phase
	head     *http.Request
	remove   []string // headers that clients must not send
	subset   []string
	hinted   bool // there is a subset, be it empty
	body     []byte
	early    bool // Envoy answered while a worker was chosen; that is to be received yet
	told     bool // the router or its hooks know of the request
	answered bool // the head of the answer is here
	ended    bool // and all of it

	sel    *kvsteer.Selection
	placed *kvsteer.Placement
	pulse  *pulse // until the answer's head
	answer *kvsteer.Answer
	hosts  map[string]string // endpoint to the host of the worker's URL
}

type received struct {
	msg *extprocv3.ProcessingRequest
	err error
}

func (x *exchange) run() error {
	for first := true; ; first = false {
		msg, err := x.receive()
		switch {
		case errors.Is(err, io.EOF), err != nil && x.stream.Context().Err() != nil:
			return nil //nolint:nilerr // the end of the request: close releases what there is
		case err != nil:
			return err
		case msg.GetObservabilityMode():
			return status.Error(codes.FailedPrecondition, "kvsteer: observability_mode is on, so requests can't be routed; turn it off")
		}
		if first {
			x.modes(msg.GetProtocolConfig())
		}
		if err := x.take(msg); err != nil || x.phase == over && !x.answered && !x.early {
			return err
		}
	}
}

// modes reads how Envoy was told to send bodies.
func (x *exchange) modes(c *extprocv3.ProtocolConfiguration) {
	x.requestBody, x.answerBody = procv3.ProcessingMode_FULL_DUPLEX_STREAMED, procv3.ProcessingMode_FULL_DUPLEX_STREAMED
	if c != nil {
		x.requestBody, x.answerBody = c.GetRequestBodyMode(), c.GetResponseBodyMode()
	}
}

func (x *exchange) take(msg *extprocv3.ProcessingRequest) error {
	if x.phase <= reading {
		x.hint(msg.GetMetadataContext())
	}
	switch m := msg.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return x.requestHeaders(msg, m.RequestHeaders)
	case *extprocv3.ProcessingRequest_RequestBody:
		return x.requestChunk(m.RequestBody)
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return x.requestTrailers(m.RequestTrailers.GetTrailers())
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return x.answerHeaders(msg, m.ResponseHeaders)
	case *extprocv3.ProcessingRequest_ResponseBody:
		return x.answerChunk(msg, m.ResponseBody)
	case *extprocv3.ProcessingRequest_ResponseTrailers:
		return x.answerTrailers(m.ResponseTrailers.GetTrailers())
	default:
		return nil // flow control, or something newer: nothing to answer
	}
}

func (x *exchange) receive() (*extprocv3.ProcessingRequest, error) {
	if x.ahead == nil {
		return x.stream.Recv()
	}
	next, more := <-x.ahead
	if !more {
		x.ahead = nil
		return x.stream.Recv()
	}
	return next.msg, next.err
}

// maxAhead is how many messages are received while a worker is chosen. Hardly more than the
// request's end, its trailers and an answer of Envoy's own can come.
const maxAhead = 16

// patiently calls fn, once, with a context that ends when Envoy gives the request up. Envoy
// does so by closing its side of the stream or by an answer of its own, which only who
// receives finds out.
func (x *exchange) patiently(fn func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(x.stream.Context())
	defer cancel()
	ahead := make(chan received, maxAhead)
	x.ahead = ahead
	var chosen, early atomic.Bool
	go func() { // ends with the message after the choice, or with the stream
		defer close(ahead)
		for !chosen.Load() {
			msg, err := x.stream.Recv()
			if msg.GetResponseHeaders() != nil {
				early.Store(true)
			}
			if err != nil || early.Load() {
				cancel()
			}
			select {
			case ahead <- received{msg, err}:
			case <-x.stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	err := fn(ctx)
	chosen.Store(true)
	if x.early = early.Load(); x.early {
		return errLocal
	}
	return err
}

func (x *exchange) send(r *extprocv3.ProcessingResponse) error {
	if err := x.stream.Send(r); err != nil && x.stream.Context().Err() == nil {
		return err
	}
	return nil // Envoy has gone, which receiving tells as well
}

// close ends what has not ended. Hooks hear of that, and may panic: the process serves
// other requests as well.
func (x *exchange) close() {
	defer func() {
		if p := recover(); p != nil {
			x.srv.panicked(p)
		}
	}()
	if x.phase == reading && !x.told { // its body was never whole
		x.tell(&kvsteer.Error{Code: kvsteer.CodeCanceled, Err: unfinished{}})
	}
	x.pulse.stop()
	if x.placed != nil {
		x.placed.End()
	}
	if x.answer != nil {
		if x.answerBody == procv3.ProcessingMode_NONE {
			x.answer.End() // the body was never to be seen
		}
		x.answer.Break(unfinished{})
	}
	if x.sel != nil {
		x.sel.Abort(unfinished{})
	}
}

// afterPanic answers a request that nobody has answered yet.
func (x *exchange) afterPanic() error {
	if x.phase == waiting || x.phase == reading {
		err := &kvsteer.Error{
			Code: kvsteer.CodeUpstream, Status: http.StatusServiceUnavailable, Message: "the router failed; its log says more",
		}
		if x.told {
			return x.deny(err)
		}
		return x.refuse(err)
	}
	return status.Error(codes.Internal, "kvsteer: the router failed; its log says more")
}
