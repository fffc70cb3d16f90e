//go:build !cgo

package zmq_test

import (
	"errors"
	"testing"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmq"
)

func TestUnsupported(t *testing.T) {
	_, err := zmq.NewPublisher(zmq.PublisherConfig{})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("NewPublisher returned %v", err)
	}
	var transport zmq.Transport
	_, err = transport.Dial(t.Context(), follow.Endpoint{Events: "tcp://127.0.0.1:5557"})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Dial returned %v", err)
	}
}
