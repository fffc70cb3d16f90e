//go:build !cgo

package zmq

import (
	"context"
	"errors"
	"fmt"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/internal/eventstream"
)

// supported says why the package can't work.
func supported() error {
	return fmt.Errorf("zmq: built without cgo, which libzmq needs; use package kvcache/zmtp or build with CGO_ENABLED=1: %w",
		errors.ErrUnsupported)
}

type sharedContext struct{}

func (*Transport) serve(context.Context, eventstream.Job, *eventstream.Sink) error {
	return supported()
}

// Publisher does not exist without cgo: NewPublisher always fails, so that there
// is none to call.
type Publisher struct{}

// NewPublisher returns an error that wraps [errors.ErrUnsupported].
func NewPublisher(PublisherConfig) (*Publisher, error) { return nil, supported() }

// Endpoint returns nothing.
func (*Publisher) Endpoint() follow.Endpoint { return follow.Endpoint{} }

// Publish returns an error that wraps [errors.ErrUnsupported].
func (*Publisher) Publish(string, []byte) (uint64, error) { return 0, supported() }

// Send returns an error that wraps [errors.ErrUnsupported].
func (*Publisher) Send(follow.Message) error { return supported() }

// Record returns an error that wraps [errors.ErrUnsupported].
func (*Publisher) Record(follow.Message) error { return supported() }

// SendFrames returns an error that wraps [errors.ErrUnsupported].
func (*Publisher) SendFrames(...[]byte) error { return supported() }

// Close does nothing.
func (*Publisher) Close() error { return nil }
