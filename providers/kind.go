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

// Framer is a Kind whose translated streams are not server-sent events.
type Framer interface {
	// Frames returns what takes a stream apart.
	Frames() Frames
}

// Frames takes one stream apart, as it comes.
type Frames interface {
	// Feed takes the next bytes and calls fn with each frame that they complete: the name
	// of its event and its data, valid during the call. An error means that the stream
	// can't be read any further.
	Feed(p []byte, fn func(name string, data []byte) error) error
	// Close is called at the end of the stream; an error means that it ended within a frame.
	Close() error
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

// Quota is what headers say of an account's limits. Of a limit that they don't speak of,
// Known is false.
type Quota struct {
	Requests, Tokens, InputTokens, OutputTokens Limit
	// RetryAfter is how long to wait, as it was said; Told is whether it was.
	RetryAfter time.Duration
	Told       bool
}

// Limit is one of them.
type Limit struct {
	Known bool
	// Limit is how much there is when all of it is left, 0 for unknown; Remaining is what
	// is left now.
	Limit, Remaining int64
	// Reset is when all of it is there again; the zero time for unknown.
	Reset time.Time
}
