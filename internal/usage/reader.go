package usage

import (
	"bytes"
	"math"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// Reader reads one response: its body, or the data of each event of its stream
// in order. The zero Reader is ready. It is not safe for concurrent use. It
// allocates nothing, but for the ids when they are wanted and present.
type Reader struct {
	// WantIDs makes the reader keep prompt_token_ids.
	WantIDs bool

	ids    []uint32
	chunks int

	in, read, write, out, reasoning count
	// inside: read and write are part of in, as OpenAI counts.
	inside bool
}

// count is a number that may not have been reported.
type count struct {
	n     int
	known bool
}

// Usage returns the counts so far: of cumulative reports the last. It is false
// when there has been none.
func (r *Reader) Usage() (Usage, bool) {
	if !r.in.known && !r.out.known {
		return Usage{}, false
	}
	u := Usage{
		Uncached:    r.in.n,
		CacheRead:   r.read.n,
		CacheWrite:  r.write.n,
		Output:      r.out.n,
		Reasoning:   min(r.reasoning.n, r.out.n),
		CachedKnown: r.read.known,
	}
	if r.inside {
		u.CacheRead = min(u.CacheRead, r.in.n)
		u.CacheWrite = min(u.CacheWrite, r.in.n-u.CacheRead)
		u.Uncached -= u.CacheRead + u.CacheWrite
	}
	return u, true
}

// ContentChunks counts the events with generated content: an estimate of the
// output tokens when a stream ends without usage.
func (r *Reader) ContentChunks() int { return r.chunks }

// PromptIDs are the prompt's token ids as the engine computed them, nil unless
// they were wanted and the response has them (request field return_token_ids).
// Of several prompts in one request it is the first one's.
func (r *Reader) PromptIDs() []uint32 { return r.ids }

// message is the top level of a body or event.
type message struct {
	kind, object                 jsonscan.Value
	choices, usage, meta         jsonscan.Value
	response, message, delta     jsonscan.Value
	block, item, content, output jsonscan.Value
	text, data, failure, ids     jsonscan.Value
}

func (m *message) fill(v jsonscan.Value) {
	for it := v.Iter(); it.Next(); {
		at := m.field(it.Key())
		if at != nil {
			*at = it.Value()
		}
	}
}

func (m *message) field(key []byte) *jsonscan.Value {
	switch string(key) {
	case "type":
		return &m.kind
	case "object":
		return &m.object
	case "choices":
		return &m.choices
	case "usage":
		return &m.usage
	case "meta_info":
		return &m.meta
	case "response":
		return &m.response
	case "message":
		return &m.message
	case "delta":
		return &m.delta
	case "content_block":
		return &m.block
	case "item":
		return &m.item
	case "content":
		return &m.content
	case "output":
		return &m.output
	case "text":
		return &m.text
	case "data":
		return &m.data
	case "error":
		return &m.failure
	case "prompt_token_ids":
		return &m.ids
	default:
		return nil
	}
}

// Read takes the data of one event, or a whole body, and says what it holds.
// What is not a JSON object, such as "[DONE]", holds nothing.
func (r *Reader) Read(data []byte) Chunk {
	if !bytes.Contains(data, []byte("{")) {
		return 0
	}
	v, err := jsonscan.ParseValue(data, 0)
	if err != nil || v.Kind() != jsonscan.KindObject {
		return 0
	}
	var m message
	m.fill(v)
	var c Chunk
	if r.report(&m) {
		c |= HasUsage
		if m.usageOnly() {
			c |= UsageOnly
		}
	}
	if m.generated() {
		c |= Content
		r.chunks++
	}
	if m.failed() {
		c |= Failed
	}
	if r.WantIDs && r.ids == nil {
		r.ids = m.promptIDs()
	}
	return c
}

// report merges every usage in the message.
func (r *Reader) report(m *message) bool {
	// message_delta repeats counts of message_start, sometimes as 0.
	grow := m.kind.Is("message_delta")
	found := r.merge(m.usage, grow)
	found = r.merge(m.meta, grow) || found
	found = r.merge(m.response.Get("usage"), grow) || found
	return r.merge(m.message.Get("usage"), grow) || found
}

// merge takes the counts of one usage object; what it lacks stays as it was.
func (r *Reader) merge(u jsonscan.Value, grow bool) bool {
	found := false
	for it := u.Iter(); it.Next(); {
		v := it.Value()
		switch string(it.Key()) {
		case "prompt_tokens":
			found = r.in.set(v, grow) || found
			r.inside = true
		case "input_tokens":
			found = r.in.set(v, grow) || found
		case "completion_tokens", "output_tokens":
			found = r.out.set(v, grow) || found
		case "prompt_tokens_details", "input_tokens_details":
			r.inside = true
			r.read.set(v.Get("cached_tokens"), grow)
			r.write.set(v.Get("cache_write_tokens"), grow)
		case "completion_tokens_details", "output_tokens_details":
			r.reasoning.set(v.Get("reasoning_tokens"), grow)
		case "reasoning_tokens":
			r.reasoning.set(v, grow)
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
			r.read.set(v, grow)
		case "cache_creation_input_tokens":
			r.write.set(v, grow)
		default:
		}
	}
	return found
}

// set takes a number if v is a sane one. With grow it never falls.
func (c *count) set(v jsonscan.Value, grow bool) bool {
	n, ok := v.Int()
	if !ok || n < 0 {
		return false
	}
	n = min(n, math.MaxInt32)
	if !grow || int(n) > c.n || !c.known {
		c.n = int(n)
	}
	c.known = true
	return true
}

// usageOnly: no choices, and nothing else that would make it another kind of
// message.
func (m *message) usageOnly() bool {
	if !m.choices.Empty() || !m.usage.Exists() {
		return false
	}
	if m.choices.Kind() == jsonscan.KindArray {
		return true
	}
	for _, v := range [...]jsonscan.Value{m.kind, m.data, m.output, m.content, m.text, m.meta, m.response, m.message, m.delta, m.failure} {
		if v.Exists() {
			return false
		}
	}
	return !m.object.Exists() || m.object.Is("chat.completion.chunk") || m.object.Is("text_completion")
}

func (m *message) failed() bool {
	return m.failure.Exists() || m.kind.Is("error") || m.kind.Is("response.failed") || m.object.Is("error")
}

// promptIDs finds the ids beside the choices (chat) or in the first choice
// (completions).
func (m *message) promptIDs() []uint32 {
	v := m.ids
	if !v.Exists() {
		it := m.choices.Iter()
		if !it.Next() {
			return nil
		}
		first := it.Value()
		v = first.Get("prompt_token_ids")
	}
	ids, _ := v.Uint32s()
	return ids
}
