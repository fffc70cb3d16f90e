package kvsteer_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
)

// Events in the shape of every era make the router expect exactly what the engine
// then reports as cached, whichever API the prompt came by. Without /render, which
// SGLang has not, nobody tells the tokens of /v1/messages and /v1/responses: they
// go to where their bytes went before.
func TestEveryEventFormatIsRouted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dialect fleettest.Dialect
		events  fleettest.EventFormat
		digests bool
	}{
		"vLLM, arrays of 6":    {fleettest.VLLM, fleettest.EventsVLLMArray6, false},
		"vLLM, arrays of 7":    {fleettest.VLLM, fleettest.EventsVLLMArray7, false},
		"vLLM, arrays of 8":    {fleettest.VLLM, fleettest.EventsVLLMArray8, false},
		"vLLM, arrays of 12":   {fleettest.VLLM, fleettest.EventsVLLMArray12, false},
		"vLLM, maps":           {fleettest.VLLM, fleettest.EventsVLLM, false},
		"vLLM, maps, digests":  {fleettest.VLLM, fleettest.EventsVLLM, true},
		"SGLang, arrays":       {fleettest.SGLang, fleettest.EventsSGLangArray, false},
		"SGLang, maps":         {fleettest.SGLang, fleettest.EventsSGLang, false},
		"vLLM, 7, digests too": {fleettest.VLLM, fleettest.EventsVLLMArray7, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Of the load nothing is predicted: on a busy machine its reports are late.
			r := newRig(t, rigConfig{engines: 1, options: []kvsteer.Option{kvsteer.WithPredictor(roles{})}, engine: func(_ int, cfg *fleettest.Config) {
				cfg.Dialect, cfg.Events, cfg.BytesHashes, cfg.Ranks = c.dialect, c.events, c.digests, 2
				cfg.Render = c.dialect == fleettest.VLLM
			}})
			r.waitTrust(kvcache.Exact)
			for i, ask := range []struct {
				path, head, tail string
				exact            bool
			}{
				{"/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"`, `"}]}`, true},
				{"/v1/completions", `{"model":"m","prompt":"`, `"}`, true},
				{"/v1/messages", `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":"`, `"}]}`, c.dialect == fleettest.VLLM},
				{"/v1/responses", `{"model":"m","input":"`, `"}`, c.dialect == fleettest.VLLM},
			} {
				body := ask.head + fleettest.Text(uint64(i+1), 1000) + ask.tail
				rank := -1
				for again := range 2 {
					n := r.observed.outcomeCount()
					require.Equal(t, http.StatusOK, r.post(ask.path, body).status)
					o := r.observed.nextOutcome(t, n)
					require.NoError(t, o.Err)
					if again == 0 {
						rank = o.Decision.Winner().Candidate.Rank
						continue
					}
					seen := r.engines[0].Requests()
					require.Equal(t, rank, seen[len(seen)-1].Rank, "%s: the rank that has it", ask.path)
					require.True(t, o.Usage.CachedKnown, ask.path)
					require.Positive(t, o.Usage.CacheRead, ask.path)
					require.Equal(t, ask.exact, o.Decision.TokenSource != "bytes", ask.path)
					if ask.exact {
						require.Equal(t, o.Usage.CacheRead, o.CachedPredicted, ask.path)
					}
				}
			}
		})
	}
}
