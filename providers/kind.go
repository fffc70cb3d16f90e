package providers

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/kvsteer/kvsteer/internal/dialect"
	"github.com/kvsteer/kvsteer/kvcache/prompt"
)

// Kind is a kind of service: [OpenAI], [Anthropic], [AzureOpenAI], [Gemini], and Bedrock
// of module providers/bedrock. Its methods are for this package, and have types that
// nobody outside of this repository can name: to add a kind is to change it here.
//
// A Kind is safe for concurrent use.
type Kind interface {
	// String is the kind's name in files and labels.
	String() string
	// Check says what a provider of the kind lacks. It may set URL, if that is "".
	Check(p *Provider) error
	// APIs are those whose bodies the service takes as they are.
	APIs(p *Provider) []prompt.API
	// Codec translates requests in other APIs, to bodies that the endpoint of that API
	// takes; nil for no translation.
	Codec() (dialect.Service, prompt.API)
	// Endpoint is where a request goes.
	Endpoint(base *url.URL, t *Target) (*url.URL, error)
	// Authorize puts credentials on a request that is complete otherwise; body is what it
	// will send, nil for one that is not held in memory. c is the zero Credential if the
	// provider has no source. An error is of class auth; it is logged.
	Authorize(ctx context.Context, r *http.Request, body []byte, c Credential) error
	// Failure reads an answer with a status of 400 or more.
	Failure(status int, h http.Header, body []byte) *dialect.Failure
	// Quota reads what an answer says of the account's limits.
	Quota(h http.Header, now time.Time, q *Quota)
}

// Framer is a Kind whose streams are not server-sent events.
type Framer interface {
	// Framing returns what takes one stream apart.
	Framing() dialect.Framing
}

// Modeled is a Kind whose codec depends on the model.
type Modeled interface {
	// CodecOf returns the codec of a model, by its name at the provider, in place of Codec's.
	CodecOf(upstream string) dialect.Service
}

// Listed is a Kind that public lists of prices and limits have a name for.
type Listed interface {
	// ListName is that name, "" for none: "openai".
	ListName(p *Provider) string
}

// Target is what an endpoint depends on.
type Target struct {
	// API is whose body is sent; 0: a request without one of these, to Path.
	API prompt.API
	// Path is the client's path from "/v1/" on, in its escaped form, for requests without an API.
	Path string
	// Upstream is the model's name at the provider, "" for none.
	Upstream string
	// Stream reports whether the client wants a stream.
	Stream bool
}
