package prompt

import (
	"context"
	"net/http"

	"github.com/kvsteer/kvsteer/internal/jsonscan"
	"github.com/kvsteer/kvsteer/kvcache"
)

// Request is what an Encoder reads. It is not modified.
type Request struct {
	API API
	// Model is the name that the worker knows.
	Model string
	// Body is the JSON request. Don't modify it afterwards either: when ctx ends
	// early, a call to the engine may read it a little longer than Encode. Empty
	// is a request without a prompt.
	Body []byte
	// Object is Body parsed, for callers within this module that have it already.
	// The zero Object means: parse Body.
	Object jsonscan.Object
	// TokenIDs, when not nil, are taken as they are.
	TokenIDs []uint32
	// Engine is a healthy worker that serves Model, for sources that ask one. Its
	// BaseURL is empty when there is none.
	Engine Engine
}

// Engine is an inference server that can be asked to tokenize.
type Engine struct {
	// ID names the instance. What is learned about its endpoints is remembered
	// under it, so that a restarted server starts clean. Empty means BaseURL.
	ID string
	// BaseURL has no trailing slash.
	BaseURL string
	// Header is sent along, for servers that want a key. It is not modified.
	Header http.Header
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
	SourcePrefix
	SourceBytes
)

// String returns the source's name in lower case.
func (k SourceKind) String() string {
	switch k {
	case SourceCaller:
		return "caller"
	case SourceLocal:
		return "local"
	case SourceRender:
		return "render"
	case SourceTokenize:
		return "tokenize"
	case SourcePrefix:
		return "prefix"
	case SourceBytes:
		return "bytes"
	default:
		return "none"
	}
}

// Exact reports whether the encoding holds the engine's token ids, all of them.
func (k SourceKind) Exact() bool { return k >= SourceCaller && k <= SourceTokenize }

// local reports whether the encoding was computed from a model's files.
func (k SourceKind) local() bool { return k == SourceLocal || k == SourcePrefix }

// Encoding is a prompt ready to be hashed. Its slices may be shared with other
// requests and must not be modified.
type Encoding struct {
	Source SourceKind
	// Tokens are exact ids; nil when Source is SourceBytes or SourceNone. Of a
	// request with several prompts they are those of the first one. When Source is
	// SourcePrefix they are the prompt's first ids, and at least one more follows.
	Tokens []uint32
	// Items are the multimodal inputs that Tokens hold placeholders for, by offset.
	Items []kvcache.Item
	// Bytes is the canonical text of the prompt, in prompt order, when Source is
	// SourceBytes: equal prefixes of conversations have equal prefixes of Bytes.
	Bytes []byte
	// Count is the number of prompt tokens of the request: len(Tokens) and those of
	// further prompts, which are estimated unless they are ids; an estimate
	// altogether when Source is SourceBytes or SourcePrefix.
	Count int
	// Assets identifies the model's files that the ids were computed from, when
	// Source is SourceLocal or SourcePrefix and the source says so: equal files, equal
	// Assets.
	Assets string
	// Degraded lists the sources that were tried or passed over before Source,
	// in order; empty when the first applicable one served. An entry about Source
	// itself, which is then the last, says what is not sure about it.
	Degraded []Degradation
}

// Degradation is why one source did not serve.
type Degradation struct {
	Source SourceKind
	// Reason is a short fixed phrase ("deadline exceeded", "endpoint not
	// available"); it never holds any of the prompt.
	Reason string
}

// Source is one way to get token ids. It must be safe for concurrent use and
// return soon after ctx ends.
type Source interface {
	// Kind is what encodings and degradations call this source.
	Kind() SourceKind
	// Encode returns an error when this source can't serve the request exactly;
	// the Encoder then tries the next. [ErrNotApplicable] means that the source has
	// nothing to do with such requests and is not a degradation. The text of a
	// [ReasonError] is shown, that of other errors is not. The Request has its Object.
	Encode(ctx context.Context, r *Request) (Encoding, error)
}

// Prefixer is a Source that knows how prompts begin which it can't serve whole: with
// an image in it, for example, whose placeholders only the engine can count. The
// Encoder asks for the beginning when no source has all of a prompt. What one asks
// of a Source holds for it, too.
type Prefixer interface {
	Source
	// Prefix returns an Encoding with Source [SourcePrefix], or an error as Encode
	// does. Requests that nothing but Encode is for are not applicable.
	Prefix(ctx context.Context, r *Request) (Encoding, error)
}
