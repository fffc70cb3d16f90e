package kvsteer

import (
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// A prompt can name things that a service keeps for an account: files, conversations,
// containers. Where they stand differs by API and grows with each of them, so they are
// looked for everywhere but in what is text to the service.

// namesKept reports whether a body names any, but for a previous response.
func namesKept(o jsonscan.Object) bool {
	for i := range o.Len() {
		if key, v := o.Field(i); keptBy(string(key), v) {
			return true
		}
	}
	return false
}

func keptBy(key string, v jsonscan.Value) bool {
	switch key {
	case "file_id", "conversation", "conversation_id", "container_id", "container", "skill_id", "item_id":
		if v.Kind() == jsonscan.KindString && !v.Is("") {
			return true
		}
	case "file_ids", "vector_store_ids":
		if v.Kind() == jsonscan.KindArray && v.Len() > 0 {
			return true
		}
	case "parameters", "input_schema", "schema", "arguments", "metadata":
		return false // the client's own
	default:
	}
	switch v.Kind() {
	case jsonscan.KindArray:
		for it := v.Iter(); it.Next(); {
			if keptBy("", it.Value()) {
				return true
			}
		}
	case jsonscan.KindObject:
		return keptIn(key, v)
	default:
	}
	return false
}

// keptIn looks into the object v, which is what key has.
func keptIn(key string, v jsonscan.Value) bool {
	kind := v.Get("type")
	switch key { // that is kept by its id
	case "conversation", "container", "prompt", "audio":
		if id := v.Get("id"); id.Kind() == jsonscan.KindString && !id.Is("") {
			return true
		}
	default:
	}
	if kind.Is("item_reference") {
		return true
	}
	called := kind.Is("tool_use") || kind.Is("server_tool_use") || kind.Is("mcp_tool_use")
	for it := v.Iter(); it.Next(); {
		if name := string(it.Key()); called && name == "input" {
			continue // what the model has said to a tool
		} else if keptBy(name, it.Value()) {
			return true
		}
	}
	return false
}
