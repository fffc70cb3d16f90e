package kvcachetest_test

import (
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

const (
	buffer   = 8 << 20
	interval = 100 * time.Millisecond
	// sign and patience are generous: other tests may hold all cores.
	sign     = 3 * time.Second
	patience = 40 * time.Second
)

func transport() *zmtp.Transport {
	return &zmtp.Transport{Buffer: buffer, Heartbeat: interval, HeartbeatTimeout: sign, RetryMax: interval}
}

func harness() kvcachetest.TransportHarness {
	return kvcachetest.TransportHarness{
		Transport: transport(),
		Publisher: func(cfg zmtp.PublisherConfig) (kvcachetest.TransportPublisher, error) { return zmtp.NewPublisher(cfg) },
		Buffer:    buffer,
		DeadPeer:  3 * sign,
		Timeout:   patience,
	}
}

func TestTransportZMTP(t *testing.T) {
	kvcachetest.TestTransport(t, harness())
}
