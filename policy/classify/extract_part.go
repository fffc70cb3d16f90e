package classify

import (
	"bytes"
	"strings"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// deepest is how deep parts within parts are told apart. What lies deeper is read
// as one text: a part of parts of parts costs a pass over its text each.
const deepest = 6

// content reads what may be a string, a part, or a list of either.
func (x *extractor) content(v jsonscan.Value, depth int) {
	if depth > deepest {
		x.json(v)
		return
	}
	switch v.Kind() {
	case jsonscan.KindString:
		x.text(v)
	case jsonscan.KindArray:
		for it := v.Iter(); it.Next(); {
			x.content(it.Value(), depth+1)
		}
	case jsonscan.KindObject:
		x.part(v, false, depth+1)
	case jsonscan.KindNumber, jsonscan.KindBool:
		x.json(v)
	default:
	}
}

// partKind is what a part's type says about it.
type partKind struct {
	gap   Gap
	media bool // its data is no text
	known bool
}

// kindOf knows the types of content parts, of their sources and of the items of
// the responses API, as OpenAI, Anthropic and vLLM name them.
func kindOf(name []byte) partKind {
	switch string(name) {
	case "", "text", "input_text", "output_text", "refusal", "thinking", "reasoning", "reasoning_text", "summary_text", "message",
		"tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "mcp_tool_result", "web_search_tool_result", "web_search_result",
		"web_fetch_tool_result", "web_fetch_result", "code_execution_tool_result", "code_execution_result",
		"bash_code_execution_tool_result", "bash_code_execution_result", "text_editor_code_execution_tool_result",
		"search_result", "document", "content", "tool_reference", "function", "function_call", "function_call_output", "custom",
		"custom_tool_call", "custom_tool_call_output", "mcp_call", "mcp_list_tools", "mcp_approval_request", "mcp_approval_response",
		"file_search_call", "web_search_call", "code_interpreter_call", "local_shell_call", "local_shell_call_output", "shell_call",
		"shell_call_output", "apply_patch_call", "apply_patch_call_output", "computer_call", "computer_call_output":
		return partKind{known: true}
	case "image", "image_url", "input_image", "image_file", "image_pil", "image_embeds", "computer_screenshot", "image_generation_call":
		return partKind{gap: GapImage, media: true, known: true}
	case "audio", "audio_url", "input_audio", "output_audio", "audio_embeds":
		return partKind{gap: GapAudio, media: true, known: true}
	case "video", "video_url", "input_video":
		return partKind{gap: GapVideo, media: true, known: true}
	case "file", "input_file", "container_upload", "base64", "url":
		return partKind{gap: GapFile, media: true, known: true}
	case "item_reference":
		return partKind{gap: GapStored, known: true}
	case "redacted_thinking", "compaction":
		return partKind{gap: GapOpaque, media: true, known: true}
	default:
		return partKind{}
	}
}

// part reads an object that is a part of a message, its source, or an item.
func (x *extractor) part(p jsonscan.Value, media bool, depth int) {
	name, _ := p.Get("type").Text()
	kind := kindOf(name)
	switch {
	case !kind.known:
		x.in.Gaps |= GapUnknown
	case media: // a source says where the data is of what its part is
	default:
		x.in.Gaps |= kind.gap
	}
	media = media || kind.media
	if string(name) == "tool_result" { // in the Messages API, the user's messages bring them
		defer func(role string) { x.role = role }(x.role)
		x.role = "tool"
	}
	for it := p.Iter(); it.Next(); {
		key, v := it.Key(), it.Value()
		if string(key) == "type" && kind.known {
			continue
		}
		x.member(string(key), v, media, depth)
	}
}

// member reads a member of a message, part or item.
func (x *extractor) member(key string, v jsonscan.Value, media bool, depth int) {
	if !ordinary(key) { // somebody's data in the place of a name
		x.add([]byte(key), true)
	}
	gap, holds := gapOf(key)
	if holds && !v.Empty() {
		if !media {
			x.in.Gaps |= gap
		}
		media = true
	}
	switch v.Kind() {
	case jsonscan.KindString:
		x.stringMember(key, v, media)
	case jsonscan.KindNumber:
		const shortest = 7 // digits of the shortest number that could be anybody's
		if len(v.Raw()) >= shortest {
			x.json(v)
		}
	case jsonscan.KindArray, jsonscan.KindObject:
		switch {
		case depth > deepest:
			x.json(v)
		case media && v.Kind() == jsonscan.KindObject:
			x.part(v, true, depth+1)
		case holdsParts(key):
			x.content(v, depth+1)
		default:
			x.json(v)
		}
	default:
	}
}

// ordinary reports whether a key is made of letters and underscores, with few digits.
func ordinary(key string) bool {
	count := 0
	for i := range len(key) {
		switch class := classes[key[i]]; {
		case class&isDigit != 0:
			count++
		case class&(isLetter|isUnder) == 0:
			return false
		default:
		}
	}
	return count < shortestPhone
}

// gapOf knows members that hold something other than text.
func gapOf(key string) (gap Gap, holds bool) {
	switch key {
	case "image", "image_url", "images", "image_embeds", "image_file":
		return GapImage, true
	case "audio", "audio_url", "input_audio":
		return GapAudio, true
	case "video", "video_url":
		return GapVideo, true
	case "file", "file_data", "file_url", "file_id":
		return GapFile, true
	default:
		return 0, false
	}
}

// holdsParts knows members whose value is parts rather than data.
func holdsParts(key string) bool {
	switch key {
	case "content", "output", "summary", "source", "parts", "results", "outputs", "action":
		return true
	default:
		return false
	}
}

func (x *extractor) stringMember(key string, v jsonscan.Value, media bool) {
	raw := v.Raw()[1 : len(v.Raw())-1]
	if gap, comma := dataURL(raw); gap != 0 {
		if !media {
			x.in.Gaps |= gap
		}
		raw = raw[comma+1:]
		if media && encoded(raw) {
			return
		}
	}
	switch key {
	case "data", "file_data", "b64_json", "result":
		if media && encoded(raw) {
			return // the bytes of what is a gap already
		}
	case "encrypted_content":
		x.in.Gaps |= GapOpaque
		if encoded(raw) {
			return
		}
	case "signature": // of what was thought: no text
		if encoded(raw) {
			return
		}
	default:
	}
	x.str(v, !says(key))
}

// encoded reports whether the beginning of a string is base64 or hex, or nothing: it
// is what it seems to be, and no text in the place of it.
func encoded(raw []byte) bool {
	const enough = 1 << 10
	for _, c := range raw[:min(len(raw), enough)] {
		if classes[c]&(isWord|isJoint) == 0 && c != '\\' { // a line break is two of these
			return false
		}
	}
	return true
}

// says knows members that are what a message says; others stand beside it.
func says(key string) bool {
	switch key {
	case "text", "content", "refusal", "thinking", "data", "output":
		return true
	default:
		return false
	}
}

// dataURL recognises a URL that holds encoded bytes, and says of what and where they
// begin: after the comma. The gap is 0 for anything else.
func dataURL(raw []byte) (gap Gap, comma int) {
	const longestHead = 256 // of the media type and its parameters
	const scheme = "data:"
	if len(raw) < len(scheme) || !strings.EqualFold(string(raw[:len(scheme)]), scheme) {
		return 0, 0
	}
	head := bytes.ToLower(raw[len(scheme):min(len(raw), longestHead)])
	comma = bytes.IndexByte(head, ',')
	if comma < 0 || !bytes.HasSuffix(head[:comma], []byte("base64")) {
		return 0, 0
	}
	comma += len(scheme)
	switch {
	case bytes.HasPrefix(head, []byte("image")):
		return GapImage, comma
	case bytes.HasPrefix(head, []byte("audio")):
		return GapAudio, comma
	case bytes.HasPrefix(head, []byte("video")):
		return GapVideo, comma
	default:
		return GapFile, comma
	}
}
