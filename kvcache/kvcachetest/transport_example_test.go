package kvcachetest_test

import (
	"testing"
	"time"

	"github.com/kvsteer/kvsteer/kvcache/kvcachetest"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// A transport of your own takes the place of zmtp.Transport here. The publisher
// may stay, if yours speaks ZMTP.
func ExampleTestTransport() {
	test := func(t *testing.T) {
		t.Helper()
		kvcachetest.TestTransport(t, kvcachetest.TransportHarness{
			Transport: &zmtp.Transport{Heartbeat: 100 * time.Millisecond, HeartbeatTimeout: time.Second},
			Publisher: func(cfg zmtp.PublisherConfig) (kvcachetest.TransportPublisher, error) {
				return zmtp.NewPublisher(cfg)
			},
			DeadPeer: 3 * time.Second,
		})
	}
	_ = test // in your package it is called TestTransport
	// Output:
}
