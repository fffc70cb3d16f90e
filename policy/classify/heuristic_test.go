package classify

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/kvcache/prompt"
	"github.com/kvsteer/kvsteer/policy"
)

func TestLengthHeuristic(t *testing.T) {
	t.Parallel()
	const p, a, u = policy.TagPresent, policy.TagAbsent, policy.TagUnknown
	words := func(tokens int) string { return strings.Repeat("word", tokens) }
	turns := func(n int) *Input {
		var in Input
		for range n {
			in.AddText("user", "hi")
			in.AddText("assistant", "hello")
		}
		return &in
	}
	gap := func(in *Input, g Gap) *Input { in.Gaps = g; return in }
	long := func(system, question int) *Input {
		var in Input
		in.AddText("system", words(system))
		in.AddText("user", words(question))
		return &in
	}
	tests := []struct {
		name      string
		in        *Input
		low, high policy.TagState
	}{
		{"nothing", new(Input), p, a},
		{"short", said("what is 2+2?"), p, a},
		{"at the bounds of low", long(DefaultLowTokens-DefaultLowQuestion, DefaultLowQuestion), p, a},
		{"longer in all", long(DefaultLowTokens, 1), a, a},
		{"longer question", long(1, DefaultLowQuestion+1), a, a},
		{"at the bounds of high", long(DefaultHighTokens-1, 1), a, p},
		{"a long question", long(1, DefaultHighQuestion), a, p},
		{"two turns", turns(2), p, a},
		{"two questions", conversation(words(40), words(40)), p, a},
		{"three turns", turns(3), a, a},
		{"ten turns", turns(10), a, p},
		{"code", said("```go\nx\n```"), a, a},
		{"tools", &Input{Tools: 1}, a, a},
		{"short with an image", gap(said("what is this?"), GapImage), u, u},
		{"long with an image", gap(long(DefaultHighTokens, 1), GapImage), a, p},
		{"token ids", &Input{Gaps: GapTokens}, u, u},
	}
	h := new(LengthHeuristic)
	for _, tt := range tests {
		var out Result
		require.NoError(t, h.Classify(t.Context(), tt.in, &out))
		require.Equal(t, tt.low, out.State(TagLowComplexity), tt.name)
		require.Equal(t, tt.high, out.State(TagHighComplexity), tt.name)
	}
	// What was cut off is counted.
	var in Input
	require.NoError(t, Extract(&in, prompt.Completions, []byte(`{"prompt":"`+words(DefaultHighTokens)+`"}`), 100))
	var out Result
	require.NoError(t, h.Classify(t.Context(), &in, &out))
	require.Equal(t, a, out.State(TagLowComplexity))
	require.Equal(t, p, out.State(TagHighComplexity))

	own := &LengthHeuristic{LowTag: "easy", HighTag: "hard", LowUserTurns: 3}
	require.Equal(t, []string{"easy", "hard"}, own.Tags())
	out.Reset()
	require.NoError(t, own.Classify(t.Context(), turns(3), &out))
	require.Equal(t, p, out.State("easy"))
}
