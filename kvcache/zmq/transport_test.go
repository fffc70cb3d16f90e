//go:build cgo

package zmq_test

import (
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
	"github.com/kvsteer/kvsteer/kvcache/zmq"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

const (
	buffer   = 8 << 20
	interval = 100 * time.Millisecond
	// sign and patience are generous: other tests may hold all cores, and the machine pause.
	sign     = 8 * time.Second
	patience = 40 * time.Second
	// handshake leaves time for several tries within patience, and each try time on a
	// machine that is busy: its threads share what there is with all of ours.
	handshake = 5 * time.Second
)

func libzmq() follow.Transport {
	return &zmq.Transport{Buffer: buffer, RetryMax: interval, HandshakeTimeout: handshake}
}

func pureGo() follow.Transport {
	return &zmtp.Transport{Buffer: buffer, Heartbeat: interval, HeartbeatTimeout: sign, RetryMax: interval}
}

func libzmqPublisher(cfg zmtp.PublisherConfig) (kvcachetest.TransportPublisher, error) {
	return zmq.NewPublisher(cfg)
}

func pureGoPublisher(cfg zmtp.PublisherConfig) (kvcachetest.TransportPublisher, error) {
	return zmtp.NewPublisher(cfg)
}

// TestTransport runs the conformance suite over both ends of the wire in all
// combinations that involve libzmq.
func TestTransport(t *testing.T) {
	for _, c := range []struct {
		name      string
		transport follow.Transport
		publisher func(zmtp.PublisherConfig) (kvcachetest.TransportPublisher, error)
		deadPeer  time.Duration // libzmq's own heartbeats are not safe to use
	}{
		{"libzmq from libzmq", libzmq(), libzmqPublisher, 0},
		{"libzmq from pure Go", libzmq(), pureGoPublisher, 0},
		{"pure Go from libzmq", pureGo(), libzmqPublisher, 3 * sign},
	} {
		t.Run(c.name, func(t *testing.T) {
			kvcachetest.TestTransport(t, kvcachetest.TransportHarness{
				Transport: c.transport,
				Publisher: c.publisher,
				Buffer:    buffer,
				DeadPeer:  c.deadPeer,
				Timeout:   patience,
			})
		})
	}
}
