package providertest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
)

// checkBlock checks a block of a message of Anthropic's.
func checkBlock(b map[string]any, at, role string) *problem {
	kind, _ := b["type"].(string)
	switch kind {
	case "":
		return required(at + ".type")
	case "text":
		text, is := b["text"].(string)
		switch {
		case !is:
			return required(at + ".text.text")
		case text == "":
			return wrong("messages: text content blocks must be non-empty")
		case strings.TrimSpace(text) == "":
			return wrong("messages: text content blocks must contain non-whitespace text")
		}
		return extra(b, at+".text", "type text cache_control citations")
	case "image":
		return first(extra(b, at+".image", "type source cache_control"), checkSource(b, at+".image"))
	case "document":
		return first(extra(b, at+".document", "type source cache_control citations context title"), checkDocument(b, at+".document", role))
	case "tool_use":
		return checkUse(b, at+".tool_use", role)
	case "tool_result":
		return checkResult(b, at, role)
	case "thinking":
		switch {
		case role != "assistant":
			return wrong(at + ": `thinking` blocks are not permitted in user messages")
		case b["signature"] == nil:
			return required(at + ".thinking.signature")
		}
	case "redacted_thinking", "search_result", "server_tool_use", "web_search_tool_result", "container_upload",
		"code_execution_tool_result", "mcp_tool_use", "mcp_tool_result", "web_fetch_tool_result", "tool_reference":
	default:
		return wrong(at + ": Input tag '" + kind + "' found using 'type' does not match any of the expected tags")
	}
	return nil
}

func extra(o map[string]any, at, keys string) *problem {
	if key := unknownKey(o, keys); key != "" {
		return wrong(at + "." + key + ": Extra inputs are not permitted")
	}
	return nil
}

func checkSource(b map[string]any, at string) *problem {
	source, _ := b["source"].(map[string]any)
	data, _ := source["data"].(string)
	url, _ := source["url"].(string)
	mediaType, _ := source["media_type"].(string)
	switch source["type"] {
	case "base64":
		if !slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, mediaType) {
			return wrong(at + ".source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'")
		}
		if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
			return wrong(at + ".source.base64.data: Invalid base64 data")
		}
	case "url":
		if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
			return wrong(at + ".source.url.url: Only HTTPS URLs are supported.")
		}
	case "file":
	default:
		return wrong(at + ".source: Input tag found using 'type' does not match any of the expected tags: 'base64', 'url', 'file'")
	}
	return nil
}

func checkDocument(b map[string]any, at, role string) *problem {
	source, _ := b["source"].(map[string]any)
	data, isText := source["data"].(string)
	url, _ := source["url"].(string)
	switch source["type"] {
	case "base64":
		if source["media_type"] != "application/pdf" {
			return wrong(at + ".source.base64.media_type: Input should be 'application/pdf'")
		}
		if _, err := base64.StdEncoding.DecodeString(data); err != nil || data == "" {
			return wrong(at + ".source.base64.data: Invalid base64 data")
		}
	case "text":
		if source["media_type"] != "text/plain" {
			return wrong(at + ".source.text.media_type: Input should be 'text/plain'")
		}
		if !isText {
			return required(at + ".source.text.data")
		}
	case "content":
		blocks, _ := source["content"].([]any)
		if _, is := source["content"].(string); !is && blocks == nil {
			return required(at + ".source.content.content")
		}
		for i, e := range blocks {
			inner, _ := e.(map[string]any)
			if p := checkBlock(inner, fmt.Sprintf("%s.source.content.content.%d", at, i), role); p != nil {
				return p
			}
		}
	case "url":
		if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
			return wrong(at + ".source.url.url: Only HTTPS URLs are supported.")
		}
	case "file":
		if _, is := source["file_id"].(string); !is {
			return required(at + ".source.file.file_id")
		}
	default:
		return wrong(at + ".source: Input tag found using 'type' does not match any of the expected tags: " +
			"'base64', 'content', 'file', 'text', 'url'")
	}
	return nil
}

func checkUse(b map[string]any, at, role string) *problem {
	id, _ := b["id"].(string)
	_, object := b["input"].(map[string]any)
	switch {
	case role != "assistant":
		return wrong(at + ": `tool_use` blocks can only be in `assistant` messages")
	case b["id"] == nil:
		return required(at + ".id")
	case !callID.MatchString(id):
		return wrong(at + ".id: String should match pattern '^[a-zA-Z0-9_-]+$'")
	case b["name"] == nil:
		return required(at + ".name")
	case b["input"] == nil:
		return required(at + ".input")
	case !object:
		return wrong(at + ".input: Input should be a valid dictionary")
	default:
		return extra(b, at, "type id name input cache_control caller")
	}
}

func checkResult(b map[string]any, at, role string) *problem {
	switch {
	case role != "user":
		return wrong(at + ": `tool_result` blocks can only be in `user` messages")
	case b["tool_use_id"] == nil:
		return required(at + ".tool_result.tool_use_id")
	}
	switch content := b["content"].(type) {
	case nil, string:
	case []any:
		for i, e := range content {
			inner, _ := e.(map[string]any)
			here := fmt.Sprintf("%s.tool_result.content.%d", at, i)
			if p := checkBlock(inner, here, role); p != nil {
				return p
			}
		}
	default:
		return wrong(at + ".tool_result.content: Input should be a valid list")
	}
	return extra(b, at+".tool_result", "type tool_use_id content is_error cache_control")
}
