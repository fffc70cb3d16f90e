package follow_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache"
	"github.com/kvsteer/kvsteer/kvcache/follow"
	"github.com/kvsteer/kvsteer/kvcache/wire"
)

// featureStep is a prompt with what the engine reported of it, or a message that
// it published then; see internal/e2e/vllm/features.py.
type featureStep struct {
	What    string   `json:"what"`
	Prompt  []uint32 `json:"prompt"`
	Model   string   `json:"model"`
	Salt    string   `json:"salt"`
	Picture string   `json:"picture"`
	Rank    int      `json:"rank"`
	Cached  *int     `json:"cached"`

	PortRank int    `json:"port_rank"`
	Payload  string `json:"payload_hex"`
}

type featureFile struct {
	Version   string `json:"version"`
	BlockSize int    `json:"block_size"`
	Scenarios []struct {
		Scenario string        `json:"scenario"`
		Steps    []featureStep `json:"steps"`
	} `json:"scenarios"`
}

func featuresOf(t *testing.T, file, scenario string) (int, []featureStep) {
	t.Helper()
	text, err := os.ReadFile("../wire/testdata/" + file)
	require.NoError(t, err)
	if strings.HasSuffix(file, ".gz") {
		r, err := gzip.NewReader(bytes.NewReader(text))
		require.NoError(t, err)
		text, err = io.ReadAll(r)
		require.NoError(t, err)
	}
	var f featureFile
	require.NoError(t, json.Unmarshal(text, &f))
	for _, s := range f.Scenarios {
		if s.Scenario == scenario {
			return f.BlockSize, s.Steps
		}
	}
	require.FailNow(t, "no scenario "+scenario)
	return 0, nil
}

// replica follows what a real engine published, each rank through a Follower.
type replica struct {
	t      *testing.T
	index  *kvcache.Index
	owners []kvcache.Owner
	pipes  []*follow.Pipe
	size   int
	// items gives the pictures of a prompt the names that the engine's events have.
	items func(step featureStep) []kvcache.Item
}

// predict returns the cached tokens that the engine should report, and the most
// valuable tier that all of the blocks are in.
func (r *replica) predict(step featureStep) (tokens int, hit kvcache.Hit) {
	scope := kvcache.Scope{Salt: step.Salt}
	if step.Model != "tiny" {
		scope.Adapter = step.Model
	}
	var items []kvcache.Item
	if r.items != nil {
		items = r.items(step)
	}
	keys := kvcache.Hasher{BlockSize: r.size}.Keys(nil, step.Prompt, scope, items)
	keys = keys[:min(len(keys), (len(step.Prompt)-1)/r.size)] // which matters where there are windows
	hits := make([]kvcache.Hit, 1)
	r.index.Match(keys, r.owners[step.Rank:step.Rank+1], hits)
	return kvcache.CachedTokens(int(hits[0].Blocks), r.size, len(step.Prompt), false), hits[0]
}

// play has a real engine's messages followed and calls asked at each prompt, when
// the engine had it to serve.
func play(t *testing.T, file, scenario string, ranks int, asked func(r *replica, step featureStep)) {
	t.Helper()
	size, steps := featuresOf(t, file, scenario)
	synctest.Test(t, func(t *testing.T) {
		r := &replica{t: t, index: kvcache.NewIndex(kvcache.Options{}), size: size}
		hub := follow.NewHub()
		for rank := range ranks {
			o := r.index.Join("w")
			pipe, err := hub.Open(string(rune('a'+rank)), follow.PipeOptions{})
			require.NoError(t, err)
			f, err := follow.Start(context.Background(), follow.Config{
				Transport: hub, Endpoint: pipe.Endpoint(rank), Index: r.index,
				Owner: func(n int) (kvcache.Owner, bool) { return o, n == rank },
			})
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, f.Close()) })
			r.owners, r.pipes = append(r.owners, o), append(r.pipes, pipe)
		}
		prompts := 0
		for _, step := range steps {
			switch {
			case step.Prompt != nil:
				prompts++
				asked(r, step)
			case step.Payload != "":
				payload, err := hex.DecodeString(step.Payload)
				require.NoError(t, err)
				r.pipes[step.PortRank].Publish(payload)
				synctest.Wait()
				assert.Equal(t, kvcache.Exact, r.index.Trust(r.owners[step.PortRank]), step.What)
			default:
			}
		}
		require.NotZero(t, prompts)
		s := r.index.Stats()
		assert.Zero(t, s.Orphans)
	})
}

// exactly expects the engine's report to be what the index says. Releases before
// 0.24 leave it out where nothing was cached.
func exactly(r *replica, step featureStep) {
	r.t.Helper()
	tokens, _ := r.predict(step)
	reported := 0
	if step.Cached != nil {
		reported = *step.Cached
	}
	assert.Equal(r.t, reported, tokens, step.What)
}

