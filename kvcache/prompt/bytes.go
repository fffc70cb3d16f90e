package prompt

import (
	"crypto/sha256"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// Marks set the pieces of a canonical prompt apart. Each begins its piece, none
// ends one, so that a conversation stays a prefix of its continuation even when
// its last message grows.
const (
	markMessage = 0x1e // then the role
	markContent = 0x1f // then the text
	markCall    = 0x1d // then a tool's name or result
	markMedia   = 0x1c // then a digest
	markTools   = 0x1a // then the tools, as they are spelled
)

const (
	// bytesPerToken is what the estimate of a token count divides by: the usual
	// figure for English; for Chinese in UTF-8 it is about right, too.
	bytesPerToken = 4
	// mediaTokens is the estimate for an image: LLaVA-1.5's 24 x 24 patches.
	mediaTokens = 576
	// digestBytes of SHA-256 stand for an image.
	digestBytes = 16
	// firstBytes bounds the memory taken before it is known to be needed: a body
	// may be mostly images.
	firstBytes = 64 << 10
)

// canon writes the canonical bytes of a prompt: what the model reads, in the
// order in which templates put it, however the client spelled it.
type canon struct {
	b     []byte
	media int
	rest  int // bytes of further prompts
}

// bytesOf is the encoding of last resort. It serves every request.
func bytesOf(api API, o jsonscan.Object) Encoding {
	c := canon{b: make([]byte, 0, min(len(o.Bytes()), firstBytes))}
	switch {
	case conversation(api, o):
		c.messages(o.Value("messages"), o)
	case api == Messages:
		if system := o.Value("system"); !system.Empty() {
			c.begin("system")
			c.content(system)
		}
		c.tools(o)
		c.list(o.Value("messages"))
	case api == Responses:
		c.responses(o)
	default:
		c.plain(inputOf(api, o), o)
	}
	count := (len(c.b)+c.rest+bytesPerToken-1)/bytesPerToken + c.media*mediaTokens
	if count == 0 {
		return Encoding{}
	}
	return Encoding{Source: SourceBytes, Bytes: c.b, Count: count}
}

func (c *canon) plain(in input, o jsonscan.Object) {
	switch in.kind {
	case inputText:
		c.b, _ = in.first.AppendText(c.b)
		c.rest = in.rest
	case inputIDs, inputOther:
		c.b = append(c.b, in.first.Raw()...)
	default:
		if v := o.Value("prompt_embeds"); v.Exists() {
			c.digest(v.Raw())
		}
	}
}

func (c *canon) begin(role string) {
	c.b = append(c.b, markMessage)
	c.b = append(c.b, role...)
	c.b = append(c.b, markContent)
}

// messages writes the first system message, the tools, then the rest: templates
// put tools at the top, and tools that come and go must not hide that the
// system prompt is shared.
func (c *canon) messages(list jsonscan.Value, o jsonscan.Object) {
	it := list.Iter()
	more := it.Next()
	if more && isSystem(it.Value().Get("role")) {
		c.message(it.Value())
		more = it.Next()
	}
	c.tools(o)
	for ; more; more = it.Next() {
		c.message(it.Value())
	}
}

func isSystem(role jsonscan.Value) bool { return role.Is("system") || role.Is("developer") }

func (c *canon) list(list jsonscan.Value) {
	for it := list.Iter(); it.Next(); {
		c.message(it.Value())
	}
}

func (c *canon) tools(o jsonscan.Object) {
	for _, key := range [...]string{"tools", "functions"} {
		if v := o.Value(key); !v.Empty() {
			c.b = append(c.b, markTools)
			c.b = append(c.b, v.Raw()...)
		}
	}
}

func (c *canon) message(m jsonscan.Value) {
	role, _ := m.Get("role").Text()
	c.begin(string(role))
	c.content(m.Get("content"))
	for it := m.Get("tool_calls").Iter(); it.Next(); {
		c.function(it.Value().Get("function"))
	}
	c.function(m.Get("function_call"))
}

// function writes a call in OpenAI's form.
func (c *canon) function(f jsonscan.Value) {
	if f.Exists() {
		c.call(f.Get("name"), f.Get("arguments"))
	}
}

func (c *canon) call(name, arguments jsonscan.Value) {
	c.b = append(c.b, markCall)
	c.b, _ = name.AppendText(c.b)
	c.b = append(c.b, markContent)
	if text, ok := arguments.AppendText(c.b); ok {
		c.b = text
		return
	}
	c.b = append(c.b, arguments.Raw()...)
}

// content writes a string, or the parts that a list splits it into. A string and
// the same as one part are one prompt to the model.
func (c *canon) content(v jsonscan.Value) {
	switch v.Kind() {
	case jsonscan.KindString:
		c.b, _ = v.AppendText(c.b)
	case jsonscan.KindArray:
		first := true
		for it := v.Iter(); it.Next(); {
			c.part(it.Value(), first)
			first = false
		}
	case jsonscan.KindObject:
		c.part(v, true)
	default:
	}
}

func (c *canon) part(p jsonscan.Value, first bool) {
	kind, _ := p.Get("type").Text()
	text := p.Get("text")
	switch {
	case p.Kind() == jsonscan.KindString:
		text = p
	case string(kind) == "refusal":
		text = p.Get("refusal")
	case string(kind) == "thinking" || string(kind) == "redacted_thinking" || string(kind) == "reasoning":
		return // templates drop what was thought in earlier turns
	case string(kind) == "tool_use":
		c.call(p.Get("name"), p.Get("input"))
		return
	case string(kind) == "tool_result":
		c.b = append(c.b, markCall)
		c.content(p.Get("content"))
		return
	default:
	}
	if text.Kind() == jsonscan.KindString {
		if !first {
			c.b = append(c.b, '\n') // as engines join them
		}
		c.b, _ = text.AppendText(c.b)
		return
	}
	c.digest(payload(p))
	c.media++
}

func (c *canon) digest(content []byte) {
	sum := sha256.Sum256(content)
	c.b = append(c.b, markMedia)
	c.b = append(c.b, sum[:digestBytes]...)
}

// payload finds what identifies an image or other file: its URL or its data. All
// of the part, if it is of no form that we know.
func payload(p jsonscan.Value) []byte {
	for _, path := range [...][2]string{
		{"image_url", "url"},
		{"video_url", "url"},
		{"audio_url", "url"},
		{"input_audio", "data"},
		{"source", "data"},
		{"source", "url"},
		{"source", "file_id"},
		{"file", "file_data"},
		{"file", "file_id"},
	} {
		outer := p.Get(path[0])
		if outer.Kind() == jsonscan.KindString {
			return meaning(outer)
		}
		if inner := outer.Get(path[1]); inner.Exists() {
			return meaning(inner)
		}
	}
	return p.Raw()
}

// meaning is a string without its escapes, any other value as it is spelled.
func meaning(v jsonscan.Value) []byte {
	if text, ok := v.Text(); ok {
		return text
	}
	return v.Raw()
}

// responses writes the items of the responses API as the conversation they are.
func (c *canon) responses(o jsonscan.Object) {
	if v := o.Value("instructions"); !v.Empty() {
		c.begin("system")
		c.content(v)
	}
	c.tools(o)
	in := o.Value("input")
	if in.Kind() == jsonscan.KindString {
		c.begin("user")
		c.content(in)
		return
	}
	for it := in.Iter(); it.Next(); {
		item := it.Value()
		kind, _ := item.Get("type").Text()
		switch string(kind) {
		case "", "message":
			c.message(item)
		case "function_call":
			c.begin("assistant")
			c.call(item.Get("name"), item.Get("arguments"))
		case "function_call_output":
			c.begin("tool")
			c.content(item.Get("output"))
		case "reasoning":
		default:
			c.begin(string(kind))
			c.digest(item.Raw())
		}
	}
}
