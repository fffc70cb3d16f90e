package prompt

import (
	"context"
	"net/http"

	"github.com/kvsteer/kvsteer/kvcache"
)

// API is the dialect and endpoint of a request.
type API uint8

// The request kinds that carry a prompt. The zero value is none of them.
const (
	Chat        API = iota + 1 // POST /v1/chat/completions
	Completions                // POST /v1/completions
	Messages                   // POST /v1/messages
	Responses                  // POST /v1/responses
	Embeddings                 // POST /v1/embeddings
)

// Request is what an Encoder reads. It is not modified.
type Request struct {
	API API
	// Model is the name that the worker knows.
	Model string
	// Body is the JSON request.
	Body []byte
	// TokenIDs, when not nil, are taken as they are.
	TokenIDs []uint32
	// Engine is a healthy worker that serves Model, for sources that ask one. Its
	// BaseURL is empty when there is none.
	Engine Engine
}

// Engine is an inference server that can be asked to tokenize.
type Engine struct {
	// BaseURL has no trailing slash.
	BaseURL string
	Header  http.Header
}

// SourceKind says where an Encoding came from.
type SourceKind uint8

// The sources, most exact first. SourceNone is an empty prompt or no prompt.
const (
	SourceNone SourceKind = iota
	SourceCaller
	SourceLocal
	SourceRender
	SourceTokenize
	SourceBytes
)

// Encoding is a prompt ready to be hashed.
type Encoding struct {
	Source SourceKind
	// Tokens are exact ids; nil when Source is SourceBytes or SourceNone.
	Tokens []uint32
	// Items are the multimodal inputs that Tokens hold placeholders for.
	Items []kvcache.Item
	// Bytes is the canonical text of the prompt, in prompt order, when Source is
	// SourceBytes: equal prefixes of conversations have equal prefixes of Bytes.
	Bytes []byte
	// Count is len(Tokens), or an estimate when Source is SourceBytes.
	Count int
	// Degraded lists the sources that were tried or passed over before Source,
	// in order; empty when the first applicable one served.
	Degraded []Degradation
}

// Degradation is why one source did not serve.
type Degradation struct {
	Source SourceKind
	// Reason is a short fixed phrase ("deadline exceeded", "endpoint not
	// available"); it never holds any of the prompt.
	Reason string
}

// Source is one way to get token ids.
type Source interface {
	// Encode returns an error when this source can't serve the request; the
	// Encoder then tries the next. ErrNotApplicable means that the source has
	// nothing to do with such requests and is not a degradation.
	Encode(ctx context.Context, r *Request) (Encoding, error)
}
