//go:build e2e

package vllm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/zmtp"
)

// replica is an index that follows one worker.
type replica struct {
	index *kvcache.Index
	owner kvcache.Owner
	f     *follow.Follower
}

func (w *worker) follow(t *testing.T, snapshot []byte) *replica {
	t.Helper()
	r := &replica{index: kvcache.NewIndex(kvcache.Options{})}
	r.owner = r.index.Join(w.name)
	if snapshot != nil {
		_, err := r.index.Import(bytes.NewReader(snapshot), nil)
		require.NoError(t, err)
	}
	var err error
	r.f, err = follow.Start(context.Background(), follow.Config{
		Transport: new(zmtp.Transport), Index: r.index,
		Endpoint: follow.Endpoint{
			Events: fmt.Sprintf("tcp://127.0.0.1:%d", w.events), Replay: fmt.Sprintf("tcp://127.0.0.1:%d", w.replay),
		},
		Owner: func(int) (kvcache.Owner, bool) { return r.owner, true },
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.f.Close()) })
	return r
}

// waitHolds waits until the index is exact and holds n blocks of a prompt.
func (r *replica) waitHolds(t *testing.T, prompt []uint32, n int) {
	t.Helper()
	keys := kvcache.Hasher{BlockSize: 32}.Keys(nil, prompt, kvcache.Scope{}, nil)
	require.Eventually(t, func() bool {
		hits := make([]kvcache.Hit, 1)
		r.index.Match(keys, []kvcache.Owner{r.owner}, hits)
		return r.index.Trust(r.owner) == kvcache.Exact && int(hits[0].Blocks) == n
	}, 5*time.Minute, 10*time.Millisecond, "%+v", r.f.Stats())
}

func (w *worker) complete(t *testing.T, prompt []uint32) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"model": modelName, "prompt": prompt, "max_tokens": 1})
	require.NoError(t, err)
	resp, err := http.Post(w.url()+"/v1/completions", "application/json", bytes.NewReader(body))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

func tokensFrom(first uint32, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = first + uint32(i)
	}
	return out
}

// TestWarmStart follows a real engine, hands the index over to a successor by a
// snapshot while the engine goes on, and kills the engine before another one.
func TestWarmStart(t *testing.T) {
	script(t, time.Hour, "setup.sh")
	ports := freePorts(t, 3)
	w := &worker{name: "vllm-warm", port: ports[0], events: ports[1], replay: ports[2]}
	w.start(t)
	w.waitHealthy(t)

	early, late, after := tokensFrom(1000, 330), tokensFrom(5000, 330), tokensFrom(9000, 330)
	const blocks = 10
	w.complete(t, early)
	first := w.follow(t, nil)
	first.waitHolds(t, early, blocks)
	var snapshot bytes.Buffer
	require.NoError(t, first.index.Export(&snapshot))
	require.NoError(t, first.f.Close())
	w.complete(t, late)

	warm := w.follow(t, snapshot.Bytes())
	warm.waitHolds(t, early, blocks)
	warm.waitHolds(t, late, blocks)
	s := warm.f.Stats()
	assert.Equal(t, uint64(1), s.Resumed, "%+v", s)
	assert.Zero(t, s.Restarts+s.Gaps+s.Lost)
	w.complete(t, after)
	warm.waitHolds(t, after, blocks)
	assert.Equal(t, 3*blocks, warm.index.OwnerStats(warm.owner).Pairs)

	w.process.kill()
	w.start(t)
	w.waitHealthy(t)
	w.complete(t, late)
	other := w.follow(t, snapshot.Bytes())
	other.waitHolds(t, late, blocks)
	other.waitHolds(t, early, 0)
	assert.Zero(t, other.f.Stats().Resumed, "another process")
	warm.waitHolds(t, late, blocks)
	warm.waitHolds(t, early, 0)
}
