package zmtp_test

import (
	"strings"
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
	for name, c := range map[string]struct {
		events  func(follow.Endpoint) string
		problem string
	}{
		"nobody there":  {func(follow.Endpoint) string { return "tcp://127.0.0.1:1" }, "refused"},
		"replay socket": {func(ep follow.Endpoint) string { return ep.Replay }, "are the event and replay addresses exchanged?"},
	} {
		t.Run(name, func(t *testing.T) {
			engine, err := zmtp.NewPublisher(zmtp.PublisherConfig{Replay: "tcp://127.0.0.1:0"})
			require.NoError(t, err)
			defer func() { require.NoError(t, engine.Close()) }()
			_, err = engine.Publish("kv", []byte{1})
			require.NoError(t, err)
			ep := engine.Endpoint()
			ep.Events = c.events(ep)

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
			require.Contains(t, f.Problem(), "event stream not connected ("+ep.Events+"): ")
			require.Contains(t, f.Problem(), c.problem)
		})
	}
}

// TestFollowerWithoutReplay: the same for an address of replays.
func TestFollowerWithoutReplay(t *testing.T) {
	for name, c := range map[string]struct {
		replay  func(follow.Endpoint) string
		problem string
	}{
		"nobody there": {func(follow.Endpoint) string { return "tcp://127.0.0.1:1" }, "refused"},
		"event socket": {func(ep follow.Endpoint) string { return ep.Events }, "are the event and replay addresses exchanged?"},
	} {
		t.Run(name, func(t *testing.T) {
			engine, err := zmtp.NewPublisher(zmtp.PublisherConfig{})
			require.NoError(t, err)
			defer func() { require.NoError(t, engine.Close()) }()
			ep := engine.Endpoint()
			ep.Replay = c.replay(ep)
			var index applied
			f, err := follow.Start(t.Context(), follow.Config{
				Transport: &zmtp.Transport{}, Endpoint: ep, Index: &index,
				Owner:         func(int) (kvcache.Owner, bool) { return kvcache.Owner{}, true },
				Decoder:       onePerByte{},
				ReplayTimeout: 2 * time.Second,
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			// On a busy machine the time may be over before anybody was asked, and is so again.
			require.Eventually(t, func() bool { return strings.Contains(f.Problem(), c.problem) }, patience, time.Millisecond)
			require.Contains(t, f.Problem(), "replay unanswered ("+ep.Replay+"): ")
			require.NotContains(t, f.Problem(), "context")
		})
	}
}
