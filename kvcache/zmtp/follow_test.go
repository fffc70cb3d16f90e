package zmtp_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

const patience = 40 * time.Second

// applied is an index that only remembers which hashes were stored.
type applied struct {
	mu     sync.Mutex
	hashes []kvcache.EngineHash
	trust  kvcache.Trust
}

func (a *applied) Apply(_ kvcache.Owner, e *kvcache.Event) kvcache.Outcome {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hashes = append(a.hashes, e.Hashes...)
	return kvcache.Outcome{}
}

func (a *applied) Clear(kvcache.Owner) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hashes = nil
}

func (a *applied) SetTrust(_ kvcache.Owner, t kvcache.Trust) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trust = t
}

// becomes waits until the index holds exactly those hashes and is trusted.
func (a *applied) becomes(t *testing.T, want ...kvcache.EngineHash) {
	t.Helper()
	var hashes []kvcache.EngineHash
	var trust kvcache.Trust
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		hashes, trust = slices.Clone(a.hashes), a.trust
		return trust == kvcache.Exact && slices.Equal(hashes, want)
	}, patience, time.Millisecond, "%v", fmt.Stringer(lazy(func() string {
		return fmt.Sprintf("holds %v, %v; want %v", hashes, trust, want)
	})))
}

type lazy func() string

func (l lazy) String() string { return l() }

// onePerByte decodes each byte of a payload as a stored block of that hash.
type onePerByte struct{}

func (onePerByte) Decode(payload []byte) (*kvcache.Batch, error) {
	b := &kvcache.Batch{Rank: -1}
	for _, h := range payload {
		b.Events = append(b.Events, kvcache.Event{Kind: kvcache.Stored, Hashes: []kvcache.EngineHash{kvcache.EngineHash(h)}})
	}
	return b, nil
}

// TestFollower: over a real connection, a follower that starts late, misses
// messages, and outlives its engine ends up with exactly what the engine said.
func TestFollower(t *testing.T) {
	for _, withTopic := range []bool{false, true} {
		t.Run(fmt.Sprintf("topic in replies %v", withTopic), func(t *testing.T) {
			cfg := zmtp.PublisherConfig{Replay: "tcp://127.0.0.1:0", ReplayTopic: withTopic}
			engine, err := zmtp.NewPublisher(cfg)
			require.NoError(t, err)
			defer func() { require.NoError(t, engine.Close()) }()
			publish := func(hash byte) {
				_, err := engine.Publish("kv@pod@model", []byte{hash})
				require.NoError(t, err)
			}
			publish(1)
			publish(2)

			const soon = 50 * time.Millisecond
			var index applied
			f, err := follow.Start(t.Context(), follow.Config{
				Transport:  &zmtp.Transport{RetryMax: soon},
				Endpoint:   engine.Endpoint(),
				Index:      &index,
				Owner:      func(int) (kvcache.Owner, bool) { return kvcache.Owner{}, true },
				Decoder:    onePerByte{},
				CheckEvery: soon,
				RetryMax:   soon,
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			index.becomes(t, 1, 2)

			require.NoError(t, engine.Record(follow.Message{Topic: "kv@pod@model", Seq: 2, Payload: []byte{3}}))
			publish(4)
			index.becomes(t, 1, 2, 3, 4)

			cfg.Events, cfg.Replay = engine.Endpoint().Events, engine.Endpoint().Replay
			require.NoError(t, engine.Close())
			engine, err = zmtp.NewPublisher(cfg)
			require.NoError(t, err)
			publish(5)
			index.becomes(t, 5)
			publish(6)
			index.becomes(t, 5, 6)
		})
	}
}
