package zmtp_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// TestFollowerWithoutEvents: an address of the events where nobody publishes is
// never made up for by a replay address that answers.
func TestFollowerWithoutEvents(t *testing.T) {
	for name, events := range map[string]func(follow.Endpoint) string{
		"nobody there":  func(follow.Endpoint) string { return "tcp://127.0.0.1:1" },
		"replay socket": func(ep follow.Endpoint) string { return ep.Replay },
	} {
		t.Run(name, func(t *testing.T) {
			engine, err := zmtp.NewPublisher(zmtp.PublisherConfig{Replay: "tcp://127.0.0.1:0"})
			require.NoError(t, err)
			defer func() { require.NoError(t, engine.Close()) }()
			_, err = engine.Publish("kv", []byte{1})
			require.NoError(t, err)
			ep := engine.Endpoint()
			ep.Events = events(ep)

			const soon = 20 * time.Millisecond
			var index applied
			exact := make(chan struct{}, 1)
			f, err := follow.Start(t.Context(), follow.Config{
				Transport: &zmtp.Transport{RetryMin: soon, RetryMax: soon}, Endpoint: ep, Index: &index,
				Owner:      func(int) (kvcache.Owner, bool) { return kvcache.Owner{}, true },
				Decoder:    onePerByte{},
				CheckEvery: soon,
				OnTrust: func(c follow.Change) {
					if c.To == kvcache.Exact {
						exact <- struct{}{}
					}
				},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			const checks = 10
			require.Eventually(t, func() bool {
				s := f.Stats()
				return s.Trust == kvcache.Resyncing && s.Reason == follow.ReasonNotConnected && s.Replays >= checks
			}, patience, time.Millisecond)
			require.Empty(t, exact)
		})
	}
}
