package providers

import (
	"slices"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// The reasons why an Offer doesn't take a request.
const (
	whyAPI       = "it doesn't serve this API"
	whyNoModel   = "it has no model"
	whyImages    = "the model takes no images"
	whyDocuments = "the model takes no documents"
	whyAudio     = "the model takes no audio"
	whyTools     = "the model calls no tools"
	whySchema    = "the model can't be held to a JSON schema"
)

// Takes reports whether a request can be served: its API, natively or by translation, and
// what its body needs of the model, as far as the model is known not to have it. why is a
// fixed phrase. Whether everything in the body can be translated shows when it is: see
// ClassUnsupported.
func (o *Offer) Takes(api prompt.API, body jsonscan.Object) (ok bool, why string) {
	switch {
	case o.model.Name == "":
		return false, whyNoModel
	case !o.native(api) && !o.translates(api):
		return false, whyAPI
	default:
		why = o.lacks(body)
		return why == "", why
	}
}

// Native reports whether the service takes bodies of an API as they are.
func (o *Offer) Native(api prompt.API) bool { return o.native(api) }

// native reports whether the service takes bodies of an API as they are.
func (o *Offer) native(api prompt.API) bool { return slices.Contains(o.apis, api) }

// translates reports whether they can be translated.
func (o *Offer) translates(api prompt.API) bool {
	return o.codec != nil && clientCodec(api) != nil && (o.target == 0 || o.native(o.target))
}

// clientCodec is the codec of an API that clients speak, nil for one that isn't translated.
func clientCodec(api prompt.API) dialect.Client {
	switch api {
	case prompt.Chat:
		return dialect.Chat()
	case prompt.Messages:
		return dialect.Messages()
	case prompt.Responses:
		return dialect.Responses()
	case prompt.Completions, prompt.Embeddings:
		return nil
	default:
		return nil
	}
}

// lacks says what the body needs that the model doesn't have; "" for nothing.
func (o *Offer) lacks(body jsonscan.Object) string {
	c := &o.model.Capabilities
	if c.Tools == SupportNo && body.Value("tools").Len() > 0 {
		return whyTools
	}
	if c.JSONSchema == SupportNo && schema(body) {
		return whySchema
	}
	if c.Images != SupportNo && c.Documents != SupportNo && c.Audio != SupportNo {
		return ""
	}
	for _, turns := range []string{"messages", "input"} {
		for it := body.Value(turns).Iter(); it.Next(); {
			if why := c.parts(it.Value().Get("content")); why != "" {
				return why
			}
		}
	}
	return ""
}

// schema reports whether the answer is to follow a schema, in whichever API.
func schema(body jsonscan.Object) bool {
	for _, format := range []jsonscan.Value{
		body.Value("response_format"), body.Value("text").Get("format"),
		body.Value("output_format"), body.Value("output_config").Get("format"),
	} {
		if format.Get("type").Is("json_schema") {
			return true
		}
	}
	return false
}

// parts looks at the parts of a turn, and at those of a tool's result.
func (c *Capabilities) parts(content jsonscan.Value) string {
	if content.Kind() != jsonscan.KindArray {
		return ""
	}
	for it := content.Iter(); it.Next(); {
		part := it.Value()
		kind, _ := part.Get("type").Text()
		switch string(kind) {
		case "image_url", "image", "input_image":
			if c.Images == SupportNo {
				return whyImages
			}
		case "file", "document", "input_file":
			if c.Documents == SupportNo {
				return whyDocuments
			}
		case "input_audio":
			if c.Audio == SupportNo {
				return whyAudio
			}
		case "tool_result":
			if why := c.parts(part.Get("content")); why != "" {
				return why
			}
		default:
		}
	}
	return ""
}
