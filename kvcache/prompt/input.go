package prompt

import (
	"github.com/kvsteer/kvsteer/internal/jsonscan"
)

// Salt reads a request's cache salt: "" when it is absent, empty or no string.
// Engines hash it into the first block, so that it belongs in the prompt's
// kvcache.Scope.
func Salt(o jsonscan.Object) string {
	s, _ := o.Value("cache_salt").Str()
	return s
}

// inputKind is the form of the prompt of a completions or embeddings request.
type inputKind uint8

const (
	inputNone  inputKind = iota
	inputText            // a string, or a list of strings
	inputIDs             // a list of ids, or a list of such lists
	inputOther           // what no engine documents
)

// input is such a prompt.
type input struct {
	kind inputKind
	// first is the string or the list of ids of the first prompt.
	first jsonscan.Value
	// rest are the further prompts: bytes of text, or ids.
	rest int
}

// inputOf finds the prompt of a request that is not a conversation.
func inputOf(api API, o jsonscan.Object) input {
	var v jsonscan.Value
	switch api {
	case Completions:
		v = o.Value("prompt")
	case Embeddings:
		v = o.Value("input")
	default:
	}
	switch v.Kind() {
	case jsonscan.KindNone, jsonscan.KindNull:
		return input{}
	case jsonscan.KindString:
		return input{kind: inputText, first: v}
	case jsonscan.KindArray:
		return listOf(v)
	default:
		return input{kind: inputOther, first: v}
	}
}

func listOf(list jsonscan.Value) input {
	it := list.Iter()
	if !it.Next() {
		return input{}
	}
	in := input{kind: inputOther, first: list}
	switch first := it.Value(); first.Kind() {
	case jsonscan.KindNumber:
		in.kind = inputIDs
	case jsonscan.KindString:
		in = input{kind: inputText, first: first}
		for it.Next() {
			in.rest += len(it.Value().Raw())
		}
	case jsonscan.KindArray:
		in = input{kind: inputIDs, first: first}
		for it.Next() {
			in.rest += it.Value().Len()
		}
	default:
	}
	return in
}

// conversation reports whether the request's prompt is a list of messages.
func conversation(api API, o jsonscan.Object) bool {
	return api == Chat || api == Embeddings && o.Value("messages").Kind() == jsonscan.KindArray
}

// promptless reports whether there is nothing to encode. The engine will have
// something to say about such a request, but that is no concern of ours.
func promptless(api API, o jsonscan.Object) bool {
	switch {
	case api == Messages || conversation(api, o):
		return o.Value("messages").Empty()
	case api == Responses:
		return o.Value("input").Empty() && o.Value("instructions").Empty() && !stateful(o)
	default:
		return inputOf(api, o).kind == inputNone && !o.Value("prompt_embeds").Exists()
	}
}

// hasMedia reports whether a message has a part that is not text: its
// placeholders can't be known without the model's processor.
func hasMedia(messages jsonscan.Value) bool {
	for m := messages.Iter(); m.Next(); {
		content := m.Value().Get("content")
		if content.Kind() != jsonscan.KindArray {
			continue
		}
		for p := content.Iter(); p.Next(); {
			if !isTextPart(p.Value()) {
				return true
			}
		}
	}
	return false
}

func isTextPart(p jsonscan.Value) bool {
	if p.Kind() == jsonscan.KindString {
		return true
	}
	kind, _ := p.Get("type").Text()
	switch string(kind) {
	case "text", "input_text", "output_text", "refusal", "thinking":
		return true
	default:
		return false
	}
}

// cut is a request's wish to shorten its prompt.
type cut struct {
	// to is the number of tokens kept, 0 for all. toModel: the model's length.
	to      int
	toModel bool
	right   bool // keep the beginning; engines keep the end unless told
}

func cutOf(o jsonscan.Object) cut {
	n, ok := o.Value("truncate_prompt_tokens").Int()
	const most = 1 << 30
	switch {
	case !ok || n < -1 || n == 0 || n > most: // none, or refused by the engine
		return cut{}
	case n < 0:
		return cut{toModel: true}
	default:
		return cut{to: int(n), right: o.Value("truncation_side").Is("right")}
	}
}

// ofIDs cuts ids that the client gave, as engines do.
func (c cut) ofIDs(ids []uint32) ([]uint32, error) {
	switch {
	case c.toModel:
		return nil, errTruncation // to what, only the engine knows
	case c.to == 0 || len(ids) <= c.to:
		return ids, nil
	case c.right:
		return ids[:c.to], nil
	default:
		return ids[len(ids)-c.to:], nil
	}
}

// spares reports whether n tokens are few enough not to be cut. Where they are
// not, the tokenizer cuts before it adds its special tokens, and only it knows.
func (c cut) spares(n, modelLen int) bool {
	switch {
	case c.toModel:
		return modelLen > 0 && n <= modelLen
	case c.to > 0:
		return n <= c.to
	default:
		return true
	}
}
