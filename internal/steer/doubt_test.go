package steer_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kvsteer/kvsteer/internal/steer"
	"github.com/kvsteer/kvsteer/kvcache"
)

// Causes are named from the numbers, and no more is claimed than they show.
func TestCauses(t *testing.T) {
	t.Parallel()
	type report = steer.Comparison
	for name, c := range map[string]struct {
		report  func(i int) report
		engine  steer.Engine
		cause   steer.Cause
		numbers string
	}{
		"template": {
			report: func(i int) report { return report{Reported: 0, Expected: 160, Prompt: 200 + i, Counted: 207 + i} },
			cause:  steer.CauseTemplate, numbers: "the engine counts +7 prompt tokens against ours in 12 of 12 disagreements, in prompts of 200 to 211",
		},
		"tokenizer": {
			report: func(i int) report { return report{Reported: 64, Expected: 160, Prompt: 200 + i, Counted: 190 + 2*i} },
			cause:  steer.CauseTokenizer, numbers: "the engine counts -10 to +1 prompt tokens against ours in 11 of 12",
		},
		"one prompt again and again": {
			report: func(int) report { return report{Reported: 0, Expected: 160, Prompt: 200, Counted: 207} },
			cause:  steer.CauseTokens, numbers: "+7 prompt tokens",
		},
		"counts that agree rule both out": {
			report: func(int) report { return report{Reported: 0, Expected: 160, Prompt: 200, Counted: 200} },
			cause:  steer.CauseNoReuse,
			numbers: "0 tokens reported in all of 12 requests that were expected to find some, the last 0 for 160 expected, of 200; " +
				"the prompts' token counts agree",
		},
		"counts that are not reported rule out nothing": {
			report: func(int) report { return report{Reported: 0, Expected: 160, Prompt: 200} },
			cause:  steer.CauseNoReuse, numbers: "the last 0 for 160 expected, of 200",
		},
		"nothing found, though it announces": {
			report: func(int) report { return report{Reported: 0, Expected: 160, Prompt: 200} },
			engine: steer.Engine{Announces: true}, cause: steer.CauseNoneFound, numbers: "0 tokens reported in all",
		},
		"larger blocks": {
			report: func(i int) report {
				expected := 16 * (8*(1+i%5) + 1 + i%7) // one to seven of ours too many
				return report{Reported: expected - expected%128, Expected: expected, Prompt: 900}
			},
			cause: steer.CauseBlockSize, numbers: "what is reported is in multiples of 128 tokens, what is expected of 16",
		},
		"odd blocks": {
			report: func(i int) report { return report{Reported: 24 * (1 + 2*(i%4)), Expected: 400, Prompt: 900} },
			cause:  steer.CauseBlockSize, numbers: "multiples of 24 tokens",
		},
		"one report again and again is no block size": {
			report: func(int) report { return report{Reported: 128, Expected: 160, Prompt: 200} },
			cause:  steer.CauseEvictions, numbers: "less reported than expected in 12 of 12",
		},
		"but it is the one that the engine states": {
			report: func(int) report { return report{Reported: 128, Expected: 160, Prompt: 200} },
			engine: steer.Engine{BlockSize: 128}, cause: steer.CauseBlockSize, numbers: "128 tokens, which is the block size that the engine states",
		},
		"a block less": {
			report: func(i int) report { return report{Reported: 144 + 16*i, Expected: 160 + 16*i, Prompt: 900} },
			cause:  steer.CauseSpeculative, numbers: "one block less than expected in 12 of 12",
		},
		"a block more": {
			report: func(i int) report { return report{Reported: 176 + 16*i, Expected: 160 + 16*i, Prompt: 900} },
			cause:  steer.CauseSpeculative, numbers: "one block more",
		},
		"less": {
			report: func(i int) report { return report{Reported: 16 * (i % 7), Expected: 160, Prompt: 200} },
			cause:  steer.CauseEvictions, numbers: "less reported than expected in 12 of 12 disagreements",
		},
		"unknown": {
			report: func(i int) report { return report{Reported: 160 + 16*(i%3), Prompt: 400} },
			cause:  steer.CauseUnknownBlocks, numbers: "tokens reported where none were expected in 12 of 12",
		},
		"more": {
			report: func(i int) report { return report{Reported: 160 + 16*(i%3), Expected: 48, Prompt: 400} },
			cause:  steer.CauseMore, numbers: "more reported than expected in 12 of 12",
		},
		"this and that": {
			report: func(i int) report { return report{Reported: 16 * (i % 2 * 20), Expected: 160, Prompt: 400} },
			cause:  steer.CauseUnclear, numbers: "less reported than expected in 6 of 12 disagreements, more in 6",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a steer.Audit
			turn := steer.Goes
			for i := 0; turn == steer.Goes; i++ {
				require.Less(t, i, 12)
				r := c.report(i)
				r.Block, r.Sure = 16, r.Expected
				require.False(t, r.Agrees())
				turn = a.Record(&r, kvcache.Exact)
			}
			cause, numbers := a.Doubts.Cause(c.engine)
			require.Equal(t, c.cause, cause, numbers)
			require.Contains(t, numbers, c.numbers)
			if cause != steer.CauseUnclear {
				require.Contains(t, cause.String(), "looks like")
			}
		})
	}
	cause, numbers := new(steer.Doubts).Cause(steer.Engine{})
	require.Equal(t, steer.CauseUnclear, cause)
	require.Empty(t, numbers)
}
