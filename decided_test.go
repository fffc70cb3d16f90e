package kvsteer_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
)

// A gateway is told by request where each of its attempts goes, before it goes there.
func TestOnDecisionIsToldOfEachAttempt(t *testing.T) {
	type told struct {
		path, worker string
		attempt      int
	}
	var mu sync.Mutex
	var seen []told
	r := newRig(t, rigConfig{
		engines: 2,
		transport: kvsteer.TransportOptions{OnDecision: func(h *http.Request, d *kvsteer.Decision) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, told{h.URL.Path, d.Winner().Name, d.Attempt})
		}},
	})
	for _, e := range r.engines {
		e.Faults().Fail(1, http.StatusServiceUnavailable, 0)
	}
	require.Equal(t, http.StatusServiceUnavailable, r.post("/v1/completions", `{"model":"m","prompt":"hi"}`).status)
	require.Len(t, seen, 2)
	require.Equal(t, 1, seen[0].attempt)
	require.Equal(t, 2, seen[1].attempt)
	require.NotEqual(t, seen[0].worker, seen[1].worker)
	require.Equal(t, "/v1/completions", seen[0].path)
}
