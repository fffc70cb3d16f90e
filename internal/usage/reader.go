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
	// WantResponse makes the reader keep the id of a response (/v1/responses).
	WantResponse bool

	ids    []uint32
	id     string
	chunks int

	in, read, write, out, reasoning count
	// total is all that the last report in OpenAI's words counted.
	total count
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
	output, thought := r.out.n, r.reasoning.n
	// Some services (Gemini's, xAI's) leave what was thought out of completion_tokens. It is
	// charged all the same, and part of the total.
	if unsaid := r.total.n - r.in.n; unsaid > output {
		thought = max(thought, unsaid-output)
		output = unsaid
	}
	u := Usage{
		Uncached:    r.in.n,
		CacheRead:   r.read.n,
		CacheWrite:  r.write.n,
		Output:      output,
		Reasoning:   min(thought, output),
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

// ResponseID is what the engine calls the response, "" unless that was wanted.
func (r *Reader) ResponseID() string { return r.id }

// message is the top level of a body or event.
type message struct {
	kind, object                 jsonscan.Value
	choices, usage, meta         jsonscan.Value
	response, message, delta     jsonscan.Value
	block, item, content, output jsonscan.Value
	text, data, failure, ids, id jsonscan.Value
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
	case "id":
		return &m.id
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
	if m.generated(r.chunks) {
		c |= Content
		r.chunks++
	}
	if m.failed() {
		c |= Failed
	}
	if r.WantIDs && r.ids == nil {
		r.ids = m.promptIDs()
	}
	if r.WantResponse && r.id == "" {
		r.id = m.responseID()
	}
	return c
}

// report merges every usage in the message.
func (r *Reader) report(m *message) bool {
	found := r.merge(m.usage, m.kind.Is("message_delta") && idle(m.usage))
	found = r.merge(m.meta, false) || found
	found = r.merge(m.response.Get("usage"), false) || found
	return r.merge(m.message.Get("usage"), false) || found
}

// idle reports whether the usage of a message_delta counts no prompt tokens at
// all. Translators send zeros there that must not undo message_start. Counts
// above zero do replace it: vLLM starts with the whole prompt as input_tokens,
// and at the end takes off what it then reports as cached.
func idle(u jsonscan.Value) bool {
	for _, key := range [...]string{"input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
		if n, ok := u.Get(key).Int(); ok && n > 0 {
			return false
		}
	}
	return true
}

// merge takes the counts of one usage object; what it lacks stays as it was.
func (r *Reader) merge(u jsonscan.Value, outputOnly bool) bool {
	found := false
	var total count
	for it := u.Iter(); it.Next(); {
		v := it.Value()
		switch key := string(it.Key()); key {
		case "completion_tokens", "output_tokens":
			found = r.out.set(v) || found
		case "completion_tokens_details", "output_tokens_details":
			r.reasoning.set(v.Get("reasoning_tokens"))
			r.reasoning.set(v.Get("thinking_tokens")) // Anthropic's word
		case "total_tokens":
			total.set(v)
		case "reasoning_tokens":
			r.reasoning.set(v)
		default:
			if !outputOnly {
				found = r.mergePrompt(key, v) || found
			}
		}
	}
	if found {
		r.total = count{}
		if u.Get("prompt_tokens").Exists() && u.Get("completion_tokens").Exists() {
			r.total = total
		}
	}
	return found
}

func (r *Reader) mergePrompt(key string, v jsonscan.Value) bool {
	switch key {
	case "prompt_tokens":
		r.inside = true
		return r.in.set(v)
	case "input_tokens":
		return r.in.set(v)
	case "prompt_tokens_details", "input_tokens_details":
		if v.Exists() {
			r.inside = true
			r.read.set(v.Get("cached_tokens"))
			r.write.set(v.Get("cache_write_tokens"))
			r.write.set(v.Get("created_cache_tokens"))
		}
	case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens":
		r.read.set(v)
	case "cache_creation_input_tokens":
		r.write.set(v)
	default:
	}
	return false
}

// set takes a number if v is a sane one.
func (c *count) set(v jsonscan.Value) bool {
	n, ok := v.Int()
	if !ok || n < 0 {
		return false
	}
	*c = count{n: int(min(n, math.MaxInt32)), known: true}
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

// responseID finds the id in a whole response, or in an event about one.
func (m *message) responseID() string {
	id := m.response.Get("id")
	if m.object.Is("response") {
		id = m.id
	}
	s, _ := id.Str()
	return s
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
