package usage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/sse"
)

// Replies of a real engine, through the same steps as in the transport.
func TestCaptures(t *testing.T) {
	t.Parallel()
	chatIDs := []uint32{151644, 8948, 198, 2610, 525, 50537, 13, 151645, 198, 151644, 872, 198, 27429, 825, 11, 4486, 151645, 198, 151644, 77091, 198}
	textIDs := []uint32{370, 15307, 30369, 36124}
	for name, c := range map[string]struct {
		usage Usage
		ids   []uint32
		// kinds holds what each event with data is.
		kinds []Chunk
	}{
		"chat.sse":            {Usage{Uncached: 21, Output: 3, CachedKnown: true}, chatIDs, []Chunk{0, Content, Content, Content, HasUsage | UsageOnly, 0}},
		"chat-continuous.sse": {Usage{Uncached: 21, Output: 3, CachedKnown: true}, nil, []Chunk{HasUsage, Content | HasUsage, Content | HasUsage, Content | HasUsage, HasUsage | UsageOnly, 0}},
		"chat.json":           {Usage{Uncached: 21, Output: 3, CachedKnown: true}, chatIDs, []Chunk{Content | HasUsage}},
		"completions.sse":     {Usage{Uncached: 4, Output: 3, CachedKnown: true}, textIDs, []Chunk{Content, Content, Content, HasUsage | UsageOnly, 0}},
		"completions.json":    {Usage{Uncached: 4, Output: 3, CachedKnown: true}, textIDs, []Chunk{Content | HasUsage}},
		"messages.sse":        {Usage{Uncached: 19, Output: 3, CachedKnown: true}, nil, []Chunk{HasUsage, 0, Content, Content, Content, 0, HasUsage, 0}},
		"messages.json":       {Usage{Uncached: 19, Output: 3, CachedKnown: true}, nil, []Chunk{Content | HasUsage}},
		"responses.sse":       {Usage{Uncached: 10, Output: 3, CachedKnown: true}, nil, []Chunk{0, 0, 0, 0, Content, Content, Content, 0, 0, 0, HasUsage}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, err := os.ReadFile(filepath.Join("testdata", "vllm-0.32.0", name))
			require.NoError(t, err)
			r := Reader{WantIDs: true}
			var kinds []Chunk
			if filepath.Ext(name) == ".sse" {
				var s sse.Scanner
				take := func(e sse.Event) {
					if e.HasData {
						kinds = append(kinds, r.Read(e.Data))
					}
				}
				s.Feed(in, take)
				s.Flush(take)
			} else {
				kinds = append(kinds, r.Read(in))
			}
			u, ok := r.Usage()
			assert.True(t, ok)
			assert.Equal(t, c.usage, u)
			assert.Equal(t, c.ids, r.PromptIDs())
			assert.Equal(t, c.kinds, kinds)
		})
	}
}
