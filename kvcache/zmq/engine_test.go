//go:build cgo

package zmq_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/fleet/fleettest" //nolint:depguard // this test puts an engine at the other end
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmq"
)

// A fake engine that publishes through libzmq, followed through libzmq: what the
// index holds in the end is what the engine's cache holds.
func TestEngineOverLibzmq(t *testing.T) {
	t.Parallel()
	e := fleettest.New(t, fleettest.Config{
		Name: "zmq", Speed: 1000,
		OpenPublisher: func(int) (fleettest.Publisher, follow.Endpoint, error) {
			p, err := zmq.NewPublisher(zmq.PublisherConfig{Events: "tcp://127.0.0.1:0", Replay: "tcp://127.0.0.1:0"})
			if err != nil {
				return nil, follow.Endpoint{}, err
			}
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			return publisher{t, p}, p.Endpoint(), nil
		},
	})
	index := kvcache.NewIndex(kvcache.Options{})
	owner := index.Join("zmq")
	f, err := follow.Start(t.Context(), follow.Config{
		Transport: &zmq.Transport{}, Endpoint: e.Endpoints()[0], Index: index,
		Owner: func(int) (kvcache.Owner, bool) { return owner, true },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()

	for seed := range uint64(3) {
		body := `{"model":"` + fleettest.DefaultModel + `","prompt":"` + fleettest.Text(seed, 500) + `"}`
		resp, err := http.Post(e.URL()+"/v1/completions", "application/json", strings.NewReader(body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	require.Eventually(t, func() bool {
		held := len(e.CachedHashes(0))
		return held > 90 && index.Resident(owner) == held && index.Trust(owner) == kvcache.Exact
	}, 30*time.Second, 10*time.Millisecond)
}

// publisher adapts a zmq.Publisher to what an engine wants.
type publisher struct {
	t *testing.T
	p *zmq.Publisher
}

func (p publisher) Publish(payload []byte) uint64 {
	seq, err := p.p.Publish("", payload)
	if err != nil {
		p.t.Errorf("publishing: %v", err)
	}
	return seq
}
