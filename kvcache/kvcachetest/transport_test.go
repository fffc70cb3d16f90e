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
	// sign is generous: other tests may hold both cores.
	sign = time.Second
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
	}
}

func TestTransportZMTP(t *testing.T) {
	kvcachetest.TestTransport(t, harness())
}
