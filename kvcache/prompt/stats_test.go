package prompt_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

func TestStatsCountSources(t *testing.T) {
	e := prompt.NewEncoder(prompt.Options{NoRender: true, NoTokenize: true})
	defer e.Close()
	for range 3 {
		_, err := e.Encode(t.Context(), &prompt.Request{API: prompt.Chat, TokenIDs: []uint32{1, 2}})
		require.NoError(t, err)
	}
	_, err := e.Encode(t.Context(), &prompt.Request{API: prompt.Completions, Body: []byte(`{"prompt":"words"}`)})
	require.NoError(t, err)
	_, err = e.Encode(t.Context(), &prompt.Request{API: prompt.Completions, Body: []byte(`{`)})
	require.Error(t, err, "who could not be read is counted nowhere")

	s := e.Stats().Sources
	for k := range prompt.NumSources {
		want := map[prompt.SourceKind]uint64{prompt.SourceCaller: 3, prompt.SourceBytes: 1}[prompt.SourceKind(k)]
		require.Equal(t, want, s[k].Served, prompt.SourceKind(k))
		require.Equal(t, want > 0, s[k].Took > 0, prompt.SourceKind(k))
	}
}
