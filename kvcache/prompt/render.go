package prompt

import (
	"cmp"
	"context"
	"slices"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache"
)

// render asks the engine to do to the request all that it would do before
// inference. It takes the request as it is, so that there is no field it can't
// express.
type render struct{ *caller }

func (render) Kind() SourceKind { return SourceRender }

// plan finds the endpoint, or says why there is none for this request.
func (s render) plan(r *Request) (endpoint, error) {
	var at endpoint
	switch r.API {
	case Chat:
		at = renderChat
	case Completions:
		at = renderCompletions
	case Messages:
		at = renderMessages
	case Responses:
		at = renderResponses
		if stateful(r.Object) {
			return 0, errStateful
		}
	default:
		return 0, ErrNotApplicable
	}
	return at, s.health.check(&r.Engine, at)
}

// stateful reports whether the prompt includes what an engine remembers.
func stateful(o jsonscan.Object) bool {
	for _, key := range [...]string{"previous_response_id", "conversation", "prompt"} {
		if !o.Value(key).Empty() {
			return true
		}
	}
	return false
}

// Encode implements Source.
func (s render) Encode(ctx context.Context, r *Request) (Encoding, error) {
	at, err := s.plan(r)
	if err != nil {
		return Encoding{}, err
	}
	var e jsonscan.Edit
	if r.Model != "" {
		e.SetString("model", r.Model)
	}
	// The processed pixels would be megabytes that nobody here reads.
	e.Set("return_mm_kwargs", []byte("false"))
	body, err := e.Apply(r.Object)
	if err != nil {
		return Encoding{}, errSourceFailed
	}
	var out Encoding
	err = s.post(ctx, &r.Engine, at, r.API.Path()+"/render", body, func(v jsonscan.Value) error {
		var first jsonscan.Value
		total := 0
		rendered(v, &first, &total, maxRenderNesting)
		ids, ok := idsOf(first).Uint32s()
		if !ok || len(ids) == 0 {
			return errReply
		}
		items, itemsErr := itemsOf(first.Get("features"), len(ids))
		if itemsErr != nil {
			return itemsErr
		}
		out = exact(SourceRender, ids, total-len(ids))
		out.Items = items
		return nil
	})
	return out, err
}

// maxRenderNesting: replies are an object, a list of objects for several
// prompts, or, in older engines, a conversation beside such a list.
const maxRenderNesting = 2

func idsOf(v jsonscan.Value) jsonscan.Value {
	if ids, ok := v.Field("token_ids"); ok {
		return ids
	}
	return v.Get("prompt_token_ids")
}

// rendered finds the first object with ids and counts the ids of all.
func rendered(v jsonscan.Value, first *jsonscan.Value, total *int, nesting int) {
	if v.Kind() == jsonscan.KindObject {
		if ids := idsOf(v); ids.Kind() == jsonscan.KindArray {
			*total += ids.Len()
			if first.Kind() == jsonscan.KindNone {
				*first = v
			}
		}
		return
	}
	if nesting == 0 || v.Kind() != jsonscan.KindArray {
		return
	}
	for it := v.Iter(); it.Next(); {
		rendered(it.Value(), first, total, nesting-1)
	}
}

// itemsOf pairs the hashes of multimodal inputs with their places. Placeholders
// without hashes would match any image, so they make the encoding inexact.
func itemsOf(features jsonscan.Value, tokens int) ([]kvcache.Item, error) {
	var items []kvcache.Item
	places := features.Get("mm_placeholders")
	hashes := features.Get("mm_hashes")
	for it := places.Iter(); it.Next(); {
		names := hashes.Get(string(it.Key())).Iter()
		for place := it.Value().Iter(); place.Next(); {
			if !names.Next() {
				return nil, errMedia
			}
			id, named := names.Value().Str()
			offset, okOffset := place.Value().Get("offset").Int()
			length, okLength := place.Value().Get("length").Int()
			switch {
			case !named || id == "":
				return nil, errMedia
			case !okOffset || !okLength || offset < 0 || length < 0 || offset > int64(tokens) || length > int64(tokens)-offset:
				return nil, errReply
			}
			items = append(items, kvcache.Item{ID: id, Offset: int(offset), Length: int(length)})
		}
	}
	slices.SortFunc(items, func(a, b kvcache.Item) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Length, b.Length), cmp.Compare(a.ID, b.ID))
	})
	return items, nil
}
