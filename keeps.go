package kvsteer

import (
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// A prompt can name things that a service keeps for an account: files, conversations,
// containers. Where they stand differs by API and grows with each of them, so they are
// looked for everywhere but in what is text to the service.

// keptDepth is how deep things are looked for. What lies deeper is of no API that is known,
// and counts as named: to look through all that a body can nest would take seconds.
const keptDepth = 12

// namesKept reports whether a body names any, but for a previous response.
func namesKept(o jsonscan.Object) bool {
	for i := range o.Len() {
		if key, v := o.Field(i); keptBy(string(key), v, 1) {
			return true
		}
	}
	return false
}

// inputItem is what stands for the key of an element of a list, behind that of the list.
const inputItem = "input[]"

func keptBy(key string, v jsonscan.Value, depth int) bool {
	switch key {
	case "file_id", "conversation", "conversation_id", "container_id", "container", "skill_id", "item_id", "cached_content":
		if v.Kind() == jsonscan.KindString && !v.Is("") {
			return true
		}
	case "file_ids", "vector_store_ids", "data_sources":
		if v.Kind() == jsonscan.KindArray && v.Len() > 0 {
			return true
		}
	case "parameters", "input_schema", "schema", "arguments", "metadata":
		return false // the client's own
	default:
	}
	switch v.Kind() {
	case jsonscan.KindArray:
		if depth > keptDepth {
			return true
		}
		for it := v.Iter(); it.Next(); {
			if keptBy(key+"[]", it.Value(), depth+1) {
				return true
			}
		}
	case jsonscan.KindObject:
		return depth > keptDepth || keptIn(key, v, depth+1)
	default:
	}
	return false
}

// keptIn looks into the object v, which is what key has.
func keptIn(key string, v jsonscan.Value, depth int) bool {
	var kind, id jsonscan.Value
	var said, whole bool // something is named in its input; it has content of its own
	for it := v.Iter(); it.Next(); {
		switch name := string(it.Key()); name {
		case "type":
			kind = it.Value()
		case "id":
			id = it.Value()
		case "input":
			said = said || keptBy(name, it.Value(), depth)
		default:
			whole = whole || name == "content" || name == "result"
			if keptBy(name, it.Value(), depth) {
				return true
			}
		}
	}
	named := id.Kind() == jsonscan.KindString && !id.Is("")
	switch key { // that is kept by its id
	case "conversation", "container", "prompt", "audio":
		if named {
			return true
		}
	case inputItem: // of the responses API, whose type may be left out
		if named && !whole && (!kind.Exists() || kind.Is("image_generation_call")) {
			return true
		}
	default:
	}
	// What the model has said to a tool is no name of ours.
	called := kind.Is("tool_use") || kind.Is("server_tool_use") || kind.Is("mcp_tool_use")
	return kind.Is("item_reference") || said && !called
}
