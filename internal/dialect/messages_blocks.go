package dialect

import (
	"encoding/base64"
	"encoding/json"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// system reads the instructions: a string or text blocks.
func (d *messagesReader) system(v jsonscan.Value) []Part {
	if s, ok := v.Str(); ok {
		return []Part{{Kind: Text, Text: s}}
	}
	if !d.array("system", v) {
		return nil
	}
	p := messagesPath{in: "system", block: -1, inner: -1}
	return d.texts(p, v)
}

// texts reads an array of text blocks.
func (d *messagesReader) texts(p messagesPath, v jsonscan.Value) []Part {
	var parts []Part
	for it := v.Iter(); it.Next() && d.err == nil; {
		p.block++
		if !it.Value().Get("type").Is(blockText) {
			d.bad(p.dot("type"), "must be text")
			break
		}
		parts = d.block(parts, p, Assistant, it.Value())
	}
	return parts
}

// turns reads the conversation.
func (d *messagesReader) turns(v jsonscan.Value) []Message {
	if !d.array("messages", v) {
		return nil
	}
	list := make([]Message, 0, v.Len())
	p := messagesPath{turn: -1, block: -1, inner: -1}
	for it := v.Iter(); it.Next() && d.err == nil; {
		p.turn++
		list = append(list, d.turn(p, it.Value()))
	}
	return list
}

func (d *messagesReader) turn(p messagesPath, v jsonscan.Value) Message {
	var m Message
	switch role := v.Get("role"); {
	case role.Is("user"):
		m.Role = User
	case role.Is("assistant"):
		m.Role = Assistant
	case role.Is("system"):
		m.Role = System
	default:
		d.bad(p.dot("role"), "must be user, assistant or system")
		return m
	}
	content := v.Get("content")
	if s, ok := content.Str(); ok {
		m.Parts = []Part{{Kind: Text, Text: s}}
		return m
	}
	if !d.array(p.dot("content"), content) {
		return m
	}
	if m.Role == System {
		m.Parts = d.texts(p, content)
		return m
	}
	for it := content.Iter(); it.Next() && d.err == nil; {
		p.block++
		m.Parts = d.block(m.Parts, p, m.Role, it.Value())
	}
	return m
}

// block appends what a content block is.
func (d *messagesReader) block(parts []Part, p messagesPath, role Role, v jsonscan.Value) []Part {
	kind, _ := v.Get("type").Str()
	switch kind {
	case blockText:
		if !v.Get("citations").Empty() {
			d.warn(p.dot("citations"), "other services take no citations of earlier answers")
		}
		return append(parts, Part{Kind: Text, Text: d.str(p.dot("text"), v.Get("text")), Cache: cacheMark(v)})
	case blockImage:
		return append(parts, Part{Kind: Image, Media: d.media(p, v.Get("source")), Cache: cacheMark(v)})
	case blockDocument:
		return d.document(parts, p, v)
	case blockSearch:
		return append(parts, d.searchResult(p, v))
	case blockCall, blockThinking, blockRedacted:
		if role != Assistant {
			d.bad(p.dot("type"), "belongs in a turn of the assistant")
			return parts
		}
		return append(parts, d.spoken(p, kind, v))
	case blockResult:
		if role != User || p.inner >= 0 {
			d.bad(p.dot("type"), "belongs in a turn of the user")
			return parts
		}
		return append(parts, d.result(p, v))
	case blockToolRef:
		// All tools are declared to other services from the start.
		d.warn(p.dot(""), "became a text")
		return append(parts, Part{Kind: Text, Text: "Tool available: " + d.str(p.dot("tool_name"), v.Get("tool_name"))})
	case "":
		d.bad(p.dot("type"), reasonRequired)
	case "server_tool_use", "mcp_tool_use", "mcp_tool_result", "web_search_tool_result", "web_fetch_tool_result",
		"code_execution_tool_result", "bash_code_execution_tool_result", "text_editor_code_execution_tool_result",
		"tool_search_tool_result":
		d.refuse(p.dot(""), reasonRan)
	case "container_upload":
		d.refuse(p.dot(""), reasonFile)
	default:
		d.refuse(p.dot(""), "no other API has content of this type")
	}
	return parts
}

// spoken reads a block that only the model writes.
func (d *messagesReader) spoken(p messagesPath, kind string, v jsonscan.Value) Part {
	switch kind {
	case blockThinking:
		signature, _ := v.Get("signature").Str()
		return Part{Kind: Reasoning, Text: d.str(p.dot("thinking"), v.Get("thinking")), Signature: signature}
	case blockRedacted:
		return Part{Kind: Reasoning, Redacted: d.str(p.dot("data"), v.Get("data"))}
	default:
	}
	if c := v.Get("caller"); c.Exists() && !c.Get("type").Is("direct") {
		d.refuse(p.dot("caller"), reasonRan)
	}
	if v.Get("toolset_name").Exists() {
		d.refuse(p.dot("toolset_name"), "other services have no toolsets")
	}
	call := Part{Kind: ToolCall, Name: d.str(p.dot("name"), v.Get("name")), Text: "{}", Cache: cacheMark(v)}
	call.ID, call.Signature = unsealedID(d.str(p.dot("id"), v.Get("id")))
	if input := v.Get("input"); input.Exists() && d.object(p.dot("input"), input) {
		call.Text = string(input.Raw())
	}
	return call
}

func (d *messagesReader) result(p messagesPath, v jsonscan.Value) Part {
	part := Part{Kind: ToolResult, Cache: cacheMark(v)}
	part.ID, _ = unsealedID(d.str(p.dot("tool_use_id"), v.Get("tool_use_id")))
	part.Failed, _ = v.Get("is_error").Bool()
	content := v.Get("content")
	if !content.Exists() {
		return part
	}
	if s, ok := content.Str(); ok {
		part.Parts = []Part{{Kind: Text, Text: s}}
		return part
	}
	if !d.array(p.dot("content"), content) {
		return part
	}
	for it := content.Iter(); it.Next() && d.err == nil; {
		p.inner++
		part.Parts = d.block(part.Parts, p, User, it.Value())
	}
	return part
}

// media reads the source of an image or a document.
func (d *messagesReader) media(p messagesPath, source jsonscan.Value) Media {
	switch kind, _ := source.Get("type").Str(); kind {
	case "base64":
		return Media{
			Type: d.str(p.dot("source.media_type"), source.Get("media_type")),
			Data: d.str(p.dot("source.data"), source.Get("data")),
		}
	case "url":
		return Media{URL: d.str(p.dot("source.url"), source.Get("url"))}
	case "file":
		d.refuse(p.dot("source"), reasonFile)
	default:
		d.bad(p.dot("source.type"), reasonKind)
	}
	return Media{}
}

// document reads a document. One of plain text, or of blocks, is what it says: few services
// take other documents than PDFs.
func (d *messagesReader) document(parts []Part, p messagesPath, v jsonscan.Value) []Part {
	d.noCitations(p, v)
	title, _ := v.Get("title").Str()
	context, _ := v.Get("context").Str()
	source := v.Get("source")
	text := func(s string) Part {
		return Part{Kind: Text, Text: headed(title, context, s), Cache: cacheMark(v)}
	}
	switch {
	case source.Get("type").Is("text"):
		return append(parts, text(d.str(p.dot("source.data"), source.Get("data"))))
	case source.Get("type").Is("content"):
		content := source.Get("content")
		if s, ok := content.Str(); ok {
			return append(parts, text(s))
		}
		if !d.array(p.dot("source.content"), content) {
			return parts
		}
		if title != "" || context != "" {
			parts = append(parts, Part{Kind: Text, Text: headed(title, context, "")})
		}
		for it := content.Iter(); it.Next() && d.err == nil; {
			parts = d.block(parts, p, User, it.Value())
		}
		if n := len(parts); n > 0 && parts[n-1].Cache == nil {
			parts[n-1].Cache = cacheMark(v)
		}
		return parts
	default:
	}
	if context != "" {
		parts = append(parts, Part{Kind: Text, Text: context})
	}
	part := Part{Kind: Document, Name: title, Media: d.media(p, source), Cache: cacheMark(v)}
	if part.Media.URL != "" {
		part.Media.Type = mediaPDF // the only documents that the API takes by URL
	}
	return append(parts, part)
}

const mediaPDF = "application/pdf"

// searchResult turns a search result into what it says.
func (d *messagesReader) searchResult(p messagesPath, v jsonscan.Value) Part {
	d.noCitations(p, v)
	title, _ := v.Get("title").Str()
	source, _ := v.Get("source").Str()
	var text []byte
	for it := v.Get("content").Iter(); it.Next(); {
		if len(text) > 0 {
			text = append(text, '\n')
		}
		text, _ = it.Value().Get("text").AppendText(text)
	}
	return Part{Kind: Text, Text: headed(title, source, string(text)), Cache: cacheMark(v)}
}

func (d *messagesReader) noCitations(p messagesPath, v jsonscan.Value) {
	if on, _ := v.Get("citations").Get("enabled").Bool(); on {
		d.refuse(p.dot("citations"), "the answer would have no citations")
	}
}

// headed is a text under its title and a line about it.
func headed(title, about, text string) string {
	s := title
	for _, next := range []string{about, text} {
		if s != "" && next != "" {
			s += "\n"
		}
		s += next
	}
	return s
}

// cacheMark is a block's cache_control, nil for none.
func cacheMark(v jsonscan.Value) json.RawMessage {
	if c := v.Get("cache_control"); c.Exists() {
		return json.RawMessage(c.Raw())
	}
	return nil
}

// plain is the text of a text/plain document in base64.
func plain(data string) (string, bool) {
	text, err := base64.StdEncoding.DecodeString(data)
	return string(text), err == nil
}
