package usage

// Usage counts the tokens of one request. All counts are at least 0.
type Usage struct {
	// Uncached are the prompt tokens that were computed. When CachedKnown is
	// false it holds all prompt tokens, because nobody said which were cached.
	Uncached int
	// CacheRead are the prompt tokens served from a cache.
	CacheRead int
	// CacheWrite are the prompt tokens that were computed and then stored in a
	// cache, where that is reported apart: providers charge for it. What had to be
	// computed is Uncached + CacheWrite.
	CacheWrite int
	// Output are the generated tokens, reasoning included.
	Output int
	// Reasoning is the part of Output that was reasoning; 0 if not reported.
	Reasoning int
	// CachedKnown is set when the response said how many tokens were cached, be
	// it 0. Engines omit it unless they are told otherwise, and SGLang when
	// nothing was cached.
	CachedKnown bool
}

// Prompt is the number of prompt tokens, cached or not.
func (u Usage) Prompt() int { return u.Uncached + u.CacheRead + u.CacheWrite }

// Chunk is what one event (or a whole body) holds, as a set of flags.
type Chunk uint8

// The flags.
const (
	// Content: something that the model generated: text, reasoning, a refusal, a
	// tool call. A chunk that only names the role has none.
	Content Chunk = 1 << iota
	// HasUsage: a report of token counts.
	HasUsage
	// UsageOnly: an OpenAI chunk that exists for its usage and has no choices. It
	// is sent because stream_options.include_usage was set; a client that did not
	// set it must not see it.
	UsageOnly
	// Failed: an error in place of (more) content.
	Failed
)

// Has reports whether all of the flags are set.
func (c Chunk) Has(flags Chunk) bool { return c&flags == flags }
