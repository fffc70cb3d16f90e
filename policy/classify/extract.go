package classify

import (
	"bytes"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// DefaultMaxText is the bytes of text that [Extract] reads unless told otherwise:
// a million characters of English, which takes a scanner some milliseconds.
const DefaultMaxText = 1 << 20

// Extract fills in with the texts of a request's JSON body. Of texts beyond
// maxText bytes in all (0 means [DefaultMaxText]) it takes the beginning and says
// so in [Input.Gaps]. Texts without escapes share the body's memory, so the body
// must not change while in is used.
//
// All strings of the body are read, whatever the API: messages and their parts,
// tool calls and results, tool definitions, instructions, and what stands beside
// them, such as documents or metadata, because all of it is sent on. What is no
// text, or none that is there, becomes a gap.
//
// The error is a position in a body that is not a JSON object; in then says
// [GapBody].
func Extract(in *Input, api prompt.API, body []byte, maxText int) error {
	if len(body) == 0 {
		in.Reset()
		in.API, in.Gaps = api, GapBody
		return nil
	}
	o, err := jsonscan.Parse(body, 0)
	if err != nil {
		in.Reset()
		in.API, in.Gaps = api, GapBody
		return err
	}
	ExtractObject(in, api, o, maxText)
	return nil
}

// ExtractObject is [Extract] for a body that was parsed already.
func ExtractObject(in *Input, api prompt.API, o jsonscan.Object, maxText int) {
	if maxText <= 0 {
		maxText = DefaultMaxText
	}
	in.Reset()
	in.API, in.left = api, maxText
	x := extractor{in: in}
	for i := range o.Len() { // not by key: of two fields with one key the engine takes the last, others the first
		key, v := o.Field(i)
		switch string(key) {
		case "model":
			in.Model, _ = v.Str()
		case "messages":
			x.messages(v)
		case "input", "prompt":
			x.input(v)
		case "system", "instructions":
			x.begin("system")
			x.content(v, 0)
		case "tools", "functions":
			x.begin("tools")
			x.tools(v)
		default:
		}
	}
	x.begin("request")
	for i := range o.Len() {
		if key, v := o.Field(i); !readAbove(string(key)) {
			x.beside(string(key), v)
		}
	}
}

func readAbove(key string) bool {
	switch key {
	case "model", "messages", "input", "prompt", "system", "instructions", "tools", "functions":
		return true
	default:
		return false
	}
}

// beside reads what a body holds beside its prompt: all of that is one message.
func (x *extractor) beside(key string, v jsonscan.Value) {
	switch key {
	case "audio": // how an answer should sound
		x.json(v)
		return
	case "previous_response_id", "conversation":
		if !v.Empty() {
			x.in.Gaps |= GapStored
		}
	case "prompt_embeds", "prompt_token_ids", "input_ids":
		if !v.Empty() {
			x.in.Gaps |= GapTokens
		}
		if plainData(v) {
			return
		}
	default:
	}
	if k := v.Kind(); k == jsonscan.KindString || k == jsonscan.KindArray || k == jsonscan.KindObject {
		x.member(key, v, false, 0)
	}
}

// plainData reports whether a value is numbers or encoded bytes, which nobody reads.
func plainData(v jsonscan.Value) bool {
	if v.Kind() == jsonscan.KindString {
		return encoded(v.Raw()[1 : len(v.Raw())-1])
	}
	return numbers(v)
}

// extractor fills an Input.
type extractor struct {
	in      *Input
	message int
	role    string
}

// begin starts a message. One without texts is none.
func (x *extractor) begin(role string) {
	x.message, x.role = x.in.nextMessage(), role
}

// roleOf returns the role of a message without allocating for the usual ones.
func roleOf(v jsonscan.Value) (role string, usual bool) {
	text, ok := v.Text()
	if !ok {
		return "", !v.Exists()
	}
	switch string(text) {
	case "user":
		return "user", true
	case "assistant":
		return "assistant", true
	case "system":
		return "system", true
	case "developer":
		return "developer", true
	case "tool":
		return "tool", true
	case "function":
		return "function", true
	default:
		return string(text), false
	}
}

func (x *extractor) messages(list jsonscan.Value) {
	if list.Kind() != jsonscan.KindArray {
		x.begin("user")
		x.content(list, 0)
		return
	}
	for it := list.Iter(); it.Next(); {
		x.chatMessage(it.Value())
	}
}

// chatMessage reads a message of any API.
func (x *extractor) chatMessage(m jsonscan.Value) {
	said := m.Get("role")
	role, usual := roleOf(said)
	x.begin(role)
	if m.Kind() != jsonscan.KindObject {
		x.content(m, 0)
		return
	}
	for it := m.Iter(); it.Next(); {
		key, v := it.Key(), it.Value()
		switch string(key) {
		case "role":
			if !usual || said.Offset() != v.Offset() {
				x.str(v, true) // some templates print whatever it is
			}
		case "content":
			x.content(v, 0)
		case "type": // "message"
		default:
			x.member(string(key), v, false, 0)
		}
	}
}

// input reads a prompt: texts, token ids, or items of the responses API.
func (x *extractor) input(v jsonscan.Value) {
	switch v.Kind() {
	case jsonscan.KindString:
		x.begin("user")
		x.text(v)
	case jsonscan.KindArray:
		for it := v.Iter(); it.Next(); {
			x.item(it.Value())
		}
	case jsonscan.KindObject: // a prompt that is stored elsewhere, with its variables
		x.in.Gaps |= GapStored
		x.begin("user")
		x.json(v)
	case jsonscan.KindNumber, jsonscan.KindBool:
		x.in.Gaps |= GapTokens
	default:
	}
}

func (x *extractor) item(v jsonscan.Value) {
	switch v.Kind() {
	case jsonscan.KindString:
		x.begin("user")
		x.text(v)
	case jsonscan.KindNumber, jsonscan.KindBool:
		x.in.Gaps |= GapTokens
	case jsonscan.KindArray:
		// Token ids, also where engines make numbers of what is none: true, "72".
		if !v.Empty() {
			x.in.Gaps |= GapTokens
		}
		if numbers(v) {
			return
		}
		x.begin("user")
		x.content(v, 0)
	case jsonscan.KindObject:
		if kind := v.Get("type"); !kind.Exists() || kind.Is("message") {
			x.chatMessage(v)
			return
		}
		x.begin(itemRole(v))
		x.part(v, false, 0)
	default:
	}
}

// numbers reports whether a list has no strings in it.
func numbers(list jsonscan.Value) bool { return bytes.IndexByte(list.Raw(), '"') < 0 }

func itemRole(item jsonscan.Value) string {
	kind, _ := item.Get("type").Text()
	switch {
	case bytes.HasSuffix(kind, []byte("_output")):
		return "tool"
	case bytes.HasPrefix(kind, []byte("input_")):
		return "user"
	default:
		return "assistant"
	}
}

// tools reads tool definitions, each as one text: names, descriptions and schemas.
func (x *extractor) tools(v jsonscan.Value) {
	if v.Kind() != jsonscan.KindArray {
		x.member("tools", v, false, 0)
		return
	}
	for it := v.Iter(); it.Next(); {
		x.in.Tools++
		x.json(it.Value())
	}
}

// text reads a string that is what a message says.
func (x *extractor) text(v jsonscan.Value) { x.str(v, false) }

func (x *extractor) str(v jsonscan.Value, aside bool) {
	if v.Kind() != jsonscan.KindString {
		return
	}
	raw := v.Raw()
	x.decoded(raw[1:len(raw)-1], aside)
}

// json reads any value as it is spelled, keys included, but without its escapes.
func (x *extractor) json(v jsonscan.Value) {
	x.decoded(v.Raw(), true)
}

// decoded adds a text that may have escapes.
func (x *extractor) decoded(raw []byte, aside bool) {
	if bytes.IndexByte(raw, '\\') >= 0 {
		raw = x.unescape(raw)
	}
	x.add(raw, aside)
	x.inner(raw)
}

// mostInner is how many levels of JSON within JSON are read: a tool's arguments
// are a string that holds JSON, whose strings may hold JSON.
const mostInner = 3

// inner adds what a text means that is, or quotes, JSON with escaped characters.
// Only those of the form \u can hide what a scanner looks for.
func (x *extractor) inner(text []byte) {
	escape := []byte(`\u`)
	for range mostInner {
		if !bytes.Contains(text, escape) || x.in.left <= 0 {
			return
		}
		text = x.unescape(text)
		x.add(text, true)
	}
}

// unescape decodes into the Input's own memory, and not more than is wanted.
func (x *extractor) unescape(text []byte) []byte {
	in := x.in
	if most := max(in.left, 1) * jsonscan.LongestEscape; len(text) > most {
		in.Gaps |= GapTruncated
		text = text[:most]
	}
	if cap(in.buf)-len(in.buf) < len(text) { // the texts in the old buffer stay as they are
		in.buf = make([]byte, 0, max(len(text), 2*cap(in.buf)))
	}
	from := len(in.buf)
	in.buf = jsonscan.Unescape(in.buf, text)
	return in.buf[from:len(in.buf):len(in.buf)]
}

// partBytes is what a part counts for beside its text: a request of many tiny ones
// must not take many times its size in memory.
const partBytes = 16

// add appends a text.
func (x *extractor) add(text []byte, aside bool) {
	in := x.in
	in.Bytes += len(text)
	if left := max(in.left, 0); len(text) > left {
		in.Gaps |= GapTruncated
		text = text[:left]
	}
	if len(text) == 0 {
		return
	}
	in.left -= len(text) + partBytes
	in.Parts = append(in.Parts, Part{Message: x.message, Role: x.role, Text: text, aside: aside})
}