// What a running vLLM reported as cached of each prompt is what its events, as
// far as they had come, made the index say.
func TestRealEngineFeatures(t *testing.T) {
	t.Parallel()
	const file = "vllm_0.32.0_features.json"
	t.Run("adapters", func(t *testing.T) {
		t.Parallel()
		play(t, file, "lora", 1, exactly)
	})
	t.Run("data-parallel ranks", func(t *testing.T) {
		t.Parallel()
		play(t, file, "dp", 2, exactly)
	})
	t.Run("offloading", func(t *testing.T) {
		t.Parallel()
		for _, scenario := range []string{"offload", "offload_described"} {
			away := 0
			play(t, file, scenario, 1, func(r *replica, step featureStep) {
				exactly(r, step)
				if _, hit := r.predict(step); hit.Tiers[kvcache.TierCPU] > 0 {
					away++
				}
			})
			assert.Positive(t, away, "some prompt was served from memory outside the GPU's")
		}
	})
	t.Run("pictures", func(t *testing.T) {
		t.Parallel()
		pictures(t, file)
	})
	t.Run("sliding windows", func(t *testing.T) {
		t.Parallel()
		play(t, file, "hybrid", 1, exactly)
		// 110 prompts that repeat, branch off and go on at random, in a cache that
		// holds a few of them.
		used := 0
		play(t, "vllm_0.32.0_windows.json.gz", "windows", 1, func(r *replica, step featureStep) {
			if step.What == "prompt 61" { // the clear before it is announced with its own blocks
				assert.Zero(t, *step.Cached)
				return
			}
			exactly(r, step)
			used += min(1, *step.Cached)
		})
		assert.Equal(t, 57, used)
	})
}

// The same of releases that send arrays, with evictions and a clear.
func TestOldEngineFeatures(t *testing.T) {
	t.Parallel()
	for _, old := range []struct {
		file string
		// numbered: adapters have a number only, and are never matched.
		numbered bool
		// heedless: X-Data-Parallel-Rank chose no rank; the first served everything.
		heedless bool
	}{
		{"vllm_0.12.0_features.json", true, true},
		{"vllm_0.16.0_features.json", false, false},
		{"vllm_0.23.0_features.json", false, false},
	} {
		for scenario, ranks := range map[string]int{"plain": 1, "lora": 1, "dp": 2} {
			t.Run(old.file+" "+scenario, func(t *testing.T) {
				t.Parallel()
				found := false
				play(t, old.file, scenario, ranks, func(r *replica, step featureStep) {
					if old.heedless {
						step.Rank = 0
					}
					tokens, _ := r.predict(step)
					found = found || tokens > 0
					if old.numbered && step.Model != "tiny" {
						assert.Zero(t, tokens, step.What)
						return
					}
					exactly(r, step)
				})
				assert.True(t, found)
			})
		}
	}
}

// SGLang's own radix tree: what it finds of each prompt, through splits, evictions
// and a reset, is what the index says.
func TestSGLangTree(t *testing.T) {
	t.Parallel()
	const file = "sglang_0.5.23_tree.json"
	for _, scenario := range []string{"tree", "salts"} {
		play(t, file, scenario, 1, exactly)
	}
	// With EAGLE it compares pairs of tokens: a page counts if the token after it is
	// the same, too. That is no block less, as it is with vLLM, except where prompts
	// part at the very end of a page.
	play(t, file, "eagle", 1, func(r *replica, step featureStep) {
		if step.What != "branches off at the end of a page" {
			exactly(r, step)
			return
		}
		tokens, _ := r.predict(step)
		assert.Equal(t, *step.Cached+r.size, tokens)
	})
}

// pictures gives each picture the identity that the engine's events have for it,
// as soon as they had it, and one of its own until then.
func pictures(t *testing.T, file string) {
	t.Helper()
	const placeholder = 151655
	names := map[string]string{}
	_, steps := featuresOf(t, file, "images")
	asked := ""
	for _, step := range steps {
		if step.Picture != "" {
			asked = step.Picture
		}
		if step.Payload == "" || names[asked] != "" {
			continue
		}
		for _, e := range decodeAll(t, step.Payload) {
			for _, block := range e.Extras {
				for _, x := range block {
					names[asked] = x.ID
				}
			}
		}
	}
	require.Len(t, names, 2, "two pictures")
	require.NotEqual(t, names["red"], names["blue"])
	shared := 0
	play(t, file, "images", 1, func(r *replica, step featureStep) {
		r.items = func(step featureStep) []kvcache.Item {
			from := slices.Index(step.Prompt, placeholder)
			n := 0
			for _, token := range step.Prompt {
				if token == placeholder {
					n++
				}
			}
			return []kvcache.Item{{ID: names[step.Picture], Offset: from, Length: n}}
		}
		exactly(r, step)
		if tokens, _ := r.predict(step); step.Picture == "blue" {
			shared = tokens
		}
	})
	assert.Positive(t, shared, "the text before the picture is shared")
}

func decodeAll(t *testing.T, payload string) []kvcache.Event {
	t.Helper()
	raw, err := hex.DecodeString(payload)
	require.NoError(t, err)
	b, err := new(wire.Decoder).Decode(raw)
	require.NoError(t, err)
	return b.Events
}
