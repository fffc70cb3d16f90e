package kvsteer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer"
	"github.com/kvsteer/kvsteer/fleet/fleettest"
	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// beginnings knows prompts up to their first image: from the engine, which tells the
// encoder nothing.
type beginnings struct{ url func() string }

func (beginnings) Kind() prompt.SourceKind { return prompt.SourceLocal }

func (beginnings) Encode(context.Context, *prompt.Request) (prompt.Encoding, error) {
	return prompt.Encoding{}, prompt.ReasonError("multimodal parts")
}

func (b beginnings) Prefix(ctx context.Context, r *prompt.Request) (prompt.Encoding, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url()+"/v1/chat/completions/render", bytes.NewReader(r.Body))
	if err != nil {
		return prompt.Encoding{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return prompt.Encoding{}, err
	}
	defer resp.Body.Close()
	var v struct {
		IDs      []uint32 `json:"token_ids"`
		Features struct {
			Places struct {
				Image []struct {
					Offset int `json:"offset"`
				} `json:"image"`
			} `json:"mm_placeholders"`
		} `json:"features"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || len(v.Features.Places.Image) == 0 {
		return prompt.Encoding{}, fmt.Errorf("no image in the reply: %w", err)
	}
	begin := v.Features.Places.Image[0].Offset
	return prompt.Encoding{Source: prompt.SourcePrefix, Tokens: v.IDs[:begin], Count: len(v.IDs) + 10}, nil // a guess
}

// Of prompts with images the text in front is found in what engines report, whatever
// the image; nothing behind it is counted on, and the engine that finds more is not
// doubted for it.
func TestPrefixIsRouted(t *testing.T) {
	t.Parallel()
	var r *rig
	source := beginnings{func() string { return r.engines[0].URL() }}
	encoder := prompt.NewEncoder(prompt.Options{Sources: []prompt.Source{source}, NoRender: true, NoTokenize: true, Deadline: wait})
	t.Cleanup(func() { require.NoError(t, encoder.Close()) })
	r = newRig(t, rigConfig{
		// Of the load nothing is predicted: on a busy machine its reports are late.
		engines: 3, options: []kvsteer.Option{kvsteer.WithEncoder(encoder), kvsteer.WithPredictor(roles{})},
		engine: func(_ int, c *fleettest.Config) { c.Render, c.BlockSize = true, 16 },
	})
	const words = 200
	body := func(url string) string {
		b, err := json.Marshal(map[string]any{"model": testModel, "messages": []any{map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "text", "text": fleettest.Text(1, words)},
			map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}},
			map[string]any{"type": "text", "text": "What is it?"},
		}}}})
		require.NoError(t, err)
		return string(b)
	}
	explain := func(url string) *kvsteer.Decision {
		d, err := r.router.Explain(t.Context(), &kvsteer.Request{API: kvsteer.ChatCompletions, Body: []byte(body(url))})
		require.NoError(t, err)
		require.Equal(t, "prefix", d.TokenSource)
		return d
	}
	exact := func(d *kvsteer.Decision) bool {
		return !slices.ContainsFunc(d.Candidates, func(c kvsteer.DecisionCandidate) bool { return c.Trust != kvcache.Exact })
	}
	require.Eventually(t, func() bool { return exact(explain("http://x/1")) }, wait, tick)
	require.Zero(t, explain("http://x/1").Winner().CachedTokens)
	require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", body("http://x/1")).status)
	o := r.observed.nextOutcome(t, 0)

	// 3 tokens of the message's head, 200 of text: 12 blocks of 16 lie in front.
	for _, url := range []string{"http://x/1", "http://x/2"} {
		d := explain(url)
		require.Equal(t, 12*16, d.Winner().CachedTokens, url)
		require.Equal(t, o.Decision.Winner().Name, d.Winner().Name, url)
	}
	for i, url := range []string{"http://x/1", "http://x/1", "http://x/2", "http://x/3", "http://x/1", "http://x/2"} {
		require.Equal(t, http.StatusOK, r.post("/v1/chat/completions", body(url)).status)
		o = r.observed.nextOutcome(t, i+1)
		require.GreaterOrEqual(t, o.Usage.CacheRead, 12*16, "more is found of the same image: %s", o.Decision)
	}
	require.True(t, exact(explain("http://x/1")), "and nobody is suspect for it")
}
