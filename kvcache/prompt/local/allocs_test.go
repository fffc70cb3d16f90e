package local_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// A short chat costs few allocations: its messages, their texts, the variables, the
// ids. The budgets have a little room.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	s := one(t, "qwen", nil)
	for name, c := range map[string]struct {
		api    prompt.API
		body   string
		budget float64
	}{
		"chat":        {prompt.Chat, `{"messages":[{"role":"system","content":"You are a router."},{"role":"user","content":"Where to?"}]}`, 90},
		"completions": {prompt.Completions, `{"prompt":"Where does this go?"}`, 6},
	} {
		r := request(t, c.api, []byte(c.body))
		got := testing.AllocsPerRun(100, func() {
			if _, err := s.Encode(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		})
		assert.LessOrEqual(t, got, c.budget, name)
		t.Logf("%s: %.0f", name, got)
	}
}
