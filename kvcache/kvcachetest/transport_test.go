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
)

func transport() *zmtp.Transport {
	return &zmtp.Transport{Buffer: buffer, Heartbeat: interval, HeartbeatTimeout: interval, RetryMax: interval}
}

func harness() kvcachetest.TransportHarness {
	return kvcachetest.TransportHarness{
		Transport: transport(),
		Publisher: func(cfg zmtp.PublisherConfig) (kvcachetest.TransportPublisher, error) { return zmtp.NewPublisher(cfg) },
		Buffer:    buffer,
		DeadPeer:  time.Second,
	}
}

func TestTransportZMTP(t *testing.T) {
	kvcachetest.TestTransport(t, harness())
}
