package dialect

import (
	"strconv"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// messagesUsage adds up what the API says of usage. Its input_tokens are those that are
// neither read from the cache nor written to it. In streams later figures replace earlier
// ones, each by itself.
type messagesUsage struct {
	input, read, write, output, thought figure
}

// figure is a number of tokens, once it is said.
type figure struct {
	n    int64
	said bool
}

func (f *figure) take(v jsonscan.Value) {
	if n, ok := v.Int(); ok && n >= 0 {
		*f = figure{n: n, said: true}
	}
}

func (u *messagesUsage) take(v jsonscan.Value) {
	u.input.take(v.Get("input_tokens"))
	u.read.take(v.Get("cache_read_input_tokens"))
	u.write.take(v.Get("cache_creation_input_tokens"))
	u.output.take(v.Get("output_tokens"))
	u.thought.take(v.Get("output_tokens_details").Get("thinking_tokens"))
}

// usage is the normal form.
func (u *messagesUsage) usage() Usage {
	return Usage{
		Known:          u.input.said || u.output.said,
		Input:          u.input.n + u.read.n + u.write.n,
		CacheRead:      u.read.n,
		CacheWrite:     u.write.n,
		CachedKnown:    u.read.said || u.write.said,
		Output:         u.output.n,
		Reasoning:      u.thought.n,
		ReasoningKnown: u.thought.said,
	}
}

// appendMessagesUsage appends usage as the API has it. Clients need the two figures that it
// always has: they are 0 where nothing is known.
func appendMessagesUsage(dst []byte, u *Usage) []byte {
	number := func(name string, n int64) {
		dst = append(dst, name...)
		dst = strconv.AppendInt(dst, max(n, 0), 10)
	}
	number(`{"input_tokens":`, u.Input-u.CacheRead-u.CacheWrite)
	if u.CachedKnown {
		number(`,"cache_creation_input_tokens":`, u.CacheWrite)
		number(`,"cache_read_input_tokens":`, u.CacheRead)
	}
	number(`,"output_tokens":`, u.Output)
	if u.ReasoningKnown {
		number(`,"output_tokens_details":{"thinking_tokens":`, u.Reasoning)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
